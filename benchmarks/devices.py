"""Several devices on one host: how many candidates a second the pool brings through, and what that costs it.

python -m benchmarks.devices [--without-rows]

The compiler and the timer are sleeps of what they really take; the pool, its threads and the rows of the results
database are real. A build keeps one core busy on a real host: so many builders are here as keep up.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import tempfile
import time
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from autotuner.build import Compiled
from autotuner.devices.device import Device, Timing
from autotuner.devices.many import Devices
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.space.table import Config
from autotuner.store.rows import BuildRow, NewRun
from autotuner.store.store import Store
from autotuner.system.execution import local_executor
from autotuner.targets import PLAIN
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate
from autotuner.tuning.pool import Measure, Pool
from benchmarks.machine import machine

BUILD_SECONDS, TIMING_SECONDS = 1.2, 0.15
BUILDERS = 12
"""For each device: eight keep one busy, and the pool keeps half as many more under way."""


@dataclass
class SleepingLane:
    """Candidates whose builds and timings are sleeps, and whose rows are real."""

    store: Store | None
    """None: the pool alone, without rows."""
    run: str
    executor: Executor
    left: int
    ordinal: int = 0
    first: float = math.inf
    """When the first timing began."""
    told: list[str] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.left

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        return [self._begin() for _ in range(min(count, self.left))]

    def _begin(self) -> tuple[Outcome, Future[Compiled]]:
        name, config = f"c{self.ordinal:04d}", Config((("tile", self.ordinal),))
        row = self.store.add_candidate(self.run, ordinal=self.ordinal, config=config) if self.store else self.ordinal
        self.ordinal += 1
        self.left -= 1
        return Outcome(Candidate(name, "codegen", PLAIN, 1), row), self.executor.submit(_build, name)

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure:
        if self.store:
            self.store.record_build(BuildRow(outcome.row, build.seconds, False, build.binary, 1, (), str(build.vmfb)))
        return self._measure

    def _measure(self, device: Device) -> Measured:
        self.first = min(self.first, time.monotonic())
        time.sleep(TIMING_SECONDS)
        return Measured(Check(None, 0.0), Timing((1.0, 1.0, 1.0)), device=device.uri)

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        if self.store and measured.timing is not None:
            self.store.record_check(outcome.row, error=measured.check.error)
            self.store.record_timing(outcome.row, measured.timing, phase="screen", block=0)
        self.told.append(measured.device)


def _build(name: str) -> Compiled:
    time.sleep(BUILD_SECONDS)
    return Compiled(None, "", BUILD_SECONDS, (), Path(name), binary=name, applied=1)


@dataclass(frozen=True)
class Figures:
    """What some devices came to."""

    devices: int
    rate: float
    """Candidates a second, from the first timing on."""
    busy: float
    """Of the devices' time, the part in which they timed."""
    cpu: float
    """Core-seconds of the coordinator for each second."""

    def line(self, one: float) -> str:
        return (
            f"{self.devices} devices: {self.rate:6.2f} candidates/s, {100 * self.rate / (self.devices * one):5.1f} % of"
            f" linear, devices busy {100 * self.busy:5.1f} %, coordinator {self.cpu:.3f} cores"
        )


def measured(count: int, *, each: int, rows: bool = True) -> Figures:
    """So many devices, with so many candidates for each."""
    devices = Devices(tuple(cast(Device, SimpleNamespace(uri=f"fake://{number}")) for number in range(count)))
    jobs = BUILDERS * count
    with tempfile.TemporaryDirectory() as folder, Store.open(None, workspace=Path(folder)) as store:
        new = NewRun("single", "key", (), {"op": "gemm", "name": "gemm"}, "sm_80", "fake", 0)
        with local_executor(jobs) as executor:
            lane = SleepingLane(store if rows else None, store.start_run(new), executor, each * count)
            cpu = time.process_time()
            Pool(jobs, True, lambda: False, {}, devices, lane).run()
            ended, spent = time.monotonic(), time.process_time() - cpu
    assert len(lane.told) == each * count
    lasted = ended - lane.first
    busy = sum(devices.seconds.values()) / (count * lasted)
    return Figures(count, len(lane.told) / lasted, busy, spent / lasted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--each", type=int, default=100, help="candidates for each device")
    parser.add_argument("--without-rows", action="store_true", help="the pool alone, without the results database")
    words = parser.parse_args()
    print(f"machine: {machine()}")
    print(f"a build sleeps {BUILD_SECONDS} s, a timing {TIMING_SECONDS} s; {BUILDERS} builders for each device")
    one = 0.0
    for count in words.devices:
        found = measured(count, each=words.each, rows=not words.without_rows)
        one = one or found.rate / count
        print(found.line(one), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory: {peak:.0f} MiB at the most; load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
