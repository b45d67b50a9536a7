"""Arm B against arm A before the judge, and the ratio that the pairs show whoever wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotuner.devices.device import Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.jobs.ab.arm_run import A, ArmRun, B
from autotuner.measure.blocks import Entrant, Interval, Rules
from autotuner.measure.cache_timer import CacheTimer, Modules
from autotuner.measure.caches import Caches
from autotuner.measure.contest import REPETITIONS, SLOW_US, timed_by
from autotuner.measure.judge import Judge, JudgePhase
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.schedule import Schedule
from autotuner.tuning.run import Run

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
