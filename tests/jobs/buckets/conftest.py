"""The `autotune` command in this process, as the tests of spec files have it."""

from tests.support.spec_files import autotune

__all__ = ["autotune"]
