"""The time of one comparison: what the search may use, what is kept for the verdict and what ships.

The judge may stop at any time, so that nothing has to be kept for it but about eight pairs of timings; what the search
leaves beyond that goes to a race of more entrants.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from autotuner.errors import OutOfTimeError
from autotuner.measure.clock import AIR, LATE_SECONDS, Clock, longer
from autotuner.measure.contest import REPETITIONS, SLOW_US
from autotuner.measure.judge import LEAD_BLOCKS, PAIRS, RACE_SHARE
from autotuner.measure.judgement import Judgement

LEAST_PAIRS = 3
"""Of a confirmation: so few tell what is far beyond the noise."""
RACE_BLOCKS = 8
"""In this many blocks a race mostly finds its leader."""
LEADERS = 4
"""Candidates that are compared where no verdict is asked for."""
_END_SHARE, _VERDICT_SHARE = 0.35, 0.6
"""Of the time after the default is timed, for the end: of a run that has little of it, and at most where so much is
needed for a verdict. The rest is for the search."""
_HOPELESS = 10
"""A candidate that has no time after so many timings of the default is no faster, however busy the machine."""
SHIPPED, FINALIST = 1.25, 0.25
"""In compiles of the default, or of what wins: what shipping takes; a finalist, of which only the repeats change."""


@dataclass(frozen=True)
class Schedule:
    """How the time of one comparison is divided, by what is known so far."""

    clock: Clock
    timing: float
    """Seconds for one timing of the baseline on the open device."""
    fresh: float
    """The same in a process of its own."""
    baseline_us: float = 0.0
    """Seconds of a call of the baseline, and of the best so far."""
    best_us: float = 0.0
    lasting: float = 0.0
    """Seconds of a repetition; a call that is shorter is repeated."""
    entrants: int = 8
    """In a race, at most."""
    building: float = 0.0
    """Seconds for each finalist that is still to be built."""
    shipping: float = 0.0
    """Seconds after the verdict, for what wins."""
    judges: bool = True
    """Without it the best of the search are only compared, and the whole model is judged."""
    room: float = math.inf
    """Seconds left after the default was timed."""

    def opened(self) -> Schedule:
        """The default is timed: from here on nothing new begins in the last part of the budget."""
        return replace(self, room=self.clock.left)

    def with_cold(self, seconds: float) -> Schedule:
        """With these seconds for a cold cache after the verdict; a short run has none."""
        fits = self.clock.fits(seconds, before=self.clock.phase("cold"))
        return replace(self, shipping=self.shipping + seconds) if fits else self

    def ahead(self, *, baseline_us: float, best_us: float) -> Schedule:
        """By what the default takes and the best so far."""
        return replace(self, baseline_us=baseline_us, best_us=min(best_us, baseline_us))

    # --- what timings take ----------------------------------------------------------------------------------------

    @property
    def rival(self) -> float:
        """Of the best, on the open device."""
        return self._rival(self.timing)

    def _rival(self, seconds: float) -> float:
        """Of the best, where one timing of the baseline takes so many seconds: as long to start, and its own calls."""
        baseline, best = (timing_seconds(max(self.lasting, us / 1e6)) for us in (self.baseline_us, self.best_us))
        return min(seconds, max(seconds - baseline, 0.0) + best)

    @property
    def pair(self) -> float:
        """The baseline and one other, as they are confirmed."""
        return self.fresh + self._rival(self.fresh)

    def block(self, rivals: int) -> float:
        """The baseline and this many others, as they race."""
        return self.timing + rivals * self.rival

    # --- what the end takes ---------------------------------------------------------------------------------------

    def _confirming(self, pairs: int) -> float:
        return 2 * self.building + pairs * self.pair + self.shipping

    def _racing(self, rivals: int) -> float:
        return (rivals + 1) * self.building + RACE_BLOCKS * self.block(rivals)

    @property
    def least(self) -> float:
        """Seconds of the shortest way to a verdict."""
        return self._confirming(LEAST_PAIRS) if self.judges else self.comparing

    @property
    def enough(self) -> float:
        """Seconds that suffice for a verdict."""
        return self._confirming(PAIRS) if self.judges else self.comparing

    @property
    def full(self) -> float:
        """Seconds of a complete end."""
        return self._racing(self.entrants) + self._confirming(PAIRS) if self.judges else self.comparing

    @property
    def comparing(self) -> float:
        """Seconds for choosing the best of the search without a verdict, with the builds for it."""
        return 3 * LEAD_BLOCKS * self.block(LEADERS)

    def reserve(self, left: float) -> float:
        """Of `left` seconds, when the default is timed: those that the search leaves for the end."""
        room = max(left - self.shipping, 0.0)
        least, enough, full = (AIR * (one - self.shipping) for one in (self.least, self.enough, self.full))
        needed = max(min(enough, _VERDICT_SHARE * room), min(least, room))
        return self.shipping + max(needed, min(full, _END_SHARE * room))

    def search_ends(self, *, rival: bool, awaited: bool) -> float:
        """The moment at which a search begins nothing new; never, before the default is timed.

        Without a rival nothing is kept: what is timed late is at least known then. While the one that is expected to
        be the fastest is `awaited`, nothing is kept for a race.
        """
        if math.isinf(self.room):
            return math.inf
        kept = (self.kept_of(self.room) if awaited else self.reserve(self.room)) if rival else 0.0
        return self.clock.at(self.clock.budget - kept)

    @property
    def race_begins(self) -> float:
        """The moment at which whole models race."""
        return self.clock.at(self.clock.budget - self.kept_of(self.clock.budget))

    def tuning_ends(self, compiling: float) -> float:
        """Before that: the tuned model is compiled before it races, and once more when something is dropped."""
        return self.race_begins - 2 * compiling

    def kept_of(self, budget: float) -> float:
        """The same where all that comes before is known to want every second: no more than a verdict needs."""
        return min(AIR * (self.enough - self.shipping) + self.shipping, _VERDICT_SHARE * budget)

    def too_late(self, building: float = 0.0) -> bool:
        """No verdict fits into the time left; a rival takes this long to build."""
        return not self.clock.fits(self.least + building)

    def given_up(self, search_ends: float) -> float:
        """The moment at which a hanging candidate is given up: twice the time of a timing."""
        return self.clock.phase("candidate", before=search_ends, least=2 * self.timing)

    def hopeless(self, began: float) -> float:
        """Seconds since a timing began, where the default would have been timed many times in these; else 0."""
        seconds = self.clock.elapsed - began
        return seconds if seconds >= _HOPELESS * self.timing else 0.0

    def judging(self) -> float:
        """Seconds that the judge may use from now on: a pair that is nearly done may end."""
        return self.clock.left - self.shipping + LATE_SECONDS / 2

    @property
    def racing(self) -> int:
        """How many race: as many as the time can tell apart; fewer than two do not race."""
        room = RACE_SHARE * max(self.clock.left - self.shipping, 0.0)
        return max((n for n in range(2, 2 * self.entrants + 1) if self._racing(n) <= room), default=1)

    def leading(self) -> int:
        """How many are compared with the default where no verdict is asked for."""
        room = max(self.clock.left, 0.0) / LEAD_BLOCKS - self.timing
        return max(1, min(LEADERS, int(room / self.rival))) if self.rival else LEADERS

    # --- words ----------------------------------------------------------------------------------------------------

    def with_advice(self, judgement: Judgement) -> Judgement:
        """A judgement that more time might have changed says which budget would do."""
        if not judgement.out_of_time:
            return judgement
        blocks = judgement.confirmed.blocks if judgement.confirmed else 0
        missing = self._confirming(max(PAIRS, 2 * blocks))
        return replace(judgement, reason=f"{judgement.reason}. {self.would_do(missing)}")

    def too_short(self) -> str:
        """Why there is no verdict, and which budget would do."""
        return f"ran out of time: a comparison needs {max(self.least, 1.0):.0f} s. {self.would_do(self.enough)}"

    def would_do(self, missing: float) -> str:
        """The budget with these seconds more."""
        budget = self.clock.budget if math.isfinite(self.clock.budget) else 0.0
        return longer(max(self.clock.elapsed + missing, budget), part=self.clock.part)


def timing_seconds(seconds: float) -> float:
    """Seconds of one timing, by those of a call: with a warm-up call, unless a call is a measurement by itself."""
    return seconds if seconds * 1e6 > SLOW_US else (REPETITIONS + 1) * seconds


# --- before anything is timed -------------------------------------------------------------------------------------


class BeginningError(OutOfTimeError):
    """The time was up before IREE's default was timed."""


@contextmanager
def beginning(what: str) -> Iterator[None]:
    """Names the step that the end of the time interrupted."""
    began = time.monotonic()
    try:
        yield
    except BeginningError:
        raise
    except OutOfTimeError as error:
        under_way = f"{what} had not ended after {time.monotonic() - began:.0f} s"
        raise BeginningError(f"ran out of time before IREE's default was timed: {under_way}") from error


def late(error: OutOfTimeError, clock: Clock) -> str:
    """Why a run has no verdict, and the budget that would do."""
    if isinstance(error, BeginningError):
        return f"{error.message}. {clock.longer(4)}"
    return f"ran out of time. {clock.longer()}"
