"""The judge: shortlists, races, decides, confirms, concludes; for problems, models, experiments and buckets alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

import numpy as np

from autotuner.devices.device import Device, Module, Timing
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.measure.race import (
    DEFAULT_RULES,
    LOOKS,
    BlockTimes,
    Confirmation,
    Decision,
    Entrant,
    Interval,
    RaceResult,
    Rules,
    Timekeeper,
    TimingFailed,
    Verdict,
    confirm,
    decide,
    race,
)
from autotuner.measure.shortlist import Screened, shortlist
from autotuner.system.progress import Clock, Stop

RACE_SHARE = 0.7
"""Of the time that is left when the race begins; the rest is for the confirmation."""
LEAD_BLOCKS = 5
"""How often `lead` times each entrant."""
SAME = Interval(1.0, 1.0, 1.0)
_ROUNDED = 5
MORE = 1.3
"""Of what a confirmation takes at the least, so much is kept for it."""

JudgePhase = Literal["screen", "race", "confirm"]
Take = Callable[[str], Timing]
"""Times an entrant. TimingFailed takes the entrant out."""
Record = Callable[[JudgePhase, str, int, Timing], None]
"""Writes a timing down when it is taken: phase, entrant, block, the timing itself."""


@dataclass(frozen=True)
class Takes:
    """How entrants are timed: in the race, and when what it says is confirmed."""

    race: Take
    confirm: Take

    @classmethod
    def alike(cls, take: Take) -> Takes:
        return cls(take, take)


def _unrecorded(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
    del phase, name, block, timing


def _unheard(text: str) -> None:
    del text


@dataclass(frozen=True)
class Contest:
    """Who is compared, and what a win is."""

    entrants: tuple[Entrant, ...]
    baseline: str
    stock: str
    """The best of what flags alone give: the baseline itself where no route is better."""
    rules: Rules = DEFAULT_RULES
    confirm_blocks: int = 24
    seed: int = 0
    screened: tuple[Screened, ...] = ()
    """The entrants' screening, where there was one: the best of it are screened again, and `places` of them race."""
    places: int = 8
    chosen: str | None = None
    """Who is to be confirmed without a race: it was chosen elsewhere."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What people are told in place of an entrant's id."""

    def __post_init__(self) -> None:
        names = {entrant.id for entrant in self.entrants}
        if missing := {self.baseline, self.stock, self.chosen or self.baseline} - names:
            raise ValueError(f"no entrants: {', '.join(sorted(missing))}")

    def complexity(self, name: str) -> int:
        return next(entrant.complexity for entrant in self.entrants if entrant.id == name)

    def label(self, name: str) -> str:
        return self.labels.get(name, name)


@dataclass(frozen=True)
class Judgement:
    """The verdict with its evidence."""

    verdict: Verdict
    reason: str
    stock: str
    winner: str | None = None
    leader: str | None = None
    """Who is ahead, where nothing but that was asked."""
    us: Mapping[str, float] = field(default_factory=dict)
    """Median µs of those that were timed side by side, from the last time that they were."""
    race_us: Mapping[str, float] = field(default_factory=dict)
    """Of those that raced: the race's own, which a confirmation in fresh processes stands beside."""
    speedup: Interval | None = None
    """Of the one that was confirmed, over the baseline."""
    confirmed_name: str | None = None
    """Whose speedup that is, whether it holds or not."""
    over_stock: Interval | None = None
    raced: RaceResult | None = None
    confirmed: Confirmation | None = None

    def shown(self, candidate: str, against: str) -> Interval | None:
        """What a race shows of two entrants, whoever wins, at the level of one of its looks."""
        if self.raced is None:
            return None
        rules = self.raced.rules
        return self.raced.ratio(candidate, against, alpha=rules.alpha / len(rules.looks))


