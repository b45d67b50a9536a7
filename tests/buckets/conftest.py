"""The `autotune` command in this process, as the tests of spec files have it."""

from tests.specfiles.conftest import autotune

__all__ = ["autotune"]
