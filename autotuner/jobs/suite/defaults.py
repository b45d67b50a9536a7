"""The time of IREE's default for each problem, which makes the shares of a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from pathlib import Path

from autotuner.build import BuildJob, Compiled
from autotuner.devices.device import Device, Timing
from autotuner.errors import (
    AutotuneError,
    DeviceError,
    EnvironmentFailure,
    NoCandidateError,
    OutOfTimeError,
    StorageError,
)
from autotuner.iree.compile import first_error
from autotuner.iree.run import Benchmark, failed_because
from autotuner.jobs.opening import lengthened
from autotuner.measure.check import Data, too_large
from autotuner.measure.contest import REPETITIONS
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from autotuner.tuning.options import Effort
from autotuner.tuning.session import Session


@dataclass(frozen=True)
class DefaultTimer:
    """Builds and times defaults: a handful at a time, so that the compiler is not on the cores being timed."""

    target: Target
    session: Session
    effort: Effort
    seed: int

    def time(self, problems: Sequence[Problem]) -> Iterator[tuple[Problem, float | AutotuneError]]:
        """The default's time of each problem in µs, or its error, in order, until the run is stopped."""
        size = 2 * self.session.jobs
        for start in range(0, len(problems), size):
            some = problems[start : start + size]
            builds = [self.session.executor.start(self._job(problem)) for problem in some]
            wait(builds)
            with self.session.builder.cache.scratch() as folder:
                for problem, build in zip(some, builds, strict=True):
                    if self.session.stop.requested:
                        return
                    if isinstance(build.exception(), OutOfTimeError):
                        continue
                    try:
                        yield problem, self._time(problem, build.result(), folder)
                    except StorageError:
                        raise
                    except (NoCandidateError, EnvironmentFailure) as error:
                        yield problem, error

    def _job(self, problem: Problem, repeat: int = 1) -> BuildJob:
        return BuildJob(
            program=problem_mlir(self.target.prepare(problem)),
            flags=(*problem.flags, *self.target.compile_flags),
            timeout=self.effort.compile_timeout,
            repeat=repeat,
            timed=problem.repeatable,
            figures=self.target.figures,
        )

    def _time(self, problem: Problem, build: Compiled, folder: Path) -> float:
        if not build.ok:
            raise NoCandidateError(f"IREE's default does not compile: {first_error(build.stderr)}")
        try:
            data = Data.write(self.target.prepare(problem), folder / "inputs", seed=self.seed)
        except MemoryError as error:
            raise too_large(problem) from error
        benchmark = Benchmark(data.invocation(), self.effort.repetition_seconds, self.effort.run_timeout)
        timing = self._timed(problem, build, benchmark)
        if not timing.ok:
            raise DeviceError(f"IREE's default cannot be timed: {failed_because(timing.detail)}")
        return timing.median

    def _timed(self, problem: Problem, build: Compiled, benchmark: Benchmark) -> Timing:
        """All on one device, so that shares are of one chip; on the next if it is lost."""

        def repeated(repeat: int) -> Compiled:
            return self.session.executor.start(self._job(problem, repeat)).result()

        def timed(device: Device) -> Timing:
            # Twice the shortest invocation, as a tuning run has it: its builds are then in the cache.
            lasting = 2 * device.invocation_us if problem.repeatable else 0.0
            module, timing = lengthened(device, build, benchmark, repeated, lasting_us=lasting)
            return device.time(module, benchmark, repetitions=REPETITIONS) if timing.ok else timing

        return self.session.devices.on_one(self.session.devices.first, timed)