def timed_by(
    device: Device, benchmark: Benchmark, modules: Mapping[str, Module], *, once: Collection[str] = ()
) -> Takes:
    """Times an entrant's module: three repetitions, of which the median counts; to confirm, in a fresh process.

    Those in `once` take so long that one repetition is a measurement by itself.
    """

    def taken_by(device: Device) -> Take:
        def take(name: str) -> Timing:
            timing = device.time(modules[name], benchmark, repetitions=1 if name in once else 3)
            if not timing.ok:
                raise TimingFailed(timing.detail)
            return timing

        return take

    take = taken_by(device)
    if device.isolated is device or benchmark.cache == "cold":  # what a fresh process times is warm
        return Takes.alike(take)
    return Takes(take, taken_by(device.isolated))


def judge(
    contest: Contest,
    takes: Takes,
    *,
    clock: Clock,
    stop: Stop,
    record: Record = _unrecorded,
    stage: Callable[[str], None] = _unheard,
) -> Judgement:
    """The verdict: of the best of the screening, by a race, confirmed on fresh timings."""
    sitting = _Sitting(contest, _Watch(takes, record, np.random.default_rng(contest.seed)), clock, stop, stage)
    try:
        return sitting.race() if contest.chosen is None else sitting.confirm_chosen(contest.chosen)
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

    def race(self) -> Judgement:
        """Shortlist, race, decide; who wins is confirmed."""
        contest, clock = self.contest, self.clock
        confirm_seconds = self._confirm_seconds()
        entrants = self._shortlisted()
        self.stage(f"racing {len(entrants) - 1} against the baseline")
        started = clock.elapsed
        # A block of the race may begin just before its end, and a confirmation's timings are not all alike.
        reserve = MORE * LOOKS[0] * confirm_seconds * min(len(entrants), len({contest.baseline, contest.stock, ""}))
        keeper = self.watch.keeper("race", RaceDeadline(clock, self.stop, started, reserve))
        result = race(entrants, keeper, baseline=contest.baseline, keep={contest.stock}, rules=contest.rules)
        decision = decide(result, against=contest.labels.get(contest.baseline, "the default"))
        us = _medians(result)
        so_far = Judgement(decision.verdict, decision.reason, contest.stock, us=us, race_us=us, raced=result)
        if decision.winner is None:
            timing = confirm_seconds or (clock.elapsed - started) / max(result.timings, 1)
            return replace(so_far, reason=self._with_what_it_needs(decision, result, started, timing, reserve))
        self.stage(f"confirming {contest.label(decision.winner)}")
        block_seconds = confirm_seconds or (clock.elapsed - started) / result.timings
        block_seconds *= len({contest.baseline, contest.stock, decision.winner})
        try:
            blocks = confirm_blocks(clock, most=contest.confirm_blocks, block_seconds=block_seconds)
        except OutOfTimeError as error:
            return replace(so_far, verdict="inconclusive", reason=error.message.rstrip("."))
        # The number of blocks is fixed by the time that is left: from here on only the user stops it.
        return self._confirm(decision.winner, so_far, blocks, lambda: self.stop.requested)

    def confirm_chosen(self, chosen: str) -> Judgement:
        """The confirmation alone, of so many blocks as there is time for."""
        so_far = Judgement("inconclusive", "", self.contest.stock)
        late = self.clock
        return self._confirm(chosen, so_far, self.contest.confirm_blocks, lambda: self.stop.requested or late.left < 0)

    def _confirm_seconds(self) -> float:
        """What a timing of the confirmation takes, where that is another way of timing; 0 where it is the race's."""
        if self.watch.takes.confirm is self.watch.takes.race:
            return 0.0
        started = self.clock.elapsed
        self.watch.takes.confirm(self.contest.baseline)
        return self.clock.elapsed - started

    def _shortlisted(self) -> tuple[Entrant, ...]:
        contest = self.contest
        if not contest.screened:
            return contest.entrants
        chosen = shortlist(
            contest.screened,
            baseline=contest.baseline,
            time_one=self.watch.screen,
            keep={contest.stock},
            count=contest.places,
        )
        names = {contest.baseline, contest.stock, *chosen}
        return tuple(entrant for entrant in contest.entrants if entrant.id in names)

    def _confirm(self, winner: str, so_far: Judgement, blocks: int, should_stop: Callable[[], bool]) -> Judgement:
        contest, stock = self.contest, self.contest.stock
        confirmation = confirm(
            winner,
            self.watch.keeper("confirm", should_stop),
            baseline=contest.baseline,
            beside=[stock],
            blocks=blocks,
            rules=contest.rules,
        )
        over = SAME if winner == stock else confirmation.ratio(winner, stock, alpha=contest.rules.alpha)
        concluded = replace(
            so_far,
            verdict=confirmation.verdict,
            reason=confirmation.reason,
            us={**so_far.us, **_medians(confirmation)},
            speedup=confirmation.speedup,
            confirmed_name=winner,
            over_stock=over,
            confirmed=confirmation,
        )
        return self._concluded(winner, concluded) if confirmation.holds else concluded

    def _concluded(self, winner: str, won: Judgement) -> Judgement:
        """The win, unless fresh timings do not show that it adds anything to flags that are simpler and hold alone."""
        contest, stock, over = self.contest, self.contest.stock, won.over_stock
        simpler = stock != contest.baseline and contest.complexity(stock) < contest.complexity(winner)
        if simpler and (over is None or over.low <= 1.0) and won.confirmed is not None:
            alone = won.confirmed.ratio(stock, contest.baseline, alpha=contest.rules.alpha)
            if alone is not None and alone.low > 1 + contest.rules.smallest_gain:
                reason = f"what was tuned gains nothing certain over {contest.label(stock)}"
                return replace(won, reason=reason, winner=stock, speedup=alone, confirmed_name=stock, over_stock=SAME)
        return replace(won, winner=winner)

    def _with_what_it_needs(
        self, decision: Decision, result: RaceResult, started: float, timing: float, reserve: float
    ) -> str:
        """Why there is no winner; where the time was up before the first look, with the time that it would take."""
        first, clock = result.rules.looks[0], self.clock
        if result.ended != "stopped" or self.stop.requested or result.blocks >= first:
            return decision.reason
        whole = clock.budget + clock.kept
        if not result.blocks:
            race = first * len(result.entrants) * timing + reserve
            left = max(clock.budget - started, 0.0)
            reason = f"not raced: a race and its confirmation take about {race:.0f} s, and {left:.0f} s were left"
            return f"{reason}: {longer(max(started + race + clock.kept, whole))}"
        block = (clock.elapsed - started) / result.blocks
        # The blocks that are missing, and as many again to confirm what they tell; more than there was in any case.
        needed = clock.elapsed + (2 * first - result.blocks) * block + clock.kept
        return f"{decision.reason}: {longer(max(needed, whole if math.isfinite(whole) else 0.0))}"


