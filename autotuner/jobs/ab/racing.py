"""Both arms on their way through the experiment: what is known of each, and B against A before the judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.devices.device import Timing
from autotuner.iree.compile import FAILURE_CLASSES, Compiled, FailureClass, shell_line
from autotuner.iree.run import Benchmark
from autotuner.jobs.ab.arms import Arm, ArmKind
from autotuner.jobs.ab.recipe import Recipe
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.cache_timer import CacheTimer, Modules
from autotuner.measure.caches import Caches
from autotuner.measure.contest import timed_by
from autotuner.measure.judge import Judge, JudgePhase
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.schedule import Schedule, timing_seconds
from autotuner.programs.program import Answer
from autotuner.tuning.result import Counts
from autotuner.tuning.run import Run

A, B = "a", "b"
_SHIPPED = 1.5
"""What shipping a microkernel takes, in compiles of the arm."""


@dataclass
class ArmRun:
    """An arm as far as it came, with what is needed to repeat it by hand."""

    key: str
    arm: Arm
    folder: Path = Path()
    row: int = 0
    recipe: Recipe | None = None
    built: Compiled | None = None
    """Each dispatch once: what is checked."""
    timed: Compiled | None = None
    """As it is raced."""
    answer: Answer | None = None
    us: float | None = None
    """As it was timed last; before that, of the call whose outputs were compared."""
    failure: str = ""
    benchmark: tuple[str, ...] = ()
    """How to time it, in its folder; empty without a device."""

    @property
    def name(self) -> str:
        return self.arm.name

    @property
    def kind(self) -> ArmKind:
        return self.arm.kind

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

    @property
    def flags(self) -> tuple[str, ...]:
        """What it adds to the target's flags."""
        return self.how.added

    @property
    def compile(self) -> tuple[str, ...]:
        """Run in its folder."""
        return self.module.command

    @property
    def repeat(self) -> int:
        return self.module.repeat

    @property
    def applied(self) -> int:
        """Operations that its spec is proven to reach."""
        return self.how.applied

    @property
    def error(self) -> float | None:
        """Against the reference; of a model, against what is right: arm A where nothing else is known."""
        error = self.answer.check.error if self.answer is not None else math.inf
        return error if math.isfinite(error) else None

    @property
    def commands(self) -> tuple[str, ...]:
        """Lines for a shell."""
        enter = f"cd {shell_line([str(self.folder)])}"
        return tuple(f"{enter} && {shell_line(words)}" for words in (self.compile, self.benchmark) if words)

    @property
    def divisor(self) -> str:
        return f"# divide the time by {self.repeat}: the module repeats its dispatches that often"

    def write_commands(self, *, stderr: str) -> None:
        """The files of a candidate's folder that say how it was made."""
        lines = [f"cd {shell_line([str(self.folder)])}", shell_line(self.compile)]
        if self.benchmark:
            lines.append(shell_line(self.benchmark))
            lines += [self.divisor] if self.repeat > 1 else []
        (self.folder / "command.txt").write_text("\n".join(lines) + "\n")
        (self.folder / "stderr.txt").write_text(stderr)

    def to_json(self) -> dict[str, Any]:
        how = self.how
        return {
            "name": self.name,
            "kind": self.kind,
            "flags": list(self.flags),
            "spec": str(how.spec) if how.spec else None,
            "us": self.us,
            "error": self.error,
            "applied": how.applied,
            "command": list(self.commands),
            "repeat": self.repeat,
            "binary": self.module.binary,
            **({"version": how.version} if how.version else {}),
            **({"kernels": [dict(kernel) for kernel in how.kernels]} if how.kernels else {}),
        }


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


def race_sides(sides: Sequence[ArmRun], benchmark: Benchmark, run: Run) -> Judgement:
    """The verdict on B's speed over A's; both times are the judge's from here on."""
    store, effort = run.session.store, run.options.effort
    a, b = sides
    contest = Contest(
        entrants=(Entrant(A), Entrant(B, complexity=1)),
        baseline=A,
        stock=A,
        rules=Rules(smallest_gain=effort.smallest_gain),
        seed=run.options.seed,
        labels={side.key: side.name for side in sides},
    )
    rows = {side.key: side.row for side in sides}

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        store.record_timing(rows[name], timing, phase=phase, block=block)

    modules = {side.key: side.once if benchmark.cache == "cold" else side.module for side in sides}
    us = {side.key: side.us or 0.0 for side in sides}
    calls = {name: us[name] * modules[name].repeat for name in modules}
    one = timing_seconds(max(calls[A] / 1e6, benchmark.seconds))
    schedule = Schedule(
        run.clock,
        one,
        one,
        baseline_us=us[A],
        best_us=us[B],
        lasting=benchmark.seconds,
        shipping=_SHIPPED * b.once.took if b.how.inserted is not None else 0.0,
    )
    takes = timed_by(run.session.runner, benchmark, modules, call_us=calls)
    judge = Judge(contest, takes, schedule.judging, run.session.stop, schedule.pair, record)
    judgement = schedule.told(judge.verdict())
    for side in sides:
        side.us = judgement.us.get(side.key, side.us)
        if side.us is not None:
            store.set_us(side.row, side.us)
    speedup = judgement.speedup
    if judgement.verdict != "no-winner" or speedup is None:
        return judgement
    slower = f"{b.name} is slower than {a.name}"
    equal = f"{b.name} is not more than {effort.smallest_gain:.0%} faster than {a.name}"
    return replace(judgement, reason=slower if speedup.high < 1 else equal)


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
