"""The judge: shortlists, races, decides, confirms, concludes; for problems, models, experiments and buckets alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

import numpy as np

from autotuner.devices.device import Timing
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.blocks import BlockTimes, Entrant, Interval, RaceResult
from autotuner.measure.deadlines import ConfirmDeadline, RaceDeadline
from autotuner.measure.decision import decide
from autotuner.measure.judgement import SAME, Contest, Judgement
from autotuner.measure.race import Confirmation, Far, Timekeeper, TimingFailed, confirm, confirm_far, race, told_by_all
from autotuner.measure.shortlist import shortlist
from autotuner.measure.takes import Take, Takes
from autotuner.measure.timeplan import (
    FAR_AHEAD,
    FEW_BLOCKS,
    FEW_NEED,
    FEW_TIMES,
    LEAD_BLOCKS,
    LEAST_BLOCKS,
    SURE_BLOCKS,
    UNTIMED,
    Pace,
    TimePlan,
)
from autotuner.system.progress import LATE_SECONDS, Clock, Stop

JudgePhase = Literal["screen", "race", "confirm"]
Record = Callable[[JudgePhase, str, int, Timing], None]
"""Writes a timing down when it is taken: phase, entrant, block, the timing itself."""


def _unrecorded(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
    del phase, name, block, timing


def _unheard(text: str) -> None:
    del text


def judge(
    contest: Contest,
    takes: Takes,
    *,
    clock: Clock,
    stop: Stop,
    plan: TimePlan = UNTIMED,
    record: Record = _unrecorded,
    stage: Callable[[str], None] = _unheard,
) -> Judgement:
    """The verdict: of the best of the screening, by a race, confirmed on fresh timings; as the time allows."""
    watch = _Watch(takes, record, np.random.default_rng(contest.seed))
    sitting = _Sitting(contest, watch, clock, stop, stage, contest.timed_in(plan))
    try:
        return sitting.judge() if contest.chosen is None else sitting.confirm_alone(contest.chosen)
    except OutOfTimeError as error:
        return Judgement("inconclusive", error.message.rstrip("."), contest.stock)
    except TimingFailed as failure:
        raise _baseline_failed(failure) from failure


def lead(contest: Contest, takes: Takes, *, clock: Clock, stop: Stop, record: Record = _unrecorded) -> Judgement:
    """Who is ahead when there is no time for a race: a few blocks of all entrants, and no verdict."""
    watch = _Watch(takes, record, np.random.default_rng(contest.seed))
    names = [entrant.id for entrant in contest.entrants]
    keeper = watch.keeper("race", lambda: stop.requested or clock.left < 0)
    rules = replace(contest.rules, looks=(LEAD_BLOCKS,))
    try:
        result = race(contest.entrants, keeper, baseline=contest.baseline, keep=names, rules=rules)
    except TimingFailed as failure:
        raise _baseline_failed(failure) from failure
    us = _medians(result)
    if not result.blocks:
        reason = "the time was up before any were timed side by side"
        return Judgement("inconclusive", reason, contest.stock, us=us, raced=result)
    gains = {name: _median_ratio(result, name, contest.baseline) for name in result.challengers}
    best = max(gains, key=lambda name: gains[name], default=None)
    if best is None or gains[best] <= 1 + rules.smallest_gain:
        reason = "none is ahead of the default, side by side"
        return Judgement("no-winner", reason, contest.stock, us=us, raced=result)
    reason = f"{gains[best]:.2f}x side by side with the default, not raced"
    return Judgement("inconclusive", reason, contest.stock, leader=best, us=us, raced=result)


@dataclass(frozen=True)
class _Watch:
    """Takes timings, and keeps the raw repetitions for the one who writes them down."""

    takes: Takes
    record: Record
    rng: np.random.Generator
    raw: dict[str, Timing] = field(default_factory=dict)

    def screen(self, name: str) -> float:
        """A timing of the second screening."""
        us = self._median(self.takes.race, name)
        self.record("screen", name, 1, self.raw[name])
        return us

    def keeper(self, phase: JudgePhase, should_stop: Callable[[], bool]) -> Timekeeper:
        take = self.takes.confirm if phase == "confirm" else self.takes.race

        def write(block: int, name: str, _us: float) -> None:
            self.record(phase, name, block, self.raw[name])

        return Timekeeper(lambda name: self._median(take, name), self.rng, should_stop, write)

    def _median(self, take: Take, name: str) -> float:
        """Single repetitions spike too often for intervals over a dozen blocks."""
        self.raw[name] = take(name)
        return self.raw[name].median


@dataclass(frozen=True)
class _Sitting:
    """One judgement on its way."""

    contest: Contest
    watch: _Watch
    clock: Clock
    stop: Stop
    stage: Callable[[str], None]
    plan: TimePlan

    def judge(self) -> Judgement:
        """By a race where there is time for one; else the favourite alone has to prove itself."""
        ending = self.plan.ending(self.clock.left)
        if ending is None:
            return self._unproven(self.plan.too_short(self.clock))
        return self.race(ending.rivals) if ending.rivals else self.confirm_alone(self.contest.likeliest)

    def race(self, rivals: int) -> Judgement:
        """Shortlist, race, decide; who wins is confirmed."""
        contest, clock = self.contest, self.clock
        entrants = self._shortlisted(rivals)
        self.stage(f"racing {len(entrants) - 1} against the baseline")
        began = clock.elapsed
        block = self.plan.race.block(len(entrants) - 1)
        keeper = self.watch.keeper("race", RaceDeadline(clock, self.stop, self.plan, clock.left, block))
        result = race(entrants, keeper, baseline=contest.baseline, keep={contest.stock}, rules=contest.rules)
        decision = decide(result, against=contest.labels.get(contest.baseline, "the default"))
        us = _medians(result)
        so_far = Judgement(decision.verdict, decision.reason, contest.stock, us=us, race_us=us, raced=result)
        if self.stop.requested or (decision.winner is None and result.ended != "stopped"):
            return so_far
        # A race that time has stopped has a leader: what is left may still tell whether that one is faster.
        name = decision.winner or decision.leader or _leader(result) or contest.likeliest
        plan = self.plan
        if result.timings:
            one = (clock.elapsed - began) / result.timings
            plan = plan.measured(Pace(one, one), alike=self.watch.takes.confirm is self.watch.takes.race)
        return replace(self, plan=plan).confirm_alone(name, so_far, won=decision.winner is not None)

    def confirm_alone(self, name: str, so_far: Judgement | None = None, *, won: bool = False) -> Judgement:
        """Fresh blocks of this one and the baseline: as many as there is time for, which is fixed beforehand."""
        contest, plan, clock = self.contest, self.plan, self.clock
        least = min(LEAST_BLOCKS, plan.blocks)
        short = contest.won_before or plan.confirm_blocks(clock.left, beside=False) < least
        if plan.ahead >= FAR_AHEAD and short and not plan.brief:
            brief = replace(self, plan=plan.briefly(), watch=replace(self.watch, takes=self.watch.takes.briefly()))
            return brief.confirm_alone(name, so_far, won=won)
        self.stage(f"confirming {contest.label(name)}")
        beside = contest.stock not in (contest.baseline, name)
        beside = beside and plan.confirm_blocks(clock.left, beside=True) >= min(SURE_BLOCKS, plan.blocks)
        blocks = plan.confirm_blocks(clock.left, beside=beside)
        if blocks < least and plan.brief and plan.has_time_for_few(clock.left):
            return self._confirm_far(name, so_far or self._unproven(""))
        if blocks < least <= plan.confirm_blocks(clock.left + LATE_SECONDS, beside=False):
            blocks = least
        if blocks < least:
            late = f"the time was up before the win could be confirmed: {plan.would_do(clock, raced=True)}"
            undecided = f"{so_far.reason}: {plan.would_do(clock, undecided=True)}" if so_far else plan.too_short(clock)
            known = so_far or self._unproven("")
            return replace(known, verdict="inconclusive", reason=late if won else undecided)
        found = self._confirm(name, so_far or self._unproven(""), blocks, beside=beside)
        if found.verdict != "inconclusive" or self.stop.requested or found.confirmed is None:
            return found
        if found.confirmed.cut:
            return replace(found, reason=f"the time was up: {found.reason}; {plan.would_do(clock, undecided=True)}")
        if found.speedup is None or blocks == plan.blocks:
            return found
        return replace(found, reason=f"{found.reason}; {plan.fewer(blocks, clock, beside=beside)}")

    def _unproven(self, reason: str) -> Judgement:
        return Judgement("inconclusive", reason, self.contest.stock)

    def _shortlisted(self, count: int) -> tuple[Entrant, ...]:
        contest = self.contest
        if not contest.screened:
            return contest.entrants
        chosen = shortlist(
            contest.screened,
            baseline=contest.baseline,
            time_one=self.watch.screen,
            keep={contest.stock},
            count=count,
        )
        names = {contest.baseline, contest.stock, *chosen}
        return tuple(entrant for entrant in contest.entrants if entrant.id in names)

    def _confirm(self, winner: str, so_far: Judgement, blocks: int, *, beside: bool) -> Judgement:
        contest, stock = self.contest, self.contest.stock
        keeper = self.watch.keeper("confirm", self._deadline())
        confirmation = confirm(
            winner,
            keeper,
            baseline=contest.baseline,
            beside=[stock] if beside else [],
            blocks=blocks,
            looks=self.plan.looks(blocks) if contest.won_before else (),
            rules=contest.rules,
        )
        if confirmation.cut and not self.stop.requested:
            confirmation = confirmation.when_time_was_up()
            if confirmation.verdict == "inconclusive" and self.plan.ahead >= FAR_AHEAD:
                keeper = replace(keeper, should_stop=lambda: self.stop.requested)
                far = self._far
                confirmation = told_by_all(
                    confirmation, winner, keeper, far, baseline=contest.baseline, rules=contest.rules
                )
        over = SAME if winner == stock else None
        if over is None and stock in confirmation.times:
            over = confirmation.ratio(winner, stock, alpha=contest.rules.alpha)
        return self._with(winner, so_far, confirmation, over)

    def _confirm_far(self, winner: str, so_far: Judgement) -> Judgement:
        """By few timings of a baseline that is slow and far behind."""
        contest, watch = self.contest, replace(self.watch, takes=self.watch.takes.briefly(few=True))
        confirmation = confirm_far(
            winner,
            watch.keeper("confirm", lambda: self.stop.requested),
            self._far,
            baseline=contest.baseline,
            blocks=FEW_BLOCKS,
            each=FEW_TIMES,
            enough=self._deadline().enough,
            rules=contest.rules,
        )
        found = self._with(winner, so_far, confirmation, SAME if winner == contest.stock else None)
        if found.winner is not None or self.stop.requested:
            return found
        return replace(found, reason=f"{found.reason}; {self.plan.would_do(self.clock, undecided=True)}")

    def _deadline(self) -> ConfirmDeadline:
        return ConfirmDeadline(self.clock, self.stop, self.plan, self.clock.elapsed)

    @property
    def _far(self) -> Far:
        known = self.contest.known_us
        return Far(FEW_NEED, (known,) if known is not None else ())

    def _with(
        self, winner: str, so_far: Judgement, confirmation: Confirmation, over_stock: Interval | None
    ) -> Judgement:
        concluded = replace(
            so_far,
            verdict=confirmation.verdict,
            reason=confirmation.reason,
            us={**so_far.us, **_medians(confirmation)},
            speedup=confirmation.speedup,
            confirmed_name=winner,
            over_stock=over_stock,
            confirmed=confirmation,
        )
        return self._concluded(winner, concluded) if confirmation.holds else concluded

    def _concluded(self, winner: str, won: Judgement) -> Judgement:
        """The win, unless fresh timings do not show that it adds anything to flags that are simpler and hold alone."""
        contest, stock, over = self.contest, self.contest.stock, won.over_stock
        simpler = stock != contest.baseline and contest.complexity(stock) < contest.complexity(winner)
        if simpler and (over is None or over.low <= 1.0):
            simple = won.of_stock(baseline=contest.baseline, rules=contest.rules, label=contest.label(stock))
            if simple is not None:
                return replace(simple, reason=f"{simple.reason}, and what was tuned gains nothing certain over it")
        return replace(won, winner=winner)


def _baseline_failed(failure: TimingFailed) -> DeviceError:
    return DeviceError(
        f"the baseline stopped working in the middle of the race: {str(failure)[:200]}",
        remedy="Check the device and run again with --resume.",
    )


def _medians(times: BlockTimes) -> dict[str, float]:
    known = {name: [time for time in row if time is not None] for name, row in times.times.items()}
    return {name: median(row) for name, row in known.items() if row}


def _median_ratio(times: BlockTimes, name: str, against: str) -> float:
    pairs = zip(times.times[name], times.times[against], strict=True)
    return math.exp(median(math.log(b) - math.log(a) for a, b in pairs if a is not None and b is not None))


def _leader(result: RaceResult) -> str | None:
    """Who is ahead in a race that is not settled."""
    if not result.blocks:
        return None
    return max(result.challengers, key=lambda name: _median_ratio(result, name, result.baseline), default=None)