@dataclass
class RaceDeadline:
    """When a race must end; asked once before each block.

    Without its first look a race tells nothing: up to there it may also use the confirmation's part, but for the
    seconds that no confirmation can do without.
    """

    clock: Clock
    stop: Stop
    started: float
    reserve: float = 0.0
    blocks: int = 0

    def __call__(self) -> bool:
        share = RACE_SHARE if self.blocks >= LOOKS[0] else 1.0
        self.blocks += 1
        left = max(self.clock.budget - self.started, 0.0)
        limit = self.started + min(share * left, max(left - self.reserve, 0.0))
        return self.stop.requested or limit <= self.started or self.clock.elapsed > limit


def confirm_blocks(clock: Clock, *, most: int, block_seconds: float) -> int:
    """How many blocks a confirmation has, fixed beforehand by the time that is left: then the interval holds its level
    whatever comes. Fewer than the first look's tell nothing."""
    blocks, least = min(most, clock.left / block_seconds), min(LOOKS[0], most)
    if blocks < least:
        needed = clock.elapsed + least * block_seconds + clock.kept
        raise OutOfTimeError(f"the time was up before the win could be confirmed: {longer(needed)}.")
    return int(blocks)


def longer(seconds: float) -> str:
    """What to ask for the next time, where so many seconds would do."""
    return f"--budget {math.ceil(1.2 * seconds / _ROUNDED) * _ROUNDED}s would do"


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
