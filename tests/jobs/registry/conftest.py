"""A build cache that these tests share, and a registry of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.devices.environment import described
from autotuner.iree.tools import Tools
from autotuner.registry import Registry, RegistryEntry
from tests.support.registries import entry

Make = Callable[..., RegistryEntry]


@pytest.fixture(autouse=True)
def cache(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def known(tmp_path: Path, tools: Tools) -> Make:
    """known(problem=…): an entry of this machine and IREE, in the registry of the workspace."""

    def make(**changes: object) -> RegistryEntry:
        one = entry(**{"sku": described("local-task").name, "iree": tools.release, **changes})
        there = Registry.open(tmp_path).entries
        Registry.of([*there, one]).write(tmp_path / "registry")
        return one

    return make
