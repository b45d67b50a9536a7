"""Who is faster, and by how much for certain: interleaved race, verdict, confirmation."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Literal

import numpy as np

from autotuner.errors import OutOfTimeError
from autotuner.measure.interval import median_interval
from autotuner.system.text import count

ALPHA = 0.05
LOOKS = (12, 16, 24, 32, 48)
"""After how many blocks the race is judged; each look spends its share of alpha."""

Verdict = Literal["win", "no-winner", "inconclusive"]
TimeOne = Callable[[str], float]
OnTiming = Callable[[int, str, float], None]


class TimingFailed(Exception):
    """One timing of one entrant came to nothing (crash, time-out): it leaves, the others go on."""


@dataclass(frozen=True)
class Entrant:
    """Who takes part. Of those that cannot be told apart, the one of least complexity wins."""

    id: str
    complexity: int = 0


@dataclass(frozen=True)
class Rules:
    """What a win is: a gain above the smallest one, with a probability of alpha at most that it is none."""

    alpha: float = ALPHA
    smallest_gain: float = 0.01
    looks: tuple[int, ...] = LOOKS


DEFAULT_RULES = Rules()


def never() -> bool:
    return False


def ignore_timing(block: int, name: str, time: float) -> None:
    del block, name, time


@dataclass(frozen=True)
class Timekeeper:
    """How timings are taken: by what, in which order, until when, and who is told of each."""

    time_one: TimeOne
    rng: np.random.Generator
    should_stop: Callable[[], bool] = never
    """Asked before each block."""
    on_timing: OnTiming = ignore_timing


@dataclass(frozen=True)
class Interval:
    """A speed ratio, t_against / t_candidate: above 1, the candidate is faster."""

    median: float
    low: float
    high: float

    @property
    def bounds(self) -> str:
        """For people."""
        return f"{self.low:.3f} to {self.high:.3f}"

    def to_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class BlockTimes:
    """Times by block: those of one block were taken side by side, so only within a block are they compared."""

    times: Mapping[str, tuple[float | None, ...]]

    @property
    def blocks(self) -> int:
        return max((len(row) for row in self.times.values()), default=0)

    @property
    def timings(self) -> int:
        """How many single timings were taken."""
        return sum(time is not None for row in self.times.values() for time in row)

    def ratio(self, candidate: str, against: str, *, alpha: float) -> Interval | None:
        """How much faster `candidate` is, over the blocks that have both; None when these are too few."""
        pairs = zip(self.times[candidate], self.times[against], strict=True)
        logs = [math.log(b) - math.log(a) for a, b in pairs if a is not None and b is not None]
        bounds = median_interval(logs, alpha=alpha)
        if bounds is None:
            return None
        return Interval(median=math.exp(median(logs)), low=math.exp(bounds[0]), high=math.exp(bounds[1]))


@dataclass(frozen=True)
class Drop:
    """When an entrant left the race, and why."""

    block: int
    reason: Literal["beaten", "no-gain", "failed"]
    detail: str = ""


@dataclass(frozen=True)
class RaceResult(BlockTimes):
    """A race as it stands: enough to decide it, and to store it."""

    entrants: tuple[Entrant, ...]
    baseline: str
    survivors: tuple[str, ...]
    dropped: Mapping[str, Drop] = field(default_factory=dict)
    ended: Literal["settled", "last-look", "stopped", "running"] = "running"
    rules: Rules = DEFAULT_RULES

    @property
    def level(self) -> float:
        """What one interval at one look may spend of alpha."""
        return self.rules.alpha / (len(self.rules.looks) * max(len(self.entrants) - 1, 1))

    @property
    def challengers(self) -> tuple[str, ...]:
        """The survivors that can win."""
        return tuple(name for name in self.survivors if name != self.baseline)

    def over_baseline(self, candidate: str) -> Interval | None:
        return self.ratio(candidate, self.baseline, alpha=self.level)

    def complexity(self, name: str) -> int:
        return next(e.complexity for e in self.entrants if e.id == name)


@dataclass(frozen=True)
class Decision:
    """What a race comes to. `speedup` is at the race's own level; the confirmation's is the one to report."""

    verdict: Verdict
    winner: str | None
    reason: str
    speedup: Interval | None = None
    leader: str | None = None
    tied: tuple[str, ...] = ()
    """All that could have won: above the smallest gain, and not beaten by the leader."""


@dataclass(frozen=True)
class Confirmation(BlockTimes):
    """Fresh blocks of the winner against the baseline; `speedup` is the interval that is reported."""

    verdict: Verdict
    reason: str
    speedup: Interval | None = None
    cut: bool = False
    """The user or the deadline ended it before its last block."""

    @property
    def holds(self) -> bool:
        return self.verdict == "win"


def race(
    entrants: Sequence[Entrant],
    timekeeper: Timekeeper,
    *,
    baseline: str,
    keep: Collection[str] = (),
    rules: Rules = DEFAULT_RULES,
) -> RaceResult:
    """Time every survivor once a block, in random order, until the outcome is settled or the looks are over.

    Those in `keep`, and the baseline, are timed to the end, whatever they are worth. `time_one` raises
    TimingFailed to take an entrant out; when it does so for the baseline the race has nothing to compare
    with, and the exception passes through. A block that the deadline cuts off does not count.
    """
    names = [entrant.id for entrant in entrants]
    looks = rules.looks
    if len(set(names)) != len(names) or baseline not in names:
        raise ValueError(f"entrants need distinct ids, the baseline {baseline!r} among them: {names}")
    if not looks or list(looks) != sorted(set(looks)) or looks[0] < 1:
        raise ValueError(f"looks must rise: {looks}")
    rows: dict[str, list[float | None]] = {name: [] for name in names}
    survivors = list(names)
    dropped: dict[str, Drop] = {}

    def standing(ended: Literal["settled", "last-look", "stopped", "running"]) -> RaceResult:
        return RaceResult(
            times={name: tuple(row) for name, row in rows.items()},
            entrants=tuple(entrants),
            baseline=baseline,
            survivors=tuple(survivors),
            dropped=dict(dropped),
            ended=ended,
            rules=rules,
        )

    for block in range(1, looks[-1] + 1):
        taken = _time_block(block, survivors, baseline, timekeeper)
        if taken is None:
            return standing("stopped")
        for name, row in rows.items():
            time = taken.get(name)
            row.append(time if isinstance(time, float) else None)
            if isinstance(time, TimingFailed):
                survivors.remove(name)
                dropped[name] = Drop(block, "failed", str(time))
        if len(survivors) == 1:
            return standing("settled")
        if block not in looks:
            continue
        for name, drop in _out_of_the_race(standing("running"), keep).items():
            survivors.remove(name)
            dropped[name] = drop
        if _settled(standing("running")):
            return standing("settled")
    return standing("last-look")


def decide(result: RaceResult, *, against: str = "the default") -> Decision:
    """The verdict of a race that has ended; `against` is what people know the baseline as.

    What wins is the simplest that is not beaten: of those certain to gain more than the smallest gain, the
    one of least complexity that the fastest of them does not beat, side by side. Where time ends a race that is not
    settled, few blocks beat nobody: there a simpler one has to be as fast by its median.
    """
    gain = f"{result.rules.smallest_gain:.1%}"
    if not result.challengers:
        failed = sum(drop.reason == "failed" for drop in result.dropped.values())
        why = f"{failed} of {len(result.entrants) - 1} could not be timed, " if failed else ""
        return Decision("no-winner", None, f"{why}{_none_of(result)} more than {gain} faster than {against}")
    choice = _choose(result) if result.ended != "stopped" else _choose_in_time(result)
    # A look that was reached has spent its share of alpha: a winner at it stands, even when time then ran out on
    # telling the winners apart. The confirmation has fresh data either way.
    if result.ended in ("stopped", "running") and (choice.winner is None or result.blocks < result.rules.looks[0]):
        return Decision(
            "inconclusive",
            None,
            f"the race was stopped after {count(result.blocks, 'block')}, before it was settled",
            leader=choice.leader,
        )
    if choice.winner is not None:
        return choice
    if _none_can_gain(result):
        return Decision("no-winner", None, f"{_none_of(result)} more than {gain} faster than {against}")
    return Decision("inconclusive", None, f"{result.blocks} blocks cannot tell whether any is more than {gain} faster")


def _none_of(result: RaceResult) -> str:
    raced = len(result.entrants) - 1
    return "the one that raced cannot be" if raced == 1 else f"none of the {raced} that raced can be"


def confirm(
    winner: str,
    timekeeper: Timekeeper,
    *,
    baseline: str,
    blocks: int = 24,
    beside: Sequence[str] = (),
    rules: Rules = DEFAULT_RULES,
) -> Confirmation:
    """Time the winner against the baseline again, on data that had no part in choosing it.

    The number of blocks is fixed beforehand: then the interval holds its level with nothing spent on looks.
    (Simulated at 1.5 % noise, twelve blocks turn away 6 % of true 3 % gains, twenty-four none.)
    `beside` are timed along with the two (the best stock route), for their ratios; they decide nothing.
    """
    names = list(dict.fromkeys([baseline, winner, *beside]))
    rows: dict[str, list[float | None]] = {name: [] for name in names}
    alive = list(names)
    reason, cut = "", False
    for block in range(1, blocks + 1):
        taken = _time_block(block, alive, baseline, timekeeper)
        if taken is None:
            reason, cut = f"the confirmation ended after {block - 1} of its {blocks} blocks", True
            break
        for name, row in rows.items():
            time = taken.get(name)
            row.append(time if isinstance(time, float) else None)
            if isinstance(time, TimingFailed):
                alive.remove(name)
        failure = taken[winner]
        if isinstance(failure, TimingFailed):
            reason = f"the winner failed in block {block}: {failure}"
            break
    times = {name: tuple(row) for name, row in rows.items()}
    speedup = BlockTimes(times).ratio(winner, baseline, alpha=rules.alpha)
    if reason:
        return Confirmation(times, "inconclusive", reason, speedup, cut)
    if speedup is None:
        return Confirmation(times, "inconclusive", f"{blocks} blocks are too few for this level")
    span = f"fresh blocks give {speedup.median:.3f} ({speedup.bounds})"
    floor = 1 + rules.smallest_gain
    verdict: Verdict = "win" if speedup.low > floor else "no-winner" if speedup.high < floor else "inconclusive"
    return Confirmation(times, verdict, f"{span}, needed: more than {floor:.3f}", speedup)


def _time_block(
    block: int, names: Sequence[str], baseline: str, timekeeper: Timekeeper
) -> dict[str, float | TimingFailed] | None:
    """All of them once; None where there is no time for it."""
    if timekeeper.should_stop():
        return None
    taken: dict[str, float | TimingFailed] = {}
    for index in timekeeper.rng.permutation(len(names)):
        name = names[int(index)]
        try:
            time = float(timekeeper.time_one(name))
            if not (time > 0.0 and math.isfinite(time)):
                raise TimingFailed(f"{time} is no time")
        except TimingFailed as failure:
            if name == baseline:
                raise
            taken[name] = failure
        except OutOfTimeError:
            return None
        else:
            taken[name] = time
            timekeeper.on_timing(block, name, time)
    return taken


def _beats(result: RaceResult, faster: str, slower: str) -> bool:
    """Is `faster` surely faster, by whatever amount, side by side?

    To ask for more than the smallest gain here would hand the win to simpler but slower entrants: simulated
    with eight of them within 3 %, that loses over twice the speed, and takes 40 % more timings at 0.5 % noise.
    """
    lead = result.ratio(faster, slower, alpha=result.level)
    return lead is not None and lead.low > 1.0


def _none_can_gain(result: RaceResult) -> bool:
    spans = [result.over_baseline(name) for name in result.challengers]
    return all(span is not None and span.high < 1 + result.rules.smallest_gain for span in spans)


def _out_of_the_race(result: RaceResult, keep: Collection[str]) -> dict[str, Drop]:
    """Those that more blocks cannot help: no gain within their bounds, or surely slower than the leader."""
    spans = {name: span for name in result.challengers if (span := result.over_baseline(name)) is not None}
    if not spans:
        return {}
    leader = max(spans, key=lambda name: spans[name].median)
    out = {}
    for name, span in spans.items():
        if name in keep:
            continue
        if span.high < 1 + result.rules.smallest_gain:
            out[name] = Drop(result.blocks, "no-gain")
        elif name != leader and (span.high < spans[leader].low or _beats(result, leader, name)):
            out[name] = Drop(result.blocks, "beaten", leader)
    return out


def _choose(result: RaceResult) -> Decision:
    """The winner if the race ended now."""
    spans = {name: span for name in result.challengers if (span := result.over_baseline(name)) is not None}
    sure = [name for name, span in spans.items() if span.low > 1 + result.rules.smallest_gain]
    if not sure:
        return Decision("inconclusive", None, "none is sure to gain enough")
    leader = max(sure, key=lambda name: spans[name].median)
    tied = [name for name in sure if name == leader or not _beats(result, leader, name)]
    winner = min(tied, key=lambda name: (result.complexity(name), -spans[name].median))
    reason = "the fastest" if winner == leader else f"the simplest of {len(tied)} that cannot be told apart"
    return Decision("win", winner, reason, spans[winner], leader, tuple(tied))


def _choose_in_time(result: RaceResult) -> Decision:
    """The winner of a race that time ended: the leader, unless a simpler one is about as fast."""
    choice = _choose(result)
    if choice.winner is None or choice.leader is None:
        return choice
    lead = result.ratio(choice.leader, choice.winner, alpha=result.level)
    if lead is None or lead.median <= 1 + result.rules.smallest_gain:
        return choice
    speedup = result.over_baseline(choice.leader)
    return replace(choice, winner=choice.leader, reason="the fastest when the time was up", speedup=speedup)


def _settled(result: RaceResult) -> bool:
    """Would more blocks leave the verdict and the winner as they are?"""
    if not result.challengers or _none_can_gain(result):
        return True
    choice = _choose(result)
    winner, leader = choice.winner, choice.leader
    if winner is None or leader is None:
        return False
    return not any(_may_matter(result, name, winner, leader) for name in result.challengers if name != winner)


def _may_matter(result: RaceResult, name: str, winner: str, leader: str) -> bool:
    """Could this one still take the win, by being simpler or by being faster by more than the smallest gain?"""
    worth = 1 + result.rules.smallest_gain
    span = result.over_baseline(name)
    if span is not None and span.high < worth:
        return False
    if name != leader and _beats(result, leader, name):
        return False
    if result.complexity(name) < result.complexity(winner):
        return True
    lead = result.ratio(name, winner, alpha=result.level)
    return lead is None or lead.high > worth
