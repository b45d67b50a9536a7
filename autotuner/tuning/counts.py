"""How many candidates came how far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotuner.iree.compile import FAILURE_CLASSES, FailureClass

_STEPS = ("space", "asked", "routes", "built", "cached", "duplicate", "checked", "timed", "rivals")


@dataclass(frozen=True)
class Counts:
    """The candidates of a run in numbers; `failed` has every class of failures."""

    space: int = 0
    asked: int = 0
    """All that was to be built: configurations of the space, IREE's default, and routes."""
    routes: int = 0
    """Of those asked: the default and routes, which are not of the space."""
    built: int = 0
    cached: int = 0
    duplicate: int = 0
    checked: int = 0
    timed: int = 0
    rivals: int = 0
    """Of those timed: all but the default."""
    failed: Mapping[FailureClass, int] = field(default_factory=lambda: dict.fromkeys(FAILURE_CLASSES, 0))

    @classmethod
    def total(cls, counts: Iterable[Counts]) -> Counts:
        """The counts of many runs as one."""
        runs = list(counts)
        failed = {name: sum(run.failed.get(name, 0) for run in runs) for name in FAILURE_CLASSES}
        return cls(**{step: sum(getattr(run, step) for run in runs) for step in _STEPS}, failed=failed)

    def to_json(self) -> dict[str, Any]:
        return {**{step: getattr(self, step) for step in _STEPS}, "failed": dict(self.failed)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Counts:
        failed = {name: int(table["failed"].get(name, 0)) for name in FAILURE_CLASSES}
        return cls(**{step: int(table.get(step, 0)) for step in _STEPS}, failed=failed)
