"""Arm B against arm A before the judge, and the ratio that the race shows whoever wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotuner.devices.device import Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.jobs.ab.arm_run import A, ArmRun, B
from autotuner.measure.judge import Contest, Judgement, JudgePhase, judge, timed_by
from autotuner.measure.race import Entrant, Interval, Rules
from autotuner.tuning.run import Run


def race_sides(sides: Sequence[ArmRun], benchmark: Benchmark, run: Run) -> tuple[Judgement, Interval | None]:
    """The verdict, and B's speed over A's; both times are the race's from here on."""
    store, effort = run.session.store, run.options.effort
    a, b = sides
    contest = Contest(
        entrants=(Entrant(A), Entrant(B, complexity=1)),
        baseline=A,
        stock=A,
        rules=Rules(smallest_gain=effort.smallest_gain),
        confirm_blocks=effort.confirm_blocks,
        seed=run.options.seed,
        labels={A: a.arm.name, B: b.arm.name},
    )
    rows = {side.key: side.row for side in sides}

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        store.record_timing(rows[name], timing, phase=phase, block=block)

    takes = timed_by(run.session.runner, benchmark, {side.key: side.module for side in sides})
    judgement = judge(contest, takes, clock=run.clock, stop=run.session.stop, record=record)
    for side in sides:
        side.us = judgement.us.get(side.key, side.us)
        if side.us is not None:
            store.set_us(side.row, side.us)
    speedup = judgement.speedup or judgement.shown(B, A)
    if judgement.verdict != "no-winner" or speedup is None:
        return judgement, speedup
    slower = f"{b.arm.name} is slower than {a.arm.name}"
    equal = f"{b.arm.name} is not more than {effort.smallest_gain:.0%} faster than {a.arm.name}"
    return replace(judgement, reason=slower if speedup.high < 1 else equal), speedup
