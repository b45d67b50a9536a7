"""IREE's default as modules that last as long as a calibration asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotuner.build import Builder, Compiled
from autotuner.system.progress import clocked
from autotuner.tuning.plan import Plan

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
