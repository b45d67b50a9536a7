"""Which dispatches take a model's time: from the runtime's own statistics, or each timed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotuner.iree.benchmark import DispatchTime
from autotuner.programs.dispatch import called_flops
from autotuner.programs.flow import Group

STATISTICS = "the runtime's statistics"


@dataclass(frozen=True, slots=True)
class Shares:
    """µs of one call of the model that each dispatch takes, by its export's name."""

    us: dict[str, float]
    how: str
    timed_alone: bool = False
    """Each dispatch was timed by itself, which takes long."""
    estimated: bool = False
    """Some are no times: only their proportions mean something."""

    @property
    def total(self) -> float:
        return sum(self.us.values())

    def of(self, exports: Sequence[str]) -> float:
        """Their part of the whole."""
        return sum(self.us.get(name, 0.0) for name in exports) / self.total if self.total else 0.0

    def idle(self, exports: Sequence[str]) -> bool:
        """The runtime counts what runs, and has counted none of these."""
        return self.how == STATISTICS and not any(name in self.us for name in exports)


def from_statistics(times: Mapping[str, DispatchTime] | None) -> Shares | None:
    """What the runtime says of each dispatch; None where the device keeps no statistics."""
    return Shares({name: time.us for name, time in times.items()}, STATISTICS) if times else None


def repeated(readings: Sequence[Shares]) -> Shares:
    """The least of several: what else goes on in the machine can only add to it."""
    names = dict.fromkeys(name for reading in readings for name in reading.us)
    us = {name: min(reading.us.get(name, 0.0) for reading in readings) for name in names}
    return Shares(us, readings[0].how)


def by_work(groups: Sequence[Group]) -> Shares:
    """By the arithmetic of each, which is an estimate: without a device, and where nothing is timed yet."""
    us = {p.export: float(called_flops(p, group.root)) for group in groups for p in group.pieces}
    return Shares(us, "the arithmetic of each: an estimate", estimated=True)
