"""The time that a whole suite may take, divided among its problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SECONDS = 30.0
"""Below this a run has no time for a search and a race: better fewer problems with a verdict."""

BESIDE = 2
"""Problems that are tuned at once, for each device of several or of a cluster: while one is built another is timed."""


def divide(seconds: float, shares: Sequence[float], *, least: float = LEAST_SECONDS) -> list[float]:
    """Seconds for each problem, by share and at least `least`; 0 for those at the end that it does not suffice for.

    The first always gets something as long as any time is left.
    """
    count = min(len(shares), int(seconds // least))
    if count < 1:
        return [max(seconds, 0.0), *([0.0] * (len(shares) - 1))] if shares else []
    floor = set[int]()
    while True:
        # Those that their share gives too little take the least, and the rest is divided anew among the others.
        rest = seconds - least * len(floor)
        total = math.fsum(shares[i] for i in range(count) if i not in floor)
        parts = [
            least if i in floor else (rest * shares[i] / total if total > 0 else rest / (count - len(floor)))
            for i in range(count)
        ]
        poor = {i for i, part in enumerate(parts) if i not in floor and part < least}
        if not poor:
            return parts + [0.0] * (len(shares) - count)
        floor |= poor


@dataclass(frozen=True)
class Plan:
    """Of problems that wait, the largest first: which are tuned next, with what of the time, and which not at all."""

    parts: tuple[float, ...] | None
    """Seconds of one device for each that is tuned next; None where the user has set no limit."""
    count: int
    """How many that are."""
    left_out: int
    """Those at the end that there is no time for."""
    devices: int

    @classmethod
    def of(cls, seconds: float | None, shares: Sequence[float], *, devices: int, at_once: int, first: bool) -> Plan:
        """`first`: nothing is tuned yet, so that one gets what there is, be it ever so little."""
        if seconds is None:
            return cls(None, min(at_once, len(shares)), 0, devices)
        parts = divide(seconds * devices, shares)
        if not first and parts[0] < LEAST_SECONDS:
            parts[0] = 0.0
        fitting = sum(part > 0 for part in parts)
        now = min(at_once, fitting)
        return cls(tuple(parts[:now]), now, len(shares) - fitting, devices)

    @property
    def own(self) -> float | None:
        """Seconds of the first, which is tuned alone."""
        return self.parts[0] if self.parts else None

    def seconds(self, usual: float) -> float:
        """For all that are tuned next, side by side; `usual` is what one has that nobody gave a limit."""
        of_all = usual * self.count if self.parts is None else sum(self.parts)
        return of_all / min(self.devices, self.count)
