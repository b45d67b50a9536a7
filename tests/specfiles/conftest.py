"""The `autotune` command in this process."""

from tests.support.spec_files import autotune

__all__ = ["autotune"]
