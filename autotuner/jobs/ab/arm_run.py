"""An arm on its way through the experiment, and what is told of it in the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.iree.compile import FAILURE_CLASSES, Compiled, FailureClass
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.ab.result import ArmReport
from autotuner.programs.program import Answer
from autotuner.targets import Target
from autotuner.tuning.result import Counts

A, B = "a", "b"


@dataclass
class ArmRun:
    """An arm on its way."""

    key: str
    arm: Arm
    row: int = 0
    folder: Path = Path()
    recipe: Recipe | None = None
    built: Compiled | None = None
    """Each dispatch once: what is checked."""
    timed: Compiled | None = None
    """As it is raced."""
    answer: Answer | None = None
    expected_us: float | None = None
    """What it took on this machine before."""
    us: float | None = None
    """As it was timed last; before that, of the call whose outputs were compared."""
    failure: str = ""
    exports: tuple[str, ...] = ()
    share: float | None = None

    @property
    def once(self) -> Compiled:
        if self.built is None:
            raise ValueError(f"{self.arm.name} was not built")
        return self.built

    @property
    def module(self) -> Compiled:
        return self.timed or self.once

    @property
    def how(self) -> Recipe:
        if self.recipe is None:
            raise ValueError(f"{self.arm.name} was not prepared")
        return self.recipe

    def report(self, target: Target, benchmark: tuple[str, ...]) -> ArmReport:
        """What is told of it; `benchmark` is how to time it by hand, in its folder."""
        how, module = self.how, self.module
        error = self.answer.check.error if self.answer is not None else None
        return ArmReport(
            name=self.arm.name,
            kind=self.arm.kind,
            flags=tuple(flag for flag in how.flags if flag not in target.compile_flags),
            spec=how.spec,
            folder=self.folder,
            compile=module.command,
            benchmark=benchmark,
            repeat=module.repeat,
            us=self.us,
            error=error if error is not None and math.isfinite(error) else None,
            applied=how.applied,
            version=how.version,
            kernels=how.kernels,
            share=self.share,
            dispatches=self.exports,
        )


def counts_of(sides: Sequence[ArmRun], *, same_code: bool) -> Counts:
    """How far both arms came; equal code is timed once."""
    failed: dict[FailureClass, int] = {name: sum(side.failure == name for side in sides) for name in FAILURE_CLASSES}
    timed = sum(side.us is not None for side in sides)
    return Counts(
        space=len(sides),
        asked=len(sides),
        built=sum(side.built is not None and side.built.ok for side in sides),
        duplicate=int(same_code),
        checked=sum(side.answer is not None for side in sides),
        timed=timed - int(same_code and timed == len(sides)),
        failed=failed,
    )
