"""How many searches are begun side by side: no more than come to their first timing in the time that there is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotuner.measure.schedule import longer
from autotuner.targets import Target

OPENING_SECONDS = {"host": 1.0, "gpu": 4.0}
"""About, on an idle core, before the first problem of many is opened: for reading a space and compiling its default."""
FIRST_TIMING_SECONDS = 1.0
"""About, in the same case: for timing that default, one after the other."""
_SEARCHED = 0.6
"""Of the time for all of them: the rest is for comparing the best of each in the end."""


@dataclass(frozen=True)
class Openings:
    """What comes before a search, for many that share builders and a device."""

    reading: float
    timing: float
    builders: int

    @classmethod
    def on(cls, target: Target, *, builders: int, crowding: float = 1.0) -> Openings:
        """On builders that take so many times longer than idle ones."""
        reading = OPENING_SECONDS["host" if target.backend.on_host else "gpu"]
        return cls(crowding * reading, crowding * FIRST_TIMING_SECONDS, builders)

    def seconds(self, count: int) -> float:
        """That so many need in all, until each one's default is timed and some of its candidates can be."""
        return (math.ceil(count / self.builders) * self.reading + count * self.timing) / _SEARCHED

    def fitting(self, count: int, seconds: float) -> int:
        """How many of these are begun; where there is any time, one."""
        return max((n for n in range(1, count + 1) if self.seconds(n) <= seconds), default=min(count, 1))

    def not_begun(self, count: int, seconds: float, *, budget: float) -> str:
        """Why one of these is not begun, with what would do for all."""
        missing = max(self.seconds(count) - seconds, 0.0)
        return f"not begun, with {seconds:.0f} s left for all dispatches: {longer(budget + missing)}"
