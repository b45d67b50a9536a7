"""Calibration: the baseline must run; its times say how the device is to be timed.

Where its modules come from is another's matter: a builder makes one that lasts so long, a bundle has some of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from autotuner.devices.device import INVOCATION_US, NO_DEVICE_HERE, Device, Module, Timing, choose_repeat
from autotuner.errors import DeviceError, NoCandidateError, WrongResultError
from autotuner.iree.run import Benchmark, CacheState, failed_because
from autotuner.measure.check import Check, Checker, Data
from autotuner.measure.clock import Clock
from autotuner.measure.contest import REPETITIONS
from autotuner.measure.schedule import Schedule, beginning
from autotuner.system.execution import local_executor
from autotuner.system.progress import clocked

LISTENED = 5
"""Repetitions of the baseline against itself."""
_ON_GPU = 0.5
"""Of a repetition's length: a device that nothing else runs on spreads by a third of a percent."""
_LENGTHENED = 2
"""How often the repeats are chosen, at most."""


class Thoroughness(Protocol):
    """How thoroughly a run measures, by its effort or by its bundle."""

    @property
    def race_entrants(self) -> int: ...

    @property
    def smallest_gain(self) -> float: ...

    @property
    def run_timeout(self) -> float: ...

    @property
    def repetition_seconds(self) -> float: ...


class Made(Module, Protocol):
    """A module, or why there is none."""

    @property
    def ok(self) -> bool: ...

    @property
    def stderr(self) -> str: ...


M = TypeVar("M", bound=Made)
Make = Callable[[int, M | None], M]
"""IREE's default with this many repeats of its dispatches; the second is an earlier build, which may do."""


@dataclass(frozen=True)
class Calibration(Generic[M]):
    """How candidates are checked and timed on this device."""

    device: Device
    checker: Checker
    benchmark: Benchmark
    repeat: int
    """How often candidates repeat their dispatches."""
    baseline: M
    """With this many repeats."""
    timing_seconds: float
    """Wall time of one timing, the process included."""
    isolated_seconds: float
    """The same in a process of its own."""
    heard: Timing
    """The baseline against itself."""
    default: Check
    """Whether the baseline is right: where the right answers are known without it, it need not be."""

    def schedule(
        self,
        clock: Clock,
        thoroughness: Thoroughness,
        *,
        building: float = 0.0,
        shipping: float = 0.0,
        judges: bool = True,
    ) -> Schedule:
        """For the rest of the run, by the default's times."""
        # The race's modules last long enough for iree-benchmark-module as well; those of a short comparison need not.
        longer = judges and self.device.isolated is not self.device
        timing = self.timing_seconds + ((REPETITIONS + 1) * INVOCATION_US / 1e6 if longer else 0.0)
        return Schedule(
            clock,
            timing,
            self.isolated_seconds if self.benchmark.cache == "warm" else timing,
            baseline_us=self.heard.median,
            best_us=self.heard.median,
            lasting=self.benchmark.seconds,
            entrants=thoroughness.race_entrants,
            building=building,
            shipping=shipping,
            judges=judges,
        )


