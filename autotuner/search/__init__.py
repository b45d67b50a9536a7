"""Which configuration next: ask for some, tell what they came to. Optuna is imported when a search begins."""

GUIDED = "guided"
"""The sampler of autotune's own."""
