"""The time of a comparison: what a problem gets of it, whether one more block fits, and what the least is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotuner.measure.contest import REPETITIONS
from autotuner.measure.schedule import LEAST_PAIRS, longer
from autotuner.system.progress import Clock
from autotuner.system.text import count

WARM_SHARE = 0.75
"""Of a problem's time, where cold times are wanted too."""

_LIBRARIES_SECONDS, _BACKEND_SECONDS = 4.0, 2.5
"""About: for starting the libraries; and for each backend of a problem, to build and to check it."""
_UNKNOWN = 0.5
"""Of a problem is thought to be done where none is: what is left of it takes as long again."""


def short_of(clock: Clock, problems: int, backends: int, *, lasting: float) -> str:
    """What to say at the start of a budget that is too short for all; nothing of one that is not.

    A repetition lasts `lasting` seconds.
    """
    timing = LEAST_PAIRS * (REPETITIONS + 1) * lasting
    least = _LIBRARIES_SECONDS + problems * backends * (_BACKEND_SECONDS + timing)
    if clock.budget >= least:
        return ""
    what = f"{count(problems, 'problem')} on {count(backends, 'backend')}"
    return f"--budget is short: {what} take about {least:.0f} s at the least; what is not reached is left out"


def share_of(clock: Clock, problems: int) -> float:
    """When the next of so many problems ends, in seconds on the clock."""
    return clock.elapsed + max(clock.left, 0.0) / problems if math.isfinite(clock.budget) else math.inf


def unreached(clock: Clock, done: int, problems: int) -> str:
    """How many problems are left out by the budget, and what would do; nothing where all were reached."""
    if done == problems:
        return ""
    would_do = longer(max(clock.elapsed, clock.budget) * problems / max(done, _UNKNOWN))
    if problems == 1:
        return f"the time was up before anything was timed: {would_do}"
    left = f"{problems - done} of {problems} problems were not reached"
    return f"the time was up: {left}: {would_do}, or --resume goes on with them"


@dataclass
class Turns:
    """Asked before each block: does one more fit?"""

    clock: Clock
    ends: float
    """In seconds on the clock."""
    _began: float | None = None
    _longest: float = 0.0

    def another(self) -> bool:
        """The first always does."""
        now = self.clock.elapsed
        first = self._began is None
        if self._began is not None:
            self._longest = max(self._longest, now - self._began)
        self._began = now
        return first or now + self._longest <= self.ends