@dataclass(frozen=True)
class Calibrator(Generic[M]):
    """Calibrates a device on IREE's default."""

    make: Make[M]
    device: Device
    data: Data
    thoroughness: Thoroughness
    seconds: dict[str, float]
    """What timing takes is added to `time`."""
    on_cores: bool
    """Other work disturbs its timings: the device is the processor itself."""
    look: str = NO_DEVICE_HERE
    """The remedy where a device does not run the default."""
    confirmed: bool = True
    """A win is confirmed in processes of their own; not so where something larger is the judge."""
    cache: CacheState = "warm"
    """In the timings that follow."""

    def first_build(self) -> M:
        """IREE's default, before a device is needed; where compiles disturb no timing, the right answers are computed
        meanwhile."""
        if self.on_cores:
            built = self._built()
        else:
            with local_executor(1) as beside:
                answers = beside.submit(self._answers)
                built = self._built()
                answers.result()
        if not built.ok:
            from autotuner.iree.compile import first_error  # where modules only run there is no compiler

            why = first_error(built.stderr)
            raise NoCandidateError(f"IREE's default does not compile: {why}", remedy="Check --flag and --target.")
        return built

    def calibrated(self, first: M) -> Calibration[M]:
        """The first run of the default on the device."""
        lasting = self.thoroughness.repetition_seconds * (1.0 if self.on_cores else _ON_GPU)
        benchmark = Benchmark(self.data.invocation(), lasting, self.thoroughness.run_timeout)
        checker, check, rough = self._first_run(first, benchmark)
        with beginning("timing it"):
            return self._timed(first, benchmark, checker, check, rough)

    def _timed(self, first: M, benchmark: Benchmark, checker: Checker, check: Check, heard: Timing) -> Calibration[M]:
        """Once it has run: with as many repeats as it takes, against itself."""
        seconds: float
        baseline = first
        # What a single call takes is mostly overhead: how often to repeat shows only when it is repeated.
        for _ in range(_LENGTHENED):
            # Twice the shortest invocation: a candidate of twice the baseline's speed still lasts long enough.
            repeat = choose_repeat(heard.median, invocation_us=2 * self.device.invocation_us)
            known = baseline
            baseline = self.make(repeat, known)
            if baseline is known or not baseline.ok:
                break
            heard, _ = self._time(baseline, benchmark, repetitions=1)
            if not heard.ok:
                break
        if heard.ok and baseline.ok:  # by now the device is in the state in which all is timed
            heard, seconds = self._time(baseline, benchmark, repetitions=LISTENED)
        if heard.ok and baseline.ok and self.cache == "cold":
            # Of single calls; the default that repeats is the device's load by now.
            baseline, benchmark = first, replace(benchmark, cache="cold")
            heard, seconds = self._time(baseline, benchmark, repetitions=LISTENED)
        if not heard.ok or not baseline.ok:
            why = failed_because(heard.detail or baseline.stderr)
            raise DeviceError(
                f"the baseline does not run with repeated dispatches: {why}",
                remedy="Please report it with the command.",
            )
        # This timing had LISTENED repetitions and a warm-up; others have fewer.
        one = max(benchmark.seconds, heard.median * baseline.repeat / 1e6)
        seconds = max(seconds - (LISTENED - REPETITIONS) * one, (REPETITIONS + 1) * one)
        found = Calibration(self.device, checker, benchmark, baseline.repeat, baseline, seconds, seconds, heard, check)
        if self.confirmed and self.cache == "warm" and self.device.isolated is not self.device:
            # With what a confirmation times: a module that is long enough for a process of its own.
            repeat = choose_repeat(heard.median)
            long = self.make(repeat, baseline)
            seconds = self._isolated_seconds(long if long.ok else baseline, found.benchmark)
            found = replace(found, isolated_seconds=seconds)
        return found

    def _built(self) -> M:
        with beginning("the compile of IREE's default"):
            return self.make(1, None)

    def _answers(self) -> bool:
        """Computed where they are not yet; False where there are none without a run of the default."""
        with beginning("the computation of the right answers"):
            return self.data.knows

    def _first_run(self, first: M, benchmark: Benchmark) -> tuple[Checker, Check, Timing]:
        """Is it right, and about how long does it take?"""
        with clocked(self.seconds, "time"):
            checker, check = self._checker(first)
        with beginning("the first run of IREE's default"):
            rough, _ = self._time(first, benchmark, repetitions=1)
        if not rough.ok:
            raise DeviceError(
                f"the baseline cannot be timed on {self.device.uri!r}: {failed_because(rough.detail)}",
                remedy=self.look,
            )
        return checker, check, rough

    def _checker(self, build: M) -> tuple[Checker, Check]:
        """The checker, and its answer for the baseline."""
        knows = self._answers()
        checker = self.data.checker(self.device, timeout=self.thoroughness.run_timeout)
        with beginning("the first run of IREE's default"):
            checker, check = (checker, checker.check(build.vmfb)) if knows else checker.trusting(build.vmfb)
        if check.failure in ("run-error", "run-timeout"):
            raise DeviceError(
                f"device {self.device.uri!r} does not run the baseline: {failed_because(check.detail)}",
                remedy=self.look,
            )
        if check.failure is not None and not self.data.knows:
            raise WrongResultError(
                f"IREE's default already computes wrong results here ({check.detail}).",
                remedy="Nothing can be tuned against it: please report it to IREE.",
            )
        return checker, check

    def _time(self, build: M, benchmark: Benchmark, *, repetitions: int) -> tuple[Timing, float]:
        """A timing, and the seconds that it took."""
        started = time.monotonic()
        with clocked(self.seconds, "time"):
            timing = self.device.time(build, benchmark, repetitions=repetitions)
        return timing, time.monotonic() - started

    def _isolated_seconds(self, build: M, benchmark: Benchmark) -> float:
        started = time.monotonic()
        with clocked(self.seconds, "time"):
            self.device.isolated.time(build, benchmark)
        return time.monotonic() - started
