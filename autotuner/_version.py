"""The versions, in a file that imports nothing, so that the build can read it."""

__version__ = "0.3.0.dev0"
IREE = "3.13"
"""The release that specs are written for. pyproject.toml says the same."""
IREE_RANGE = ">=3.13,<3.14"
