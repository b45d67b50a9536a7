"""The versions, in a file that imports nothing, so that the build can read it."""

__version__ = "0.1.0"
IREE_VERSION = "3.13.0"
"""The release whose spelling our specs follow."""
