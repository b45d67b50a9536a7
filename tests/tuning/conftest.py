"""Whole runs without timing anything: the compiler and the check are real, the benchmark reports chosen times.

The programs that a run calls are wrapped in small shell scripts. A module's label (its compile flags and its spec)
is written down when it is built, so that the benchmark can look up what it is timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import here
from tests.support.fake_tools import (
    Cli,
    FakeTools,
)

__all__ = ["cache", "cli", "fake", "here", "workspace"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share_digests: Callable[[Path], None]) -> Path:
    """A build cache of its own for every test."""
    folder = tmp_path / "cache"
    share_digests(folder)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(folder))
    monkeypatch.setenv("NO_COLOR", "1")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def fake(tmp_path: Path, cache: Path, warm: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeTools]:
    """Makes wrapped programs. Their builds are shared with other tests, but where it is to be `cold`."""

    def make(*, cold: bool = False, **settings: Any) -> FakeTools:
        where = cache.parent if cold else warm
        monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(where / "cache"))
        return FakeTools(tmp_path / "fake", where / "labels", **settings)

    return make


@pytest.fixture
def cli(fake: Callable[..., FakeTools], workspace: Path) -> Iterator[Callable[..., Cli]]:
    """Makes command lines; whatever still runs at the end is killed."""
    made: list[Cli] = []

    def make(*, routes: int = 1, **settings: Any) -> Cli:
        made.append(Cli(fake(**settings), workspace, routes))
        return made[-1]

    yield make
    for one in made:
        one.close()
