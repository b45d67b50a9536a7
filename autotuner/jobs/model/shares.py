"""Which dispatches take a model's time: from the runtime's own statistics, or each timed alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from autotuner.devices.timer import Module
from autotuner.iree.tools import Tools
from autotuner.jobs.model.dispatch import flops
from autotuner.jobs.model.extract import Group
from autotuner.jobs.model.program import Call
from autotuner.system import process


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


def from_statistics(tools: Tools, module: Module, call: Call, *, device: str, timeout: float) -> Shares | None:
    """What `--dispatch_statistics` says; None where the device does not keep any."""
    done = process.run(
        [
            tools.iree_benchmark_module,
            f"--module={module.vmfb}",
            f"--function={call.function}",
            f"--device={device}",
            *call.arguments,
            "--benchmark_format=json",
            "--benchmark_min_time=0.1s",
            "--dispatch_statistics=true",
        ],
        timeout=timeout,
    )
    if not done.ok:
        return None
    try:
        rows = json.loads(done.stdout)["benchmarks"]
        whole = next(row for row in rows if "percent" not in row)
        us = float(whole["real_time"]) * {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}[whole["time_unit"]]
        parts = {
            str(row["name"]).split("/", 1)[1]: us * float(row["percent"]) / 100 for row in rows if "percent" in row
        }
    except (ValueError, KeyError, StopIteration, IndexError):
        return None
    return Shares(parts, "the runtime's statistics") if parts else None


def repeated(readings: Sequence[Shares]) -> Shares:
    """The median of several."""
    names = dict.fromkeys(name for reading in readings for name in reading.us)
    us = {name: median(reading.us.get(name, 0.0) for reading in readings) for name in names}
    return Shares(us, readings[0].how)


def by_work(groups: Sequence[Group]) -> Shares:
    """Without a device: by the arithmetic of each, which is an estimate."""
    us = {p.export: float(flops(group.root) * p.calls) for group in groups for p in group.pieces}
    return Shares(us, "the arithmetic of each: an estimate")
