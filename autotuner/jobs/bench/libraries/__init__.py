"""Scripts that other Pythons run: each needs numpy and its library, and nothing of this package."""
