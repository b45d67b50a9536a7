"""Times taken side by side, and what a race over them stands at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Literal

from autotuner.measure.interval import median_interval, shift_interval

ALPHA = 0.05
LOOKS = (12, 16, 24, 32, 48)
"""After how many blocks the race is judged; each look spends its share of alpha."""

Verdict = Literal["win", "no-winner", "inconclusive"]


@dataclass(frozen=True)
class Entrant:
    """Who takes part. Of those that cannot be told apart, the one of least complexity wins."""

    id: str
    complexity: int = 0


@dataclass(frozen=True)
class Rules:
    """What a win is: a gain above the smallest one, with a probability of alpha at most that it is none."""

    alpha: float = ALPHA
    smallest_gain: float = 0.01
    looks: tuple[int, ...] = LOOKS


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class Interval:
    """A speed ratio, t_against / t_candidate: above 1, the candidate is faster."""

    median: float
    low: float
    high: float

    @property
    def bounds(self) -> str:
        """For people."""
        return f"{self.low:.3f} to {self.high:.3f}"

    def to_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class BlockTimes:
    """Times by block: those of one block were taken side by side, so only within a block are they compared."""

    times: Mapping[str, tuple[float | None, ...]]

    @property
    def blocks(self) -> int:
        return max((len(row) for row in self.times.values()), default=0)

    @property
    def timings(self) -> int:
        """How many single timings were taken."""
        return sum(time is not None for row in self.times.values() for time in row)

    def taken(self, name: str) -> int:
        """How many of one."""
        return sum(time is not None for time in self.times[name])

    def ratio(self, candidate: str, against: str, *, alpha: float) -> Interval | None:
        """How much faster `candidate` is, over the blocks that have both; None when these are too few."""
        pairs = zip(self.times[candidate], self.times[against], strict=True)
        logs = [math.log(b) - math.log(a) for a, b in pairs if a is not None and b is not None]
        bounds = median_interval(logs, alpha=alpha)
        if bounds is None:
            return None
        return Interval(median=math.exp(median(logs)), low=math.exp(bounds[0]), high=math.exp(bounds[1]))

    def ratio_of_all(self, candidate: str, against: str, *, alpha: float) -> Interval | None:
        """The same where one is timed oftener than the other: of all timings, whatever their blocks."""
        own, others = (
            [math.log(time) for time in self.times[name] if time is not None] for name in (candidate, against)
        )
        found = shift_interval(others, own, alpha=alpha)
        return Interval(*(math.exp(value) for value in found)) if found is not None else None


@dataclass(frozen=True)
class Drop:
    """When an entrant left the race, and why."""

    block: int
    reason: Literal["beaten", "no-gain", "failed"]
    detail: str = ""


@dataclass(frozen=True)
class RaceResult(BlockTimes):
    """A race as it stands: enough to decide it, and to store it."""

    entrants: tuple[Entrant, ...]
    baseline: str
    survivors: tuple[str, ...]
    dropped: Mapping[str, Drop] = field(default_factory=dict)
    ended: Literal["settled", "last-look", "stopped", "running"] = "running"
    rules: Rules = DEFAULT_RULES

    @property
    def level(self) -> float:
        """What one interval at one look may spend of alpha."""
        return self.rules.alpha / (len(self.rules.looks) * max(len(self.entrants) - 1, 1))

    @property
    def challengers(self) -> tuple[str, ...]:
        """The survivors that can win."""
        return tuple(name for name in self.survivors if name != self.baseline)

    def over_baseline(self, candidate: str) -> Interval | None:
        return self.ratio(candidate, self.baseline, alpha=self.level)

    def complexity(self, name: str) -> int:
        return next(e.complexity for e in self.entrants if e.id == name)
