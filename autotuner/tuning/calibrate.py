"""Before anything is compared: the baseline must build and run, and say how the device is to be timed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from autotuner.build import Builder, Compiled
from autotuner.devices.device import Device, Timing, choose_repeat
from autotuner.errors import DeviceError, NoCandidateError, WrongResultError
from autotuner.iree.benchmark import Benchmark, CacheState
from autotuner.iree.run import failed_because
from autotuner.measure.check import Check, Checker, Data
from autotuner.measure.noise import lengthened
from autotuner.system.progress import clocked
from autotuner.tuning.effort import Effort
from autotuner.tuning.plan import Plan
from autotuner.tuning.steps import Step, Steps

_LISTENED = 5
"""Repetitions of the baseline against itself."""
_ON_GPU = 0.5
"""Of a repetition's length: a device that nothing else runs on spreads by a third of a percent."""
_LENGTHENED, _NEARLY = 2, 1.5
"""How often the repeats are chosen, at most; and what is near enough."""


@dataclass(frozen=True)
class Calibration:
    """How candidates are checked and timed on this device."""

    device: Device
    checker: Checker
    benchmark: Benchmark
    repeat: int
    """How often candidates repeat their dispatches."""
    baseline: Compiled
    """With so many repeats."""
    timing_seconds: float
    """What one timing costs in wall time, the process included."""
    isolated_seconds: float
    """What one costs in a process of its own."""
    heard: Timing
    """The baseline against itself."""
    default: Check
    """Whether the baseline is right: where the right answers are known without it, it need not be."""
    noise: str | None = None
    """What a user must know of the device's noise."""


