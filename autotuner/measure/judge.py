"""The judge: races, confirms, concludes; for problems, models, experiments, buckets and bundles alike.

A race tells who is ahead: all are timed in turns, and who is surely behind leaves. Fresh pairs of that one and the
baseline then tell whether it wins: until a gain above the smallest one is certain (a win), or is ruled out (no winner),
or the time is up (inconclusive, with the interval as it stands). What they tell holds whenever it is looked at
(`evidence.py`), so nothing has to be planned beforehand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from autotuner.devices.device import Timing
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.audit import Audit
from autotuner.measure.blocks import BlockTimes, Interval, Verdict
from autotuner.measure.contest import Pacer, Takes, TimingFailed, Turns, take_turns
from autotuner.measure.judgement import SAME, Contest, Judgement
from autotuner.system import process
from autotuner.system.progress import Stop
from autotuner.system.text import count

PAIRS = 8
"""Of a confirmation, where there is time: fewer may be certain, but give a wide interval."""
MOST_BLOCKS, MOST_PAIRS = 24, 100
"""Of a race, which only chooses who is confirmed, and of a confirmation: what these do not tell apart, more would
hardly."""
RACE_SHARE = 0.6
"""Of the time from the beginning of a race to the end of the confirmation: who leads by then is confirmed."""
NARROW, REFINING = 0.1, 0.1
"""Pairs of a win go on while its interval is wider than this part of the ratio, and they have taken no more than this
part of what the run took before: a user who has waited for the search is better served by a number than by a range."""
LEAD_BLOCKS = 5
"""How often each is timed where the fastest is only chosen, not judged."""

_UNCERTAIN = "probably faster, but not proven on inputs that change from call to call"
_UNCALLED = (
    f"{_UNCERTAIN}: IREE's runtime for Python cannot make these calls here, and none but autotune knows the kernel"
)

JudgePhase = Literal["race", "confirm"]
Record = Callable[[JudgePhase, str, int, Timing], None]
"""Writes a timing down when it is taken: phase, entrant, block, the timing itself."""


def _unrecorded(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
    del phase, name, block, timing


def unheard(text: str) -> None:
    del text


@dataclass(frozen=True)
class Judge:
    """Times the entrants of a contest and judges them."""

    contest: Contest
    takes: Takes
    left: Callable[[], float]
    """Seconds that it may still take; what ships is compiled after it."""
    stop: Stop
    block_seconds: float = 0.0
    """For timing the baseline and one other, as it is confirmed."""
    record: Record = _unrecorded
    stage: Callable[[str], None] = unheard
    audit: Audit | None = None
    """Whether a win can be believed; None: the caller decides."""
    spent: Callable[[], float] = lambda: 0.0
    """Seconds that the run has taken."""

    def verdict(self) -> Judgement:
        """Of the fastest that can be believed."""
        found, contest = self._verdict(), self.contest
        winner, told = found.winner, found.speedup
        if winner is None or told is None or self.audit is None:
            return found
        foreign, worth = contest.foreign(winner), contest.rules.worth
        self.stage("checking the winner on inputs that change from call to call")
        # Of code that is not foreign this is no condition, and takes little of the time of what comes after it.
        ends = math.inf if foreign else time.monotonic() + max(self.left(), 2 * self.block_seconds)
        try:
            base = contest.baseline
            with process.until(ends):
                finding = self.audit.of(winner, base, found.us, told, self.left, worth=worth, foreign=foreign)
        except OutOfTimeError:
            if not foreign:
                return found
            return replace(found, verdict="inconclusive", winner=None, reason=_UNCERTAIN, out_of_time=True)
        if finding is None:
            unproven = replace(found, verdict="inconclusive", winner=None, reason=_UNCALLED, cause="failed")
            return unproven if foreign else found
        found = replace(found, audited=finding.audited)
        if finding.check.ok and not foreign:
            return found
        if finding.check.ok and finding.certain:
            return found.held_to(finding.audited.work, baseline=base, over=contest.over)
        if finding.check.ok:
            return replace(found, verdict="inconclusive", winner=None, reason=_UNCERTAIN, out_of_time=True)
        rest, reason = contest.without(winner), f"{contest.label(winner)} is out: {finding.check.detail}"
        if rest is None or self.stop.requested or self.left() < self.block_seconds:
            return replace(found.without_speedup(), verdict="no-winner", reason=reason)
        next_ = replace(self, contest=rest).verdict()
        return replace(next_, reason=f"{next_.reason}; {reason}")

    def _verdict(self) -> Judgement:
        """Of the fastest: by a race where there are several, then confirmed on fresh timings."""
        contest = self.contest
        try:
            if contest.chosen is not None or len(contest.rivals) == 1:
                return self._confirm(contest.chosen or contest.rivals[0], _Race(contest, Turns({})))
            race = self._race(share=RACE_SHARE, most=MOST_BLOCKS)
            if self.stop.requested or not race.challengers:
                return race.ended(stopped=self.stop.requested)
            return self._confirm(race.best, race)
        except TimingFailed as failure:
            raise _baseline_failed(failure) from failure

    def lead(self) -> Judgement:
        """A ranking from a few blocks, without a verdict: the whole model is judged later."""
        contest = self.contest
        try:
            race = self._race(share=1.0, most=LEAD_BLOCKS, drops=False)
        except TimingFailed as failure:
            raise _baseline_failed(failure) from failure
        us = race.times.medians
        found = Judgement("inconclusive", "", contest.stock, us=us, raced=race.times)
        if not race.times.blocks:
            return replace(found, reason="ran out of time before any were timed side by side", out_of_time=True)
        best = race.leader
        gain = race.times.lead(best, contest.baseline) if best else 0.0
        if best is None or gain <= contest.rules.worth:
            return replace(found, verdict="no-winner", reason="none is ahead of the default, side by side")
        return replace(found, reason=f"{gain:.2f}x side by side with the default, not raced", leader=best)

    def _race(self, *, share: float, most: int, drops: bool = True) -> _Race:
        """Blocks of all until one is ahead of all others, in this share of the time that is left."""
        contest = self.contest
        self.stage(f"racing {len(contest.rivals)} against {contest.over}")
        pacer = Pacer(self.left, kept=(1 - share) * self.left() if share < 1 else 0.0)

        def still(times: Turns) -> list[str]:
            race = _Race(contest, times)
            over = self.stop.requested or times.blocks >= most or (drops and race.settled)
            if over or not pacer.fits():
                return []
            return [contest.baseline, *(race.challengers if drops else contest.rivals)]

        turns = take_turns(
            [entrant.id for entrant in contest.entrants],
            self.takes.race,
            still,
            needed=contest.baseline,
            seed=contest.seed,
            record=lambda name, block, timing: self.record("race", name, block, timing),
        )
        return _Race(contest, turns)

    def _confirm(self, name: str, race: _Race) -> Judgement:
        """Fresh pairs of this one and the baseline, and of the best stock route beside them."""
        contest, rules = self.contest, self.contest.rules
        self.stage("confirming the fastest on fresh timings")
        beside = [contest.stock] if contest.stock not in (contest.baseline, name) else []
        pacer, before = Pacer(self.left, first=self.block_seconds), self.spent()

        def still(times: Turns) -> list[str]:
            refines = self.spent() - before < REFINING * before
            decided = self._decided(times, name, bool(beside), refines=refines)
            if self.stop.requested or times.blocks >= MOST_PAIRS or decided or not pacer.fits():
                return []
            return [contest.baseline, name, *beside]

        turns = take_turns(
            [contest.baseline, name, *beside],
            self.takes.confirm,
            still,
            needed=contest.baseline,
            seed=(contest.seed, 1),
            record=lambda name, block, timing: self.record("confirm", name, block, timing),
        )
        speedup = turns.ratio(name, contest.baseline, alpha=rules.alpha)
        us = {**race.times.medians, **turns.medians}
        found = replace(
            race.judgement("inconclusive", ""), us=us, speedup=speedup, confirmed_name=name, confirmed=turns
        )
        if name in turns.failed:
            return replace(found, reason=f"the fastest failed: {turns.failed[name]}", cause="failed")
        found = replace(found, over_stock=self._over_stock(turns, name))
        if speedup is None:
            short = f"ran out of time: {count(turns.blocks, 'pair')} of timings are too few"
            return replace(found, reason=short, out_of_time=not self.stop.requested)
        found = replace(found, reason=speedup.over(contest.over))
        if speedup.low > rules.worth:
            return self._concluded(name, replace(found, verdict="win"))
        if speedup.high < rules.worth:
            return replace(found, verdict="no-winner")
        guess = "probably faster" if speedup.low > 1 else "perhaps faster" if speedup.median > 1 else "perhaps slower"
        late = turns.blocks < MOST_PAIRS and not self.stop.requested
        reason = f"{guess} ({speedup.bounds}), not proven"
        return replace(found, reason=reason, out_of_time=late, cause=None if late else "noise")

    def _decided(self, times: BlockTimes, name: str, beside: bool, *, refines: bool) -> bool:
        """More pairs would change nothing: of a win, whether it also adds something to flags alone is asked as well,
        and where that is cheap, how large it is."""
        contest, rules = self.contest, self.contest.rules
        if times.blocks < PAIRS:
            return False
        if times.falls_short(name, contest.baseline, of=rules.worth, alpha=rules.alpha):
            return True
        if not times.beats(name, contest.baseline, by=rules.worth, alpha=rules.alpha):
            return False
        speedup = times.ratio(name, contest.baseline, alpha=rules.alpha) if refines else None
        if speedup is not None and speedup.high - speedup.low > NARROW * speedup.median:
            return False
        if not beside or times.beats(name, contest.stock, alpha=rules.alpha):
            return True
        return times.falls_short(name, contest.stock, of=rules.worth, alpha=rules.alpha)

    def _over_stock(self, turns: Turns, name: str) -> Interval | None:
        contest = self.contest
        if name == contest.stock:
            return SAME
        return turns.ratio(name, contest.stock, alpha=contest.rules.alpha) if contest.stock in turns.times else None

    def _concluded(self, winner: str, won: Judgement) -> Judgement:
        """The win, unless fresh timings do not show that it adds anything to flags that are simpler and hold alone."""
        contest, stock, over = self.contest, self.contest.stock, won.over_stock
        simpler = stock != contest.baseline and contest.complexity(stock) < contest.complexity(winner)
        if simpler and (over is None or over.low <= 1.0):
            simple = won.of_stock(baseline=contest.baseline, rules=contest.rules, over=contest.over)
            if simple is not None:
                reason = f"{simple.reason}, by {contest.label(stock)}: tuning adds nothing certain to it"
                return replace(simple, reason=reason)
        return replace(won, winner=winner)


@dataclass(frozen=True)
class _Race:
    """A race as it stands."""

    contest: Contest
    times: Turns

    @property
    def _level(self) -> float:
        """What one comparison may spend of alpha: all rivals are compared."""
        return self.contest.rules.alpha / len(self.contest.rivals)

    @property
    def challengers(self) -> list[str]:
        """Those that more blocks may help: a gain is not ruled out, and the leader is not surely faster."""
        leader = self.leader
        return [
            name
            for name in self.contest.rivals
            if name not in self.times.failed and not self._gains_nothing(name) and not self._beaten(name, leader)
        ]

    @property
    def leader(self) -> str | None:
        """Who is the fastest so far, of those that can be timed."""
        rivals = [name for name in self.contest.rivals if name not in self.times.failed]
        return max(rivals, key=lambda name: self.times.lead(name, self.contest.baseline), default=None)

    @property
    def best(self) -> str:
        """Who is confirmed: the simplest of those that are as fast as the leader, as far as this can tell."""
        if not self.times.blocks:
            return self.contest.rivals[0]
        worth, leader = self.contest.rules.worth, self.leader or self.contest.rivals[0]
        tied = [name for name in self.challengers if self.times.lead(leader, name) <= worth] or [leader]
        return min(
            tied, key=lambda name: (self.contest.complexity(name), -self.times.lead(name, self.contest.baseline))
        )

    @property
    def settled(self) -> bool:
        """More blocks would leave it as it is: one is left, or the others are not faster by anything that counts."""
        challengers, worth = self.challengers, self.contest.rules.worth
        if len(challengers) <= 1:
            return self.times.blocks > 0
        best = self.best
        others = (name for name in challengers if name != best)
        return all(self.times.falls_short(name, best, of=worth, alpha=self._level) for name in others)

    def _gains_nothing(self, name: str) -> bool:
        baseline, worth = self.contest.baseline, self.contest.rules.worth
        return self.times.falls_short(name, baseline, of=worth, alpha=self._level)

    def _beaten(self, name: str, leader: str | None) -> bool:
        """Is the leader surely faster, by whatever amount, side by side?

        To ask for more than the smallest gain here would hand the win to simpler but slower entrants: simulated
        with eight of them within 3 %, that loses over twice the speed, and takes 40 % more timings at 0.5 % noise.
        """
        return leader is not None and name != leader and self.times.beats(leader, name, alpha=self._level)

    def judgement(self, verdict: Verdict, reason: str) -> Judgement:
        us = self.times.medians
        return Judgement(verdict, reason, self.contest.stock, us=us, raced=self.times)

    def ended(self, *, stopped: bool) -> Judgement:
        """Without anyone to confirm."""
        contest, leader = self.contest, self.leader
        if stopped:
            return self.judgement("inconclusive", "you stopped the run in the race")
        if leader is None:
            failed = f"none of the {len(self.times.failed)} fastest can be timed any more"
            return replace(self.judgement("no-winner", failed), cause="failed")
        speedup = self.times.ratio(leader, contest.baseline, alpha=self._level)
        reason = speedup.over(contest.over) if speedup else f"nothing is faster than {contest.over}"
        return replace(self.judgement("no-winner", reason), speedup=speedup, confirmed_name=leader)


def _baseline_failed(failure: TimingFailed) -> DeviceError:
    return DeviceError(
        f"the baseline stopped working in the middle of the race: {str(failure)[:200]}",
        remedy="Check the device and run again with --resume.",
    )
