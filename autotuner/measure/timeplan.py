"""One plan for the time of a run: what the search may use, how a verdict is reached in the rest, what ships after it.

A run prepares, searches, races, confirms and ships. The plan knows what a timing, a build and shipping take here;
whoever measures one of them anew makes a corrected plan. Time that a step leaves goes to the next: the race has more
entrants, the confirmation more blocks. Where time is short the race is left out first, then the stock route beside the
confirmation, then blocks of it: the best of the search alone against the baseline is the shortest way to a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from autotuner.devices.child_base import needs_warming
from autotuner.measure.blocks import LOOKS
from autotuner.system.progress import LATE_SECONDS, Clock

SURE_BLOCKS = 9
"""Of a confirmation: with fewer, a single spike is part of a 95 % interval."""
LEAST_BLOCKS = 6
"""Of a confirmation: with fewer there is no 95 % interval at all."""
END_SHARE = 0.35
"""Of the time after the default is timed, for the end of a run that has little of it; the rest is for the search."""
_VERDICT_SHARE = 0.6
"""Of the same, where the least race and its confirmation need more than that."""
_AIR = 1.1
"""Timings are not all alike, and a block may begin just before the end."""
FEWEST = 2
"""Rivals in a race after a search: the best stock route, and the best candidate."""
REPETITIONS = 3
"""In one timing."""
CALLS = REPETITIONS + 1
"""Of a module in one timing: the repetitions, and one to warm up."""
BRIEF_CALLS = 2
"""Of a timing of one repetition."""
_LONG = LOOKS[2]
"""Blocks of a race with all the time that it wants."""
LEAD_BLOCKS = 5
"""How often each is timed where the fastest is only chosen, not judged."""
LEADERS = 4
"""Candidates that are compared there."""
FAR_AHEAD = 3.0
"""Times faster than the baseline: what is so far ahead is told from it by one repetition each, where time is short."""
FEW_BLOCKS, FEW_TIMES = 3, 3
"""Where even that takes too long: how often the baseline is timed, at most, and how often the other beside each."""
FEW_NEED = 2.0
"""Times faster: a claim by so few timings, of which no two share the state of the machine, must be beyond it."""
TELL = 2
"""Timings of the baseline: with fewer there is no interval, however often the other is timed."""
CLEARLY_AHEAD = 1.2
"""Times faster than the baseline: of what is so far ahead the first blocks may be enough."""
EARLY_LOOKS = (7, 12)
"""Of a confirmation, after so many blocks: with fewer than seven no share of 5 % has an interval."""
_LOOKED_AGAIN = 4
"""Blocks from one look to the next, at least."""
_LEAD_BUILDS = 3
"""What such a comparison takes with the builds for it, over its timings."""
_ROUNDED = 5
OPENING_SECONDS = {"host": 1.0, "gpu": 4.0}
"""About, on an idle core, before the first problem of many is opened: for reading a space and compiling its default."""
KERNEL_SECONDS = {"host": 0.7, "gpu": 3.0}
"""About, on an idle core, for building one microkernel: from C, and mostly by Triton."""
FINDING_SECONDS = 5.0
"""About, before the first kernel is put into a model: for finding the dispatches of all its places."""
FIRST_TIMING_SECONDS = 1.0
"""About, in the same case: for timing that default, one after the other."""
_LIBRARIES_SECONDS, _BACKEND_SECONDS = 4.0, 2.5
"""About, in a comparison: for starting the libraries; and for each backend of a problem, to build and to check it."""


@dataclass(frozen=True)
class Pace:
    """Seconds that one timing takes: of the baseline, and of another."""

    baseline: float
    rival: float
    spared: tuple[float, float] = (0.0, 0.0)
    """Of these seconds, those that a timing of one repetition does without."""

    @classmethod
    def of(cls, seconds: float, *, baseline_us: float, best_us: float, lasting: float) -> Pace:
        """From one timing of the baseline; a repetition lasts `lasting` seconds, or a call where that is longer."""
        one, other = (max(lasting, us / 1e6) for us in (baseline_us, best_us))
        starting = max(seconds - CALLS * one, 0.0)
        rival = min(seconds, starting + CALLS * other)
        more = (CALLS - BRIEF_CALLS) / CALLS
        return cls(seconds, rival, (more * min(seconds, CALLS * one), more * min(rival, CALLS * other)))

    @classmethod
    def timed(cls, baseline: float, rival: float, *, baseline_us: float, best_us: float, lasting: float) -> Pace:
        """From one timing of each."""
        calls = [max(lasting, us / 1e6) for us in (baseline_us, best_us)]
        most = [one * (REPETITIONS - 1) / REPETITIONS for one in (baseline, rival)]
        spared = [min((REPETITIONS - 1) * call, all_of_it) for call, all_of_it in zip(calls, most, strict=True)]
        return cls(baseline, rival, (spared[0], spared[1]))

    @classmethod
    def on_open_device(cls, *, baseline_us: float, best_us: float, lasting: float) -> Pace:
        """From what single calls took, where nothing is started for a timing."""
        calls = [max(lasting, us / 1e6) for us in (baseline_us, best_us)]
        warm = [one if needs_warming(one, lasting) else 0.0 for one in calls]
        baseline, rival = (REPETITIONS * one + before for one, before in zip(calls, warm, strict=True))
        return cls(baseline, rival, ((REPETITIONS - 1) * calls[0], (REPETITIONS - 1) * calls[1]))

    @classmethod
    def once(cls, seconds: float, *, best_us: float, lasting: float, starting: float = 0.0) -> Pace:
        """The same where the baseline is so slow that it is called once in a timing, and no more, brief or not."""
        call = max(lasting, best_us / 1e6)
        return cls(seconds, starting + CALLS * call, (0.0, (CALLS - BRIEF_CALLS) * call))

    @property
    def brief(self) -> Pace:
        """Of one repetition each."""
        return Pace(self.baseline - self.spared[0], self.rival - self.spared[1])

    def block(self, rivals: int) -> float:
        """All of them once."""
        return self.baseline + rivals * self.rival


def usual_seconds(seconds: float, *, calls: int, before: float, then: float) -> float:
    """Of a timing, by another with so many calls that lasted `before` seconds each; those to come last `then`."""
    return max(seconds - calls * before, 0.0) + CALLS * then


@dataclass(frozen=True)
class Ending:
    """A way to a verdict, and the seconds that it takes at the least."""

    rivals: int
    """That race against the baseline; 0 where the favourite is confirmed without a race."""
    beside: bool
    """The best stock route is timed beside the confirmation."""
    blocks: int
    """Of the confirmation, at the least."""
    seconds: float
    brief: bool = False
    """One repetition each."""
    few: bool = False
    """The baseline is timed only a few times, the other oftener, on the open device."""


@dataclass(frozen=True)
class TimePlan:
    """How the time of one run is divided."""

    race: Pace
    confirm: Pace
    rivals: int = 8
    """In a race, at most."""
    screens: bool = False
    """More than these are screened again before the race; then it may also have fewer."""
    blocks: int = 24
    """Of the confirmation, at most."""
    stock: bool = False
    """There is a best stock route beside the baseline."""
    building: float = 0.0
    """Seconds for each finalist that is still to be built."""
    shipping: float = 0.0
    """Seconds after the verdict, for what wins."""
    judges: bool = True
    """Without, the best of the search are only compared, and something larger is the judge."""
    ahead: float = 1.0
    """How many times faster than the baseline the best so far is."""
    brief: bool = False
    """The confirmation is of one repetition each."""
    known: int = 0
    """Timings of the baseline from before that count where there are few."""

    # --- what the end takes ---------------------------------------------------------------------------------------

    @property
    def full(self) -> float:
        """Seconds of an end that lacks nothing, shipping included."""
        if not self.judges:
            return self._lead
        return self._racing(self.rivals, _LONG) + self._confirming(self.blocks, beside=self.stock) + self.shipping

    @property
    def sound(self) -> float:
        """Seconds for the smallest race with a confirmation that stands a spike."""
        return self._raced(min(FEWEST, self.rivals)).seconds + self.shipping if self.judges else self._lead

    @property
    def enough(self) -> float:
        """Seconds in which a verdict can be counted on: the farther ahead the best is, the fewer timings tell it."""
        ways = [self.sound]
        if self.judges and self.ahead >= CLEARLY_AHEAD:
            ways.append(self._alone(SURE_BLOCKS, beside=self.stock).seconds + self.shipping)
        if self.judges and self.ahead >= FAR_AHEAD:
            ways.append(self._alone(LEAST_BLOCKS, beside=False, brief=True).seconds + self.shipping)
        if self.judges and self.ahead >= FEW_NEED * FAR_AHEAD:
            more = (FEW_BLOCKS - TELL) * self.race.brief.baseline
            ways.append(self._few.seconds + more + self.shipping)
        return min(ways)

    @property
    def least(self) -> float:
        """Seconds of the shortest way to a verdict."""
        return self._shortest.seconds + self.shipping if self.judges else self._lead

    @property
    def _lead(self) -> float:
        return _LEAD_BUILDS * LEAD_BLOCKS * self.race.block(LEADERS)

    def reserve(self, left: float) -> float:
        """Of `left` seconds, when the default is timed: those that the search leaves for the end."""
        room = max(left - self.shipping, 0.0)
        sound, least, full = (_AIR * (seconds - self.shipping) for seconds in (self.sound, self.least, self.full))
        needed = max(min(sound, _VERDICT_SHARE * room), min(least, room))
        return self.shipping + max(needed, min(full, END_SHARE * room))

    def kept_of(self, budget: float) -> float:
        """The same where all that comes before is known to want every second: no more than a sound verdict needs."""
        return min(_AIR * (self.sound - self.shipping) + self.shipping, _VERDICT_SHARE * budget)

    def lead_rivals(self, left: float) -> int:
        """How many are compared with the default where nothing is judged: better few, to the end."""
        room = max(left, 0.0) / LEAD_BLOCKS - self.race.baseline
        return max(1, int(room / self.race.rival)) if self.race.rival else LEADERS

    # --- ways to a verdict ----------------------------------------------------------------------------------------

    def ending(self, left: float) -> Ending | None:
        """The most thorough way to a verdict that fits into `left` seconds of the budget; None where none does."""
        room = left - self.shipping
        for one in self._endings():
            if one.seconds <= room:
                return one
        last = self._shortest
        return last if last.seconds <= room + LATE_SECONDS and last.seconds <= left else None

    @property
    def _shortest(self) -> Ending:
        if self.ahead < FAR_AHEAD:
            return self._alone(LEAST_BLOCKS, beside=False)
        return min(self._alone(LEAST_BLOCKS, beside=False, brief=True), self._few, key=lambda one: one.seconds)

    def _endings(self) -> Iterator[Ending]:
        fewest = min(FEWEST, self.rivals) if self.screens else self.rivals
        yield from (self._raced(rivals) for rivals in range(self.rivals, fewest - 1, -1))
        if self.stock:
            yield self._alone(SURE_BLOCKS, beside=True)
        yield self._alone(SURE_BLOCKS, beside=False)
        yield self._alone(LEAST_BLOCKS, beside=False)
        if self.ahead >= FAR_AHEAD:
            yield self._alone(LEAST_BLOCKS, beside=False, brief=True)
        yield self._shortest

    def _raced(self, rivals: int) -> Ending:
        blocks, beside = min(SURE_BLOCKS, self.blocks), self.stock and rivals > 1
        return Ending(rivals, beside, blocks, self._racing(rivals, LOOKS[0]) + self._confirming(blocks, beside=beside))

    def _alone(self, blocks: int, *, beside: bool, brief: bool = False) -> Ending:
        blocks = min(blocks, self.blocks)
        built = (2 + self.stock) * self.building
        return Ending(0, beside, blocks, built + self._confirming(blocks, beside=beside, brief=brief), brief)

    @property
    def _few(self) -> Ending:
        built = (2 + self.stock) * self.building
        return Ending(0, False, FEW_BLOCKS, built + self._few_seconds, brief=True, few=True)

    @property
    def _few_seconds(self) -> float:
        """The baseline no oftener than an interval needs."""
        pace = self.race.brief
        return (TELL - self.known) * pace.baseline + FEW_BLOCKS * FEW_TIMES * pace.rival

    def has_time_for_few(self, left: float) -> bool:
        """Of a confirmation that times the baseline only a few times, where that may tell enough."""
        return self.ahead >= FAR_AHEAD and self._few_seconds <= left - self.shipping + LATE_SECONDS

    def _racing(self, rivals: int, blocks: int) -> float:
        """The finalists' builds, their second screening, and the race itself."""
        again = (2 * rivals + 3) * self.race.rival if self.screens else 0.0
        built = (2 * rivals + 1) * self.building
        return built + again + blocks * self.race.block(rivals)

    def _confirming(self, blocks: int, *, beside: bool, brief: bool = False) -> float:
        return blocks * (self.confirm.brief if brief else self.confirm).block(1 + beside)

    def paced(self, *, baseline_us: float, best_us: float, lasting: float) -> TimePlan:
        """A first plan, by what the default takes and the best so far; a repetition lasts `lasting` seconds."""
        best_us = min(best_us, baseline_us)
        pace = partial(Pace.of, baseline_us=baseline_us, best_us=best_us, lasting=lasting)
        ahead = baseline_us / best_us if best_us else 1.0
        return replace(self, race=pace(self.race.baseline), confirm=pace(self.confirm.baseline), ahead=ahead)

    # --- while it is judged ---------------------------------------------------------------------------------------

    def measured(self, race: Pace, *, alike: bool) -> TimePlan:
        """Corrected by what the race's timings took; `alike`: the confirmation is timed the same way."""
        return replace(self, race=race, confirm=race if alike else self.confirm)

    def briefly(self) -> TimePlan:
        """With one repetition each in the confirmation, and no shorter way after it."""
        return replace(self, confirm=self.confirm.brief, brief=True)

    def confirm_blocks(self, left: float, *, beside: bool) -> int:
        """How many blocks there is time for, fixed beforehand: then the interval holds its level whatever comes."""
        block, room = self.confirm.block(1 + beside), max(left - self.shipping, 0.0)
        return min(self.blocks, int(room / block)) if block and math.isfinite(room) else self.blocks

    def looks(self, blocks: int) -> tuple[int, ...]:
        """After how many of these blocks a confirmation may end; none where it would not, or would end soon anyway."""
        if self.ahead < CLEARLY_AHEAD:
            return ()
        return tuple(look for look in EARLY_LOOKS if look + _LOOKED_AGAIN <= blocks)

    def needs_confirmation(self, *, looked: bool) -> float:
        """Seconds that a race leaves: before its first look it tells nothing, so it may use more than after it."""
        blocks = min(SURE_BLOCKS if looked else LEAST_BLOCKS, self.blocks)
        return _AIR * self._confirming(blocks, beside=self.stock and looked) + self.shipping

    # --- words ----------------------------------------------------------------------------------------------------

    def fewer(self, blocks: int, clock: Clock, *, beside: bool) -> str:
        """That a confirmation had not all its blocks, and the budget that has time for them."""
        missing = self._confirming(self.blocks - blocks, beside=beside) + self.shipping
        wanted = _rounded(max(clock.elapsed, clock.budget) + missing)
        more = "a longer --budget" if clock.part else f"--budget {wanted}s"
        return f"there was time for {blocks} blocks, and {more} has time for {self.blocks}"

    def too_short(self, clock: Clock) -> str:
        """Why there is no verdict, with what was left and what would do."""
        left, shortest = max(clock.left, 0.0), self.least - self.shipping
        ships = f", compiling what ships {self.shipping:.0f} s more" if self.shipping >= 1 else ""
        reason = f"no verdict fits: the shortest comparison takes about {shortest:.0f} s{ships}"
        return f"{reason}, with {left:.0f} s left: {self.would_do(clock)}"

    def would_do(self, clock: Clock, *, raced: bool = False, undecided: bool = False) -> str:
        """The budget for the same and a verdict after it; `raced`: only its confirmation is missing; `undecided`: what
        was timed did not tell, so the next is to be sound."""
        missing = self.sound if undecided else self.enough
        if raced:
            confirming = self._confirming(min(SURE_BLOCKS, self.blocks), beside=self.stock) + self.shipping
            missing = min(confirming, missing)
        needed = clock.elapsed + missing
        return longer(max(needed, clock.budget if math.isfinite(clock.budget) else 0.0), part=clock.part)


def comparison_seconds(problems: int, backends: int, *, lasting: float) -> float:
    """About: in less some problems of a comparison are not reached, or have too few blocks for an interval."""
    timing = LEAST_BLOCKS * CALLS * lasting
    return _LIBRARIES_SECONDS + problems * backends * (_BACKEND_SECONDS + timing)


UNTIMED = TimePlan(Pace(0.0, 0.0), Pace(0.0, 0.0))
"""Where nothing is known of what timings take, and there is no hurry."""


def longer(seconds: float, *, part: bool = False) -> str:
    """What to ask for the next time, where so many seconds would do; of a `part` of a run that is no user's budget."""
    if part:
        return "a longer --budget would do"
    return f"--budget {_rounded(seconds)}s would do"


def _rounded(seconds: float) -> int:
    """With some air."""
    return math.ceil(1.2 * seconds / _ROUNDED) * _ROUNDED