@dataclass(frozen=True)
class Calibrator:
    """Finds out on IREE's default how a device is to be timed."""

    plan: Plan
    builder: Builder
    device: Device
    data: Data
    effort: Effort
    seconds: dict[str, float]
    """What building and timing take is added to."""
    confirmed: bool = True
    """A win is confirmed in processes of their own; not so where something larger is the judge."""
    cache: CacheState = "warm"
    """In the timings that follow."""

    def steps(self) -> Steps[Calibration]:
        """Builds and timings in order: with other problems beside it, neither need wait for the other."""
        first: Compiled = yield Step("builders", self._first_build)
        if not first.ok:
            raise NoCandidateError(
                f"IREE's default does not compile: {first.stderr.strip()[-300:]}", remedy="Check --flag and --target."
            )
        lasting = self.effort.repetition_seconds * (1.0 if self.plan.target.compiles_on_device else _ON_GPU)
        benchmark = Benchmark(self.data.invocation(), lasting, self.effort.run_timeout)
        checker: Checker
        check: Check
        heard: Timing
        seconds: float
        checker, check, heard = yield Step("device", partial(self._first_run, first, benchmark))
        baseline = first
        # What a single call takes is mostly overhead: how often to repeat shows only when it is repeated.
        for _ in range(_LENGTHENED):
            # Twice the shortest invocation: a candidate of twice the baseline's speed still lasts long enough.
            repeat = choose_repeat(heard.median, invocation_us=2 * self.device.invocation_us)
            known = baseline
            baseline = yield Step("builders", partial(self._build, repeat=repeat, known=known))
            if baseline is known or not baseline.ok:
                break
            heard, _ = yield Step("device", partial(self._time, baseline, benchmark, repetitions=1))
            if not heard.ok:
                break
        if heard.ok and baseline.ok:  # by now the device is in the state in which all is timed
            heard, seconds = yield Step("device", partial(self._time, baseline, benchmark, repetitions=_LISTENED))
        if heard.ok and baseline.ok and self.cache == "cold":
            # Of single calls; the default that repeats is the device's load by now.
            baseline, benchmark = first, replace(benchmark, cache="cold")
            heard, seconds = yield Step("device", partial(self._time, baseline, benchmark, repetitions=_LISTENED))
        if not heard.ok or not baseline.ok:
            why = failed_because(heard.detail or baseline.stderr)
            raise DeviceError(
                f"the baseline does not run with repeated dispatches: {why}",
                remedy="Please report it with the command.",
            )
        # Five repetitions take longer than the three of a race; that covers longer ones on a noisy device as well.
        found = Calibration(self.device, checker, benchmark, baseline.repeat, baseline, seconds, seconds, heard, check)
        found = self._lengthened(found)
        if self.confirmed and self.cache == "warm" and self.device.isolated is not self.device:
            # With what a confirmation times: a module that is long enough for a process of its own.
            repeat = choose_repeat(heard.median)
            long: Compiled = yield Step("builders", partial(self._build, repeat=repeat, known=baseline))
            measured = partial(self._isolated_seconds, long if long.ok else baseline, found.benchmark)
            found = replace(found, isolated_seconds=(yield Step("device", measured)))
        return found

    def _first_build(self) -> Compiled:
        """The default; where compiles disturb no timing, the right answers are computed meanwhile."""
        if self.plan.target.compiles_on_device:
            return self._build(repeat=1)
        with ThreadPoolExecutor(1) as beside:
            answers = beside.submit(lambda: self.data.expected)
            built = self._build(repeat=1)
            answers.result()
        return built

    def _first_run(self, first: Compiled, benchmark: Benchmark) -> tuple[Checker, Check, Timing]:
        """Is it right, and about how long does it take?"""
        with clocked(self.seconds, "time"):
            checker, check = self._checker(first)
        rough, _ = self._time(first, benchmark, repetitions=1)
        if not rough.ok:
            raise DeviceError(
                f"the baseline cannot be timed on {self.device.uri!r}: {failed_because(rough.detail)}",
                remedy="`autotune doctor` lists the devices that answer.",
            )
        return checker, check, rough

    def _build(self, *, repeat: int, known: Compiled | None = None) -> Compiled:
        job = self.plan.job(self.plan.baseline, timeout=self.effort.compile_timeout, repeat=repeat, timed=True)
        # Not everything may be repeated, and what is nearly long enough need not be.
        if known is not None and known.repeat <= job.repeat <= _NEARLY * known.repeat:
            return known
        with clocked(self.seconds, "build"):
            made = self.builder.build(job)
        # What was compiled a moment ago is not what the cache spared us.
        return made if known is None else replace(made, cached=known.cached)

    def _checker(self, build: Compiled) -> tuple[Checker, Check]:
        """What holds all to the right answers, and what it says of the baseline."""
        checker = self.data.checker(self.device, timeout=self.effort.run_timeout)
        checker, check = (checker, checker.check(build.vmfb)) if self.data.knows else checker.trusting(build.vmfb)
        if check.failure in ("run-error", "run-timeout"):
            raise DeviceError(
                f"device {self.device.uri!r} does not run the baseline: {failed_because(check.detail)}",
                remedy="`autotune doctor` lists the devices that answer; --device none only compiles.",
            )
        if check.failure is not None and not self.data.knows:
            raise WrongResultError(
                f"IREE's default already computes wrong results here ({check.detail}).",
                remedy="Nothing can be tuned against it: please report it to IREE.",
            )
        return checker, check

    def _time(self, build: Compiled, benchmark: Benchmark, *, repetitions: int) -> tuple[Timing, float]:
        """A timing, and the seconds that it took."""
        started = time.monotonic()
        with clocked(self.seconds, "time"):
            timing = self.device.time(build, benchmark, repetitions=repetitions)
        return timing, time.monotonic() - started

    def _isolated_seconds(self, build: Compiled, benchmark: Benchmark) -> float:
        started = time.monotonic()
        with clocked(self.seconds, "time"):
            self.device.isolated.time(build, benchmark)
        return time.monotonic() - started

    def _lengthened(self, found: Calibration) -> Calibration:
        """On a device that is too noisy repetitions are lengthened, and it is said."""
        benchmark, noise = lengthened(found.benchmark, found.heard, smallest_gain=self.effort.smallest_gain)
        return replace(found, benchmark=benchmark, noise=noise)
