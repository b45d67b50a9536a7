"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import here

__all__ = ["here"]


@pytest.fixture
def warm_cache(tmp_path: Path, together: Path, share_digests: Callable[[Path], None]) -> Path:
    """The cache that commands have in `tmp_path`: the compiler is known there, and what other tests have built."""
    cache = tmp_path / "cache"
    share_digests(cache)
    (cache / "builds").symlink_to(together / "builds")
    return cache
