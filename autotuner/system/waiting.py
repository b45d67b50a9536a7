"""Waiting for others: seconds in which this process stood still count for nobody.

Ctrl-Z stops it, a hypervisor stops the whole machine. What is waited for stood still as well, or has ended meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

TURN_SECONDS = 1.0
"""The longest wait without a look at the clock."""
_PARTS = 4
"""Of a short time there are so many turns."""


def turns(seconds: float, *, until: float = math.inf) -> Iterator[float]:
    """How long to wait, again and again: so many seconds in all, or until a moment of `time.monotonic()`.

    A wait that took longer than it should counts as long as it should.
    """
    step = min(TURN_SECONDS, seconds / _PARTS)
    waited = 0.0
    began = monotonic()
    while waited < seconds and began < until:
        turn = min(step, seconds - waited, until - began)
        yield turn
        now = monotonic()
        waited += min(now - began, turn)
        began = now


@dataclass
class AwakeClock:
    """Seconds, for who looks at it at least so often: of a longer time between two looks only these count."""

    longest: float
    _at: float = field(default_factory=lambda: monotonic())
    _seconds: float = 0.0

    def now(self) -> float:
        moment = monotonic()
        self._seconds += min(moment - self._at, self.longest)
        self._at = moment
        return self._seconds
