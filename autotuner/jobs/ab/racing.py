"""Both arms on their way through the experiment: what is known of each, and B against A before the judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.devices.device import Timing
from autotuner.iree.compile import FAILURE_CLASSES, Compiled, FailureClass
from autotuner.iree.run import Benchmark
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.ab.result import ArmReport
from autotuner.measure.blocks import Entrant, Interval, Rules
from autotuner.measure.cache_timer import CacheTimer, Modules
from autotuner.measure.caches import Caches
from autotuner.measure.contest import REPETITIONS, SLOW_US, timed_by
from autotuner.measure.judge import Judge, JudgePhase
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.schedule import Schedule
from autotuner.programs.program import Answer
from autotuner.targets import Target
from autotuner.tuning.result import Counts
from autotuner.tuning.run import Run

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
            binary=module.binary,
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


# --- before the judge -------------------------------------------------------------------------------------------------


_SHIPPED = 1.5
"""What shipping a microkernel takes, in compiles of the arm."""


def timing_seconds(side: ArmRun, benchmark: Benchmark) -> float:
    """Of one timing of an arm, by what a call of it takes."""
    call = (side.us or 0.0) * side.module.repeat / 1e6
    return call if 1e6 * call > SLOW_US else (REPETITIONS + 1) * max(call, benchmark.seconds)


def race_sides(
    sides: Sequence[ArmRun], benchmark: Benchmark, run: Run, *, has_won: bool = False
) -> tuple[Judgement, Interval | None]:
    """The verdict, and B's speed over A's; both times are the judge's from here on."""
    store, effort = run.session.store, run.options.effort
    a, b = sides
    contest = Contest(
        entrants=(Entrant(A), Entrant(B, complexity=1)),
        baseline=A,
        stock=A,
        rules=Rules(smallest_gain=effort.smallest_gain),
        seed=run.options.seed,
        labels={A: a.arm.name, B: b.arm.name},
    )
    rows = {side.key: side.row for side in sides}

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        store.record_timing(rows[name], timing, phase=phase, block=block)

    modules = {side.key: side.once if benchmark.cache == "cold" else side.module for side in sides}
    us, one = {side.key: side.us or 0.0 for side in sides}, timing_seconds(a, benchmark)
    schedule = Schedule(
        run.clock,
        one,
        one,
        baseline_us=us[A],
        best_us=us[B],
        lasting=benchmark.seconds,
        shipping=_SHIPPED * b.once.took if b.how.inserted is not None else 0.0,
    )
    calls = {name: us[name] * modules[name].repeat for name in modules}
    takes = timed_by(run.session.runner, benchmark, modules, call_us=calls, fresh=not has_won)
    judge = Judge(contest, takes, schedule.judging, run.session.stop, schedule.pair, record)
    judgement = schedule.told(judge.verdict())
    for side in sides:
        side.us = judgement.us.get(side.key, side.us)
        if side.us is not None:
            store.set_us(side.row, side.us)
    speedup = judgement.speedup
    if judgement.verdict != "no-winner" or speedup is None:
        return judgement, speedup
    slower = f"{b.arm.name} is slower than {a.arm.name}"
    equal = f"{b.arm.name} is not more than {effort.smallest_gain:.0%} faster than {a.arm.name}"
    return replace(judgement, reason=slower if speedup.high < 1 else equal), speedup


def time_sides_cold(sides: Sequence[ArmRun], benchmark: Benchmark, run: Run, *, won: bool) -> Caches | None:
    """Both arms with a warm and with a cold cache, where that is wanted."""
    if run.options.cache == "warm":
        return None
    rows = {side.key: side.row for side in sides}

    def record(name: str, block: int, timing: Timing) -> None:
        run.session.store.record_timing(rows[name], timing, phase="cold", block=block)

    timer = CacheTimer(run.session.runner, benchmark, record)
    modules = {side.key: Modules(side.once, side.module) for side in sides}
    found, notes = timer.tell(modules, baseline=A, won=won)
    for note in notes:
        run.account.note(note)
    return found
