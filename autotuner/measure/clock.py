"""The time of a job: how its phases and its parts divide the budget, and which budget would do.

Nobody else computes with a budget's seconds, but the schedule of a comparison beside it. A job asks when a phase ends,
whether something still fits, and for its parts in turn.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from autotuner.errors import AutotuneError, BusyError, StorageError, ToolMissingError
from autotuner.system import process
from autotuner.system.progress import LEAST_BUDGET

P = TypeVar("P")
R = TypeVar("R")
OF_ALL = (StorageError, ToolMissingError, BusyError)
"""Errors that are not the fault of the part in which they are met."""
Phase = Literal[
    "defaults", "parts", "bucket", "routes", "ranking", "answers", "dispatches", "finalists", "candidate", "cold"
]
SHARES: Mapping[Phase, float] = {
    "defaults": 0.5,  # of a suite: IREE's default of every problem is timed; then those that matter are tuned
    "parts": 0.9,  # of a suite and of buckets, all of them; then what won is merged and proven
    "bucket": 0.5,  # the search at its bound; then a race at each of its other sizes, which all must come to an end
    "routes": 0.25,  # of a model, before any dispatch is tuned
    "ranking": 0.1,  # of a model whose device keeps no statistics: dispatches are timed alone
    "answers": 0.2,  # of a model whose builds disagree: it is computed on the host
    "dispatches": 0.7,  # of a model without a device; then the whole is compiled
    "finalists": 0.4,  # after a search they are built to last longer; then they race
    "candidate": 0.25,  # one that hangs, of what its search has
    "cold": 0.1,  # timings with a cold cache; where that does not do, a run goes without
}
"""Of the time that is left when a phase begins, at most; the rest is for what comes after it."""
LATE_SECONDS = 3.0
"""How far beyond its budget a run may still measure."""
_PROOF_SECONDS = 8.0
"""How far beyond it what ships may still be compiled once more."""
AIR = 1.2
"""Timings are not all alike; and what is advised has some room."""


@dataclass
class Clock:
    """The time that a job, or a part of one, may take."""

    budget: float
    """Seconds; infinity: nobody gave any."""
    started: float = field(default_factory=lambda: time.monotonic())
    part: bool = False
    """Of something longer: a user gave the budget of all of it, not this one."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.budget - self.elapsed

    # --- moments of `time.monotonic()` ----------------------------------------------------------------------------

    def at(self, elapsed: float) -> float:
        """So many seconds after the start."""
        return self.started + elapsed

    @property
    def end(self) -> float:
        return self.at(self.budget)

    @property
    def latest(self) -> float:
        """What still runs is cut off: a timing that is nearly done may end."""
        return self.at(self.budget + LATE_SECONDS)

    @property
    def proven(self) -> float:
        """The compile of what ships is cut off, the last thing that a run does."""
        return self.at(self.budget + _PROOF_SECONDS)

    def phase(self, name: Phase, *, before: float | None = None, least: float = 0.0) -> float:
        """The end of a phase that begins now: it has its share of what is left, but at least these seconds."""
        seconds = SHARES[name] * self.until(self.end if before is None else before)
        return self.at(self.elapsed + max(seconds, least))

    def until(self, moment: float) -> float:
        """Seconds from now."""
        return max(moment - self.at(self.elapsed), 0.0)

    def given_up(self, moment: float) -> float:
        """The moment at which work that should have ended by then is given up."""
        return min(self.at(1.1 * (moment - self.started)), self.end)

    @property
    def up(self) -> bool:
        return self.left <= 0

    def add(self, seconds: float) -> None:
        """Adds seconds that were spent on another machine."""
        self.started -= seconds

    def fits(self, seconds: float, *, before: float | None = None) -> bool:
        """Is there time for this many seconds?"""
        return self.at(self.elapsed + seconds) <= (self.latest if before is None else before)

    # --- parts ----------------------------------------------------------------------------------------------------

    def turn(self, shares: Sequence[float], *, before: float, least: float = 0.0, first: bool = False) -> float:
        """Seconds for the next of these parts, all of which end before that moment; 0: there is no time for it.

        It has all where that is less than `least`. In less than the least budget nothing can be timed: the first part
        says so itself, no other begins.
        """
        left = self.until(before)
        if left < LEAST_BUDGET and not first:
            return 0.0
        return left if math.isinf(left) else share_of(left, shares, least=min(least, left))

    def in_turn(
        self,
        parts: Sequence[P],
        work: Callable[[P, float], R],
        *,
        share: Callable[[P], float] = lambda _: 1.0,
        before: float | None = None,
        least: float = 0.0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[P, R | AutotuneError | None]]:
        """Does the work on one part after the other, with the seconds that it has `before` that moment.

        Yields what each came to: what goes wrong with one is its own end. None: its turn did not come, since all was
        stopped or the time was up.
        """
        shares, ends = [share(one) for one in parts], self.end if before is None else before
        for number, one in enumerate(parts):
            seconds = self.turn(shares[number:], before=ends, least=least, first=number == 0)
            came_to: R | AutotuneError | None = None
            if seconds and not stopped():
                try:
                    with process.until(self.latest):
                        came_to = work(one, seconds)
                except OF_ALL:
                    raise
                except AutotuneError as error:
                    came_to = error
            yield one, came_to

    # --- words ----------------------------------------------------------------------------------------------------

    def longer(self, times: float = 2.0) -> str:
        """The advice where this many times the budget would do."""
        return longer(times * (self.budget if math.isfinite(self.budget) else self.elapsed), part=self.part)


def share_of(seconds: float, shares: Sequence[float], *, least: float = 0.0) -> float:
    """Seconds for the first of these, the largest: by its share among those that can have `least` each; 0 for none."""
    fitting = min(len(shares), int(seconds // least)) if least else len(shares)
    if not fitting or seconds <= 0:
        return 0.0
    total = sum(shares[:fitting])
    own = seconds * (shares[0] / total if total else 1 / fitting)
    return max(min(own, seconds - least * (fitting - 1)), least)


def before_modules(seconds: float, lengths: int) -> float:
    """Of a bundle's budget, for its search: after that each module is finished in so many lengths, which takes 0.07
    of its compile on GPUs and 0.12 on a processor."""
    return seconds / (1 + 0.1 * lengths)


def longer(seconds: float, *, part: bool = False) -> str:
    """The advice where these seconds would do; for a `part` of a run there is none."""
    if part:
        return "Try a longer --budget"
    return f"Try --budget {math.ceil(AIR * seconds / 5) * 5}s"
