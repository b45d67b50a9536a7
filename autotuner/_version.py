"""The versions, in a file that imports nothing, so that the build can read it."""

__version__ = "0.1.0"
IREE_OLDEST = "3.12"
IREE_NEWEST = "3.13"
"""The oldest and the newest release that specs are written for; CI runs on both. pyproject.toml says the same."""
IREE_RANGE = ">=3.12,<3.14"
