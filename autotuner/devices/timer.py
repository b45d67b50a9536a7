"""How fast: iree-benchmark-module on a module that repeats its dispatches, one candidate at a time."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Protocol

from autotuner.iree.compile import FailureClass
from autotuner.iree.tools import Tools
from autotuner.system import process

_UNIT_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
INVOCATION_US = 20_000.0
"""An invocation must last this long: below, start-up and allocation are part of the number."""
MAX_REPEAT = 2048
ABORT_FACTOR = 3.0


class Feed(Protocol):
    """What a module is called with."""

    @property
    def function(self) -> str: ...

    @property
    def arguments(self) -> list[str]:
        """The flags that IREE's tools take its inputs by."""


class Module(Protocol):
    """What is timed, and how often it repeats its dispatches."""

    @property
    def vmfb(self) -> Path: ...

    @property
    def repeat(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """Raw repetitions in µs per execution of the problem, or why there are none."""

    us: tuple[float, ...]
    failure: FailureClass | None = None
    detail: str = ""
    aborted: bool = False
    """Stopped after the first repetition: so slow that more would tell nothing."""

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def median(self) -> float:
        return median(self.us) if self.us else math.inf


@dataclass(frozen=True)
class Timer:
    """Times modules on one device."""

    tools: Tools
    data: Feed
    device: str
    timeout: float
    min_time: float = 0.02
    """Seconds a repetition, at least."""
    quick_start: bool = True
    """A process starts in less time than two repetitions take; not so on a GPU, whose driver wants most of a second."""

    def screen(self, build: Module, *, best_us: float) -> Timing:
        """Three short repetitions; only one when that is already 3x the best."""
        if not self.quick_start:
            return self.time(build, repetitions=3)
        first = self.time(build, repetitions=1)
        if not first.ok or first.median > ABORT_FACTOR * best_us:
            return Timing(first.us, first.failure, first.detail, aborted=first.ok)
        more = self.time(build, repetitions=2)
        return Timing(first.us + more.us, more.failure, more.detail)

    def time(self, build: Module, *, repetitions: int) -> Timing:
        done = process.run(self.command(build.vmfb, repetitions=repetitions), timeout=self.timeout)
        if done.timed_out:
            return Timing((), "run-timeout", done.why())
        if not done.ok:
            return Timing((), "run-error", done.why())
        try:
            return Timing(tuple(_repetitions(done.stdout, repeat=build.repeat)))
        except (ValueError, KeyError, TypeError) as error:
            return Timing((), "run-error", f"iree-benchmark-module printed no times ({error}): {done.why()}")

    def command(self, vmfb: Path, *, repetitions: int) -> list[str]:
        return [
            str(self.tools.iree_benchmark_module),
            f"--module={vmfb}",
            f"--function={self.data.function}",
            f"--device={self.device}",
            *self.data.arguments,
            "--benchmark_format=json",
            f"--benchmark_repetitions={repetitions}",
            f"--benchmark_min_time={self.min_time:g}s",
            f"--benchmark_min_warmup_time={self.min_time:g}",
        ]


def choose_repeat(us: float, *, invocation_us: float = INVOCATION_US) -> int:
    """How often to repeat the dispatches so that one invocation lasts long enough."""
    return max(1, min(MAX_REPEAT, math.ceil(invocation_us / max(us, 1e-3))))


def _repetitions(text: str, *, repeat: int) -> list[float]:
    runs = [b for b in json.loads(text)["benchmarks"] if b.get("run_type") == "iteration"]
    if not runs:
        raise ValueError("no repetition in it")
    for run in runs:
        if run.get("error_occurred"):
            raise ValueError(run.get("error_message") or "it reports an error")
    return [float(b["real_time"]) * _UNIT_US[b["time_unit"]] / repeat for b in runs]
