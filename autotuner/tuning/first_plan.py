"""The schedule of one problem's run, as soon as its default is timed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotuner.build import Builder, Compiled
from autotuner.measure.cache_timer import cold_seconds, kept_for_cold
from autotuner.measure.calibrate import Calibration
from autotuner.measure.schedule import Schedule
from autotuner.system.progress import Clock, clocked
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import Plan

_SHIPPED, _ARMS = 1.5, 2.0
"""What shipping takes in compiles of the default; and an experiment's arms, which are compiled and run once more."""
_FINALIST = 0.25
"""What building one takes in compiles of the default, where only its repeats change."""
_THEN = 0.25
"""Of what a compile took when it was put into the cache, at the least: reading a problem is less than compiling it."""


@dataclass(frozen=True)
class AfterVerdict:
    """Seconds for what follows a verdict."""

    shipping: float
    cold: float
    """For the default and the best with a cold cache; 0 where that is not wanted."""

    @classmethod
    def of(cls, calibration: Calibration[Compiled], task: Task, options: Options, *, reading: float) -> AfterVerdict:
        """`reading` are the seconds that the compiler took to read the problem, in this run."""
        compiling = compile_seconds(calibration.baseline, reading)
        compiles = (_SHIPPED if task.ship else 0.0) + (_ARMS if task.ship and task.microkernels_alone else 0.0)
        wanted = task.race and task.cold and options.cache != "warm"
        cold = cold_seconds(calibration.device, calibration.timing_seconds, compiling=compiling) if wanted else 0.0
        return cls(compiles * compiling, cold)

    def seconds(self, left: float) -> float:
        """Those that are kept, where so many are left when the default is timed: a short run goes without the cold."""
        return self.shipping + kept_for_cold(self.cold, left)


def compile_seconds(baseline: Compiled, reading: float) -> float:
    """Of the default, here and now. What is in the cache may have been compiled on a busier machine."""
    if not baseline.cached:
        return baseline.took
    return min(baseline.took, max(reading, _THEN * baseline.took))


def first_schedule(
    calibration: Calibration[Compiled], clock: Clock, task: Task, options: Options, *, reading: float, jobs: int
) -> Schedule:
    """By what the default took."""
    after = AfterVerdict.of(calibration, task, options, reading=reading)
    return calibration.schedule(
        clock,
        options.effort,
        building=_FINALIST * compile_seconds(calibration.baseline, reading) / jobs,
        shipping=after.seconds(clock.left),
        judges=task.race,
    )


_NEARLY = 1.5
"""What is nearly long enough need not be built anew."""


@dataclass(frozen=True)
class DefaultBuilds:
    """Builds the default with so many repeats; what is known stays where it will do."""

    plan: Plan
    builder: Builder
    timeout: float
    seconds: dict[str, float]
    """What building takes is added to `build`."""

    def __call__(self, repeat: int, known: Compiled | None) -> Compiled:
        job = self.plan.job(self.plan.baseline, timeout=self.timeout, repeat=repeat, timed=True)
        if known is not None and known.repeat <= job.repeat <= _NEARLY * known.repeat:  # not all may be repeated
            return known
        with clocked(self.seconds, "build"):
            made = self.builder.build(job)
        # What was compiled a moment ago is not what the cache spared us.
        return made if known is None else replace(made, cached=known.cached)
