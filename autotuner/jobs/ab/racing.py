"""The state of both arms, and B against A before the judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.devices.device import Timing
from autotuner.iree.compile import Compiled, shell_line
from autotuner.iree.folder import SPEC
from autotuner.iree.run import Benchmark
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.ab.result import COMMANDS, A, ArmFacts, B, divisor
from autotuner.jobs.opening import Racer, judged
from autotuner.measure.audit import unknown
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.cache_timer import CacheTimer, Modules
from autotuner.measure.caches import Caches
from autotuner.measure.check import Check
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.schedule import SHIPPED, Schedule, timing_seconds
from autotuner.microkernels.library import is_shipped
from autotuner.programs.program import Answer, Program
from autotuner.tuning.run import Run


@dataclass
class ArmRun:
    """An arm and its state so far."""

    key: str
    arm: Arm
    folder: Path
    row: int
    recipe: Recipe
    once: Compiled = field(init=False)
    """Each dispatch once: what is checked."""
    module: Compiled = field(init=False)
    """As it is raced."""
    answer: Answer | None = None
    us: float | None = None
    """As it was timed last; before that, of the call whose outputs were compared."""
    failure: str = ""
    refused: Check | None = None
    """The objection of calls on changing inputs."""

    @property
    def name(self) -> str:
        return self.arm.name

    def facts(self, benchmark: Sequence[str] = ()) -> ArmFacts:
        """Its part of the document; `benchmark` times it in its folder."""
        error = self.answer.check.error if self.answer is not None else math.inf
        how, enter = self.recipe, f"cd {shell_line([str(self.folder)])}"
        return ArmFacts(
            name=self.name,
            kind=self.arm.kind,
            us=self.us,
            flags=how.added,
            spec=self.folder / SPEC if how.kernel is not None else how.spec,
            error=error if math.isfinite(error) else None,
            applied=how.applied,
            command=tuple(f"{enter} && {shell_line(words)}" for words in (self.module.command, benchmark) if words),
            repeat=self.module.repeat,
            binary=self.module.binary,
            kernels=how.kernels,
        )

    def racer(self, benchmark: Benchmark) -> Racer:
        """Single calls where they are timed with a cold cache."""
        timed = self.once if benchmark.cache == "cold" else self.module
        return Racer(self.key, self.row, timed, self.once, (self.us or 0.0) * timed.repeat)

    def write_commands(self, benchmark: Sequence[str] = ()) -> None:
        """The files of a candidate's folder that say how it was made."""
        lines = [f"cd {shell_line([str(self.folder)])}", shell_line(self.module.command)]
        lines += [shell_line(benchmark)] if benchmark else []
        lines += [divisor(self.module.repeat)] if benchmark and self.module.repeat > 1 else []
        (self.folder / COMMANDS).write_text("\n".join(lines) + "\n")
        (self.folder / "stderr.txt").write_text(self.module.stderr)


def race_sides(sides: Sequence[ArmRun], program: Program, benchmark: Benchmark, run: Run) -> Judgement:
    """The verdict on B's speed over A's; both times are the judge's from here on."""
    store, effort = run.session.store, run.options.effort
    b = sides[1]
    contest = Contest(
        entrants=(
            Entrant(A),
            Entrant(
                B,
                complexity=1,
                foreign=b.recipe.brings_objects
                or not all(is_shipped(kernel.name) and not kernel.objects for kernel in b.arm.kernels),
            ),
        ),
        baseline=A,
        stock=A,
        rules=Rules(smallest_gain=effort.smallest_gain),
        seed=run.options.seed,
        labels={side.key: "IREE's default" if side.arm == DEFAULT else side.name for side in sides},
    )
    us = {side.key: side.us or 0.0 for side in sides}
    raced = [side.racer(benchmark) for side in sides]
    one = timing_seconds(max(raced[0].call_us / 1e6, benchmark.seconds))
    schedule = Schedule(
        run.clock,
        one,
        one,
        baseline_us=us[A],
        best_us=us[B],
        lasting=benchmark.seconds,
        shipping=SHIPPED * b.once.took if b.recipe.kernel is not None else 0.0,
    )

    def refused(name: str, check: Check) -> None:
        side = sides[name == B]
        side.refused, side.failure = check, check.failure or ""

    # With inputs that change, an arm A that is wrong cannot tell whether B is right.
    agree = unknown if program.arbiter is not None and program.arbiter.default_is_wrong else None
    judgement = judged(contest, raced, program, benchmark, run, schedule, agree=agree, refused=refused)
    for side in sides:
        side.us = judgement.us.get(side.key, side.us)
        if side.us is not None:
            store.set_us(side.row, side.us)
    return judgement


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
        run.account.remark(note)
    return found
