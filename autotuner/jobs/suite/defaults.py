"""How long IREE's default takes for each problem: what the shares of a workload are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.device import Timing, choose_repeat
from autotuner.errors import AutotuneError, DeviceError, NoCandidateError, OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.compile import first_error
from autotuner.iree.run import failed_because
from autotuner.measure.check import Data, too_large
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from autotuner.tuning.effort import Effort
from autotuner.tuning.session import Session

REPETITIONS = 3


@dataclass(frozen=True)
class Default:
    """The default's time, or why there is none."""

    us: float | None
    error: AutotuneError | None = None


@dataclass(frozen=True)
class DefaultTimer:
    """Builds and times defaults: a handful at a time, so that the compiler is not on the cores being timed."""

    target: Target
    session: Session
    builder: Builder
    effort: Effort
    seed: int
    jobs: int

    def time(
        self, problems: Sequence[Problem], *, should_stop: Callable[[], bool]
    ) -> Iterator[tuple[Problem, Default]]:
        """Each problem's default, in order, until it is told to stop."""
        size = 2 * self.jobs
        for start in range(0, len(problems), size):
            with self.builder.cache.scratch() as folder:
                yield from self._several(problems[start : start + size], folder, should_stop=should_stop)
            if should_stop():
                return

    def _several(
        self, problems: Sequence[Problem], folder: Path, *, should_stop: Callable[[], bool]
    ) -> Iterator[tuple[Problem, Default]]:
        short: dict[Problem, int] = {}
        for problem, build in self._build(problems, [1] * len(problems)):
            if should_stop():
                return
            default = self._time(problem, build, folder)
            # Twice the shortest invocation, as a tuning run has it: its builds are then in the cache.
            fixed = default.us is None or not problem.repeatable
            repeat = (
                1 if fixed else choose_repeat(default.us or 1.0, invocation_us=2 * self.session.runner.invocation_us)
            )
            if repeat == 1:
                yield problem, default
            else:
                short[problem] = repeat
        for problem, build in self._build(list(short), list(short.values())):
            if should_stop():
                return
            yield problem, self._time(problem, build, folder)

    def _build(self, problems: Sequence[Problem], repeats: Sequence[int]) -> list[tuple[Problem, Compiled]]:
        """Those that there was time for."""
        jobs = [
            BuildJob(
                program=problem_mlir(self.target.prepare(problem)),
                flags=(*problem.flags, *self.target.compile_flags),
                timeout=self.effort.compile_timeout,
                repeat=repeat,
                timed=problem.repeatable,
                figures=self.target.figures,
            )
            for problem, repeat in zip(problems, repeats, strict=True)
        ]
        builds = [self.session.executor.start(job) for job in jobs]
        done = []
        for problem, build in zip(problems, builds, strict=True):
            with suppress(OutOfTimeError):
                done.append((problem, build.result()))
        return done

    def _time(self, problem: Problem, build: Compiled, folder: Path) -> Default:
        if not build.ok:
            words = first_error(build.stderr)
            return Default(None, NoCandidateError(f"IREE's default does not compile: {words}"))
        try:
            data = Data.write(self.target.prepare(problem), folder / "inputs", seed=self.seed)
        except MemoryError:
            return Default(None, too_large(problem))
        benchmark = Benchmark(data.invocation(), self.effort.repetition_seconds, self.effort.run_timeout)
        try:
            timing = self._timed(build, benchmark)
        except DeviceError as error:
            return Default(None, DeviceError(f"IREE's default cannot be timed: {error.message}"))
        if not timing.ok:
            return Default(None, DeviceError(f"IREE's default cannot be timed: {failed_because(timing.detail)}"))
        return Default(timing.median)

    def _timed(self, build: Compiled, benchmark: Benchmark) -> Timing:
        """All on the first device, so that shares are of one chip; on the next one where that is lost."""
        devices = self.session.devices
        while True:
            device = devices.first
            try:
                return device.time(build, benchmark, repetitions=REPETITIONS)
            except DeviceError as error:
                if not devices.retire(device, error.message):
                    raise
