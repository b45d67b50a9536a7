"""The time that a whole suite may take, divided among its problems."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST_SECONDS = 30.0
"""Below this a run has no time for a search and a race: better fewer problems with a verdict."""


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
