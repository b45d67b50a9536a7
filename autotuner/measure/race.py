"""The race: all are timed side by side until it is settled; and the confirmation, on fresh times."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from autotuner.errors import OutOfTimeError
from autotuner.measure.blocks import DEFAULT_RULES, BlockTimes, Drop, Entrant, Interval, RaceResult, Rules, Verdict
from autotuner.measure.decision import out_of_the_race, settled
from autotuner.measure.interval import shift_rank

_MOST_MORE = 8
"""Timings of the winner, to make an interval of few of the baseline: enough beside two."""

TimeOne = Callable[[str], float]
OnTiming = Callable[[int, str, float], None]


class TimingFailed(Exception):
    """One timing of one entrant came to nothing (crash, time-out): it leaves, the others go on."""


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

    def when_time_was_up(self) -> Confirmation:
        """What it tells that the deadline cut short: nothing of a gain, for how many blocks fit depends on how long
        they take; but what is slower in all of its interval is no winner."""
        if self.speedup is None or self.speedup.high >= 1.0:
            return self
        span = f"{self.blocks} fresh blocks give {self.speedup.median:.3f} ({self.speedup.bounds}) when the time was up"
        return replace(self, verdict="no-winner", reason=f"{span}: it is slower")


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
        for name, failure in _add_block(rows, taken).items():
            survivors.remove(name)
            dropped[name] = Drop(block, "failed", str(failure))
        if len(survivors) == 1:
            return standing("settled")
        if block not in looks:
            continue
        for name, drop in out_of_the_race(standing("running"), keep).items():
            survivors.remove(name)
            dropped[name] = drop
        if settled(standing("running")):
            return standing("settled")
    return standing("last-look")


def confirm(
    winner: str,
    timekeeper: Timekeeper,
    *,
    baseline: str,
    blocks: int = 24,
    beside: Sequence[str] = (),
    looks: Sequence[int] = (),
    rules: Rules = DEFAULT_RULES,
) -> Confirmation:
    """Time the winner against the baseline again, on data that had no part in choosing it.

    The number of blocks is fixed beforehand: then the interval holds its level with nothing spent on looks. With
    `looks` it also ends after one of these many blocks where the verdict is certain there: each spends its share.
    (Simulated at 1.5 % noise, twelve blocks turn away 6 % of true 3 % gains, twenty-four none.)
    `beside` are timed along with the two (the best stock route), for their ratios; they decide nothing.
    """
    names = list(dict.fromkeys([baseline, winner, *beside]))
    rows: dict[str, list[float | None]] = {name: [] for name in names}
    alive = list(names)
    reason, cut = "", False
    floor, level = 1 + rules.smallest_gain, rules.alpha / (1 + len(looks))
    for block in range(1, blocks + 1):
        taken = _time_block(block, alive, baseline, timekeeper)
        if taken is None:
            reason, cut = f"the confirmation ended after {block - 1} of its {blocks} blocks", True
            break
        failed = _add_block(rows, taken)
        alive = [name for name in alive if name not in failed]
        if winner in failed:
            reason = f"the winner failed in block {block}: {failed[winner]}"
            break
        so_far = _ratio(rows, winner, baseline, level) if block in looks else None
        if so_far is not None and _verdict(so_far, floor) != "inconclusive":
            break
    times = {name: tuple(row) for name, row in rows.items()}
    speedup = _ratio(rows, winner, baseline, level)
    if reason:
        return Confirmation(times, "inconclusive", reason, speedup, cut)
    if speedup is None:
        return Confirmation(times, "inconclusive", f"{blocks} blocks are too few for this level")
    span = f"fresh blocks give {speedup.median:.3f} ({speedup.bounds})"
    return Confirmation(times, _verdict(speedup, floor), f"{span}, needed: more than {floor:.3f}", speedup)


@dataclass(frozen=True)
class Far:
    """How a winner is told from a slow baseline that is far behind it: by few timings of the baseline.

    All timings of the one are compared with all of the other. That leaves them no block to share a drift of the machine
    in, so that a win is only what is more than `least` times as fast.
    """

    least: float
    known: tuple[float, ...] = ()
    """What the baseline took before: nothing was chosen by that."""

    def told(
        self, rows: Mapping[str, Sequence[float | None]], winner: str, baseline: str, *, rules: Rules
    ) -> Confirmation:
        """By all these timings."""
        told = {winner: [*rows[winner]], baseline: [*self.known, *rows[baseline]]}
        most = max(map(len, told.values()))
        times = {name: (*row, *[None] * (most - len(row))) for name, row in told.items()}
        whole = BlockTimes(times)
        own, others = whole.taken(winner), whole.taken(baseline)
        speedup = whole.ratio_of_all(winner, baseline, alpha=rules.alpha)
        if speedup is None:
            reason = f"{others} timings against {own} are too few for this level"
            return Confirmation(times, "inconclusive", reason, cut=True)
        span = f"{own} fresh timings against {others} of the baseline give {speedup.median:.3f} ({speedup.bounds})"
        verdict: Verdict = "win" if speedup.low > self.least else "inconclusive"
        return Confirmation(times, verdict, f"{span}, needed of so few: more than {self.least:.3f}", speedup)

    def missing(self, rows: Mapping[str, Sequence[float | None]], winner: str, baseline: str, *, rules: Rules) -> int:
        """How many more timings of the winner make an interval; 0 where no number does."""
        own, others = (sum(time is not None for time in rows[name]) for name in (winner, baseline))
        others += len(self.known)
        wanted = (n for n in range(own, _MOST_MORE + 1) if shift_rank(others, n, alpha=rules.alpha))
        return next(wanted, own) - own


def confirm_far(
    winner: str,
    timekeeper: Timekeeper,
    far: Far,
    *,
    baseline: str,
    blocks: int,
    each: int,
    enough: Callable[[int], bool],
    rules: Rules = DEFAULT_RULES,
) -> Confirmation:
    """Times the baseline at most `blocks` times, in turns with the winner, which is timed `each` times as often.

    `enough` is asked before each timing of the baseline, with how many there are: no more are taken then.
    """
    rows: dict[str, list[float | None]] = {baseline: [], winner: []}
    order, taken_of_baseline = [baseline, *[winner] * each], 0
    for turn in (order[int(index)] for _ in range(blocks) for index in timekeeper.rng.permutation(len(order))):
        if turn == baseline and enough(taken_of_baseline):
            continue
        block = len(rows[turn]) + 1
        taken = _time_block(block, [turn], baseline, timekeeper)
        if taken is None:
            break
        time = taken[turn]
        if isinstance(time, TimingFailed):
            times = {name: tuple(row) for name, row in rows.items()}
            return Confirmation(times, "inconclusive", f"the winner failed in block {block}: {time}")
        rows[turn].append(time)
        if turn == baseline:  # it stands in the first of the winner's blocks
            rows[turn] += [None] * (each - 1)
            taken_of_baseline += 1
    return far.told(rows, winner, baseline, rules=rules)


def told_by_all(
    cut: Confirmation,
    winner: str,
    timekeeper: Timekeeper,
    far: Far,
    *,
    baseline: str,
    rules: Rules = DEFAULT_RULES,
) -> Confirmation:
    """What a confirmation tells that time has cut short: by all its timings, and a few more of the winner where these
    make an interval of them."""
    rows = {name: [*cut.times[name]] for name in (baseline, winner)}
    for _ in range(far.missing(rows, winner, baseline, rules=rules)):
        taken = _time_block(len(rows[winner]) + 1, [winner], baseline, timekeeper)
        if taken is None or isinstance(taken[winner], TimingFailed):
            break
        _add_block(rows, taken)
    return far.told(rows, winner, baseline, rules=rules)


def _add_block(
    rows: Mapping[str, list[float | None]], taken: Mapping[str, float | TimingFailed]
) -> dict[str, TimingFailed]:
    """A block's times, None for whom there is none; and who failed in it."""
    failed = {}
    for name, row in rows.items():
        time = taken.get(name)
        row.append(time if isinstance(time, float) else None)
        if isinstance(time, TimingFailed):
            failed[name] = time
    return failed


def _ratio(rows: Mapping[str, Sequence[float | None]], winner: str, baseline: str, level: float) -> Interval | None:
    times = {name: tuple(row) for name, row in rows.items()}
    return BlockTimes(times).ratio(winner, baseline, alpha=level)


def _verdict(speedup: Interval, floor: float) -> Verdict:
    return "win" if speedup.low > floor else "no-winner" if speedup.high < floor else "inconclusive"


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
