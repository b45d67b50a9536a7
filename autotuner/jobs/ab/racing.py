"""Arm B against arm A before the judge, and the ratio that the race shows whoever wins."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.jobs.ab.arm_run import A, ArmRun, B
from autotuner.jobs.opening import START_SECONDS
from autotuner.measure.blocks import Entrant, Interval, Rules
from autotuner.measure.cache_timer import CacheTimer, Modules
from autotuner.measure.caches import Caches
from autotuner.measure.judge import JudgePhase, judge
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.takes import Takes, seconds_of, timed_by
from autotuner.measure.timeplan import Pace, TimePlan, longer
from autotuner.system.progress import Clock
from autotuner.tuning.run import Run


@dataclass(frozen=True)
class EarlierRace:
    """The blocks that an interrupted run has of its race: times are compared within a block, so each still counts."""

    binaries: Mapping[int, str]
    """What was raced, by row."""
    blocks: Mapping[int, Mapping[int, Timing]]
    """By number, and in each by row."""

    @classmethod
    def read(cls, run: Run) -> EarlierRace:
        if run.earlier is None:
            return cls({}, {})
        store = run.session.store
        blocks: dict[int, dict[int, Timing]] = {}
        for one in store.timings(run.id):
            if one.phase == "race" and one.conditions and one.conditions.state == run.session.runner.state:
                blocks.setdefault(one.block, {})[one.candidate] = Timing(one.repetitions_us, conditions=one.conditions)
        return cls({build.candidate: build.binary for build in store.builds(run.id)}, blocks)

    def of(self, sides: Sequence[ArmRun]) -> dict[str, deque[Timing]]:
        """The timings of the blocks from the first on that are whole; none where an arm's code is another now."""
        found: dict[str, deque[Timing]] = {side.key: deque() for side in sides}
        if any(side.module.binary != self.binaries.get(side.row) for side in sides):
            return found
        for number in count(1):
            block = self.blocks.get(number, {})
            if any(side.row not in block for side in sides):
                return found
            for side in sides:
                found[side.key].append(block[side.row])
        return found


_SHIPPED = 1.5
"""What shipping a microkernel takes, in compiles of the arm."""


def race_plan(sides: Sequence[ArmRun], takes: Takes, benchmark: Benchmark, clock: Clock, *, blocks: int) -> TimePlan:
    """By what timing the arms took before, and one timing as the confirmation takes it."""
    a, b = sides
    us = (a.us or a.called_us or 0.0, b.us or b.called_us or 0.0)
    race, confirm = _paces(sides, us, takes, benchmark, clock)
    shipping = _SHIPPED * b.once.took if b.how.inserted is not None else 0.0
    ahead = us[0] / us[1] if all(us) else 1.0
    return TimePlan(race, confirm, rivals=1, blocks=blocks, shipping=shipping, ahead=ahead)


def _paces(
    sides: Sequence[ArmRun], us: tuple[float, float], takes: Takes, benchmark: Benchmark, clock: Clock
) -> tuple[Pace, Pace]:
    """In the race, and in the confirmation: of a slow arm A both are known without another timing."""
    a, b = sides
    known = {"baseline_us": us[0], "best_us": us[1], "lasting": benchmark.seconds}
    alike = takes.confirm is takes.race
    if a.called:
        race, fresh = (
            Pace(started + a.timing_seconds, started + b.timing_seconds)
            if b.called
            else Pace.once(started + a.timing_seconds, best_us=us[1], lasting=benchmark.seconds, starting=started)
            for started in (0.0, START_SECONDS)
        )
        return race, race if alike else fresh
    timed = a.timing_seconds and b.timing_seconds
    race = Pace.timed(a.timing_seconds, b.timing_seconds, **known) if timed else Pace.on_open_device(**known)
    return race, race if alike else Pace.of(seconds_of(takes.confirm, a.key, clock), **known)


def race_sides(
    sides: Sequence[ArmRun], benchmark: Benchmark, run: Run, earlier: EarlierRace, *, has_won: bool = False
) -> tuple[Judgement, Interval | None]:
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
        chosen=B if has_won else None,
        won_before=has_won,
        known_us=a.us if a.called else None,
        labels={A: a.arm.name, B: b.arm.name},
    )
    rows = {side.key: side.row for side in sides}

    known = earlier.of(sides)
    blocks = len(known[A])
    if blocks:
        run.account.note(f"{blocks} blocks of the race are timed already: it goes on from there")

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        if phase != "race" or block > blocks:
            store.record_timing(rows[name], timing, phase=phase, block=block)

    modules = {side.key: side.once if benchmark.cache == "cold" else side.module for side in sides}
    slow = {side.key for side in sides if side.called}
    takes = timed_by(run.session.runner, benchmark, modules, once=slow, unwarmed=slow, fresh=not has_won)
    try:
        plan = race_plan(sides, takes, benchmark, run.clock, blocks=effort.confirm_blocks)
    except OutOfTimeError:
        would_do = longer(2 * run.clock.budget, part=run.clock.part)
        return Judgement("inconclusive", f"the time was up before the two were timed in turns: {would_do}", A), None
    if blocks:
        live = takes.race
        takes = replace(takes, race=lambda name: known[name].popleft() if known[name] else live(name))
    judgement = judge(contest, takes, clock=run.clock, stop=run.session.stop, plan=plan, record=record)
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
