"""Which dispatches take a model's time: from the runtime's own statistics, or each timed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from autotuner.devices.device import Device
from autotuner.iree.run import Invocation
from autotuner.jobs.model.dispatch import flops
from autotuner.jobs.model.extract import Group


@dataclass(frozen=True, slots=True)
class Shares:
    """µs of one call of the model that each dispatch takes, by its export's name."""

    us: dict[str, float]
    how: str

    @property
    def total(self) -> float:
        return sum(self.us.values())

    def of(self, exports: Sequence[str]) -> float:
        """Their part of the whole."""
        return sum(self.us.get(name, 0.0) for name in exports) / self.total if self.total else 0.0


def from_statistics(device: Device, vmfb: Path, call: Invocation, *, timeout: float) -> Shares | None:
    """What the runtime says of each dispatch; None where the device keeps no statistics."""
    us = device.dispatch_us(vmfb, call, timeout=timeout)
    return Shares(dict(us), "the runtime's statistics") if us else None


def repeated(readings: Sequence[Shares]) -> Shares:
    """The median of several."""
    names = dict.fromkeys(name for reading in readings for name in reading.us)
    us = {name: median(reading.us.get(name, 0.0) for reading in readings) for name in names}
    return Shares(us, readings[0].how)


def by_work(groups: Sequence[Group]) -> Shares:
    """Without a device: by the arithmetic of each, which is an estimate."""
    us = {p.export: float(flops(group.root) * p.calls) for group in groups for p in group.pieces}
    return Shares(us, "the arithmetic of each: an estimate")
