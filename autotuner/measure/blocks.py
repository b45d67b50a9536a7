"""Times taken side by side, and what they tell of two that were."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Literal

from autotuner.measure.evidence import bounds, evidence

ALPHA = 0.05

Verdict = Literal["win", "no-winner", "inconclusive"]


@dataclass(frozen=True)
class Entrant:
    """Who takes part. Of those that cannot be told apart, the one of least complexity wins."""

    id: str
    complexity: int = 0
    foreign: bool = False
    """It has code in it that is neither the compiler's nor autotune's: its gain must be certain on changing inputs."""


@dataclass(frozen=True)
class Rules:
    """What a win is: a gain above the smallest one, with a probability of alpha at most that it is none."""

    alpha: float = ALPHA
    smallest_gain: float = 0.01

    @property
    def worth(self) -> float:
        """The ratio that a win is above."""
        return 1 + self.smallest_gain


DEFAULT_RULES = Rules()


@dataclass(frozen=True)
class Interval:
    """A speed ratio, t_against / t_candidate: above 1, the candidate is faster."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, logs: Sequence[float], *, alpha: float = ALPHA) -> Interval | None:
        """Of pairs' log ratios, at whatever moment; None when these are too few."""
        found = bounds(logs, alpha=alpha)
        if found is None:
            return None
        low, high = found
        return cls(*(math.exp(value) for value in (min(max(median(logs), low), high), low, high)))

    def of_part(self, share: float) -> Interval:
        """The same of a part that takes this share of the slower one's time; all else takes both alike."""
        left = (1 - (1 - 1 / ratio) / share for ratio in (self.median, self.low, self.high))
        return Interval(*(1 / max(one, 1e-9) for one in left))

    def at_most(self, other: Interval) -> Interval:
        """No more than another says."""
        return Interval(min(self.median, other.median), min(self.low, other.low), min(self.high, other.high))

    def per(self, other: Interval) -> Interval:
        """Number by number."""
        return Interval(self.median / other.median, self.low / other.low, self.high / other.high)

    def times(self, other: Interval) -> Interval:
        return Interval(self.median * other.median, self.low * other.low, self.high * other.high)

    @property
    def bounds(self) -> str:
        return f"{ratio_text(self.low)} to {ratio_text(self.high)}"

    def __str__(self) -> str:
        return f"{ratio_text(self.median)} ({self.bounds})"

    def over(self, other: str, *, confidence: float = 1 - ALPHA) -> str:
        """`2.75x faster than IREE's default (95 % confidence: 2.67x to 2.86x)`; a slowdown the other way round."""
        sure = f"{100 * confidence:.3g} % confidence"
        if abs(math.log(self.median)) < math.log(DEFAULT_RULES.worth):
            return f"as fast as {other} ({sure}: {self.bounds})"
        if self.median > 1:
            return f"{ratio_text(self.median)} faster than {other} ({sure}: {self.bounds})"
        slower = Interval(1 / self.median, 1 / self.high, 1 / self.low)
        return f"{ratio_text(slower.median)} slower than {other} ({sure}: {slower.bounds})"

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def ratio_text(ratio: float) -> str:
    """`0.98x`, `2.75x`, `12.3x`, `250x`."""
    return f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}x"


@dataclass(frozen=True)
class BlockTimes:
    """Times by block: those of one block were taken side by side, so only within a block are they compared."""

    times: Mapping[str, tuple[float | None, ...]]

    @property
    def blocks(self) -> int:
        return max((len(row) for row in self.times.values()), default=0)

    @property
    def medians(self) -> dict[str, float]:
        """Of all that were timed at all."""
        known = {name: [time for time in row if time is not None] for name, row in self.times.items()}
        return {name: median(row) for name, row in known.items() if row}

    def logs(self, candidate: str, against: str) -> list[float]:
        """Log ratios of the blocks that have both."""
        pairs = zip(self.times[candidate], self.times[against], strict=True)
        return [math.log(b) - math.log(a) for a, b in pairs if a is not None and b is not None]

    def ratio(self, candidate: str, against: str, *, alpha: float = ALPHA) -> Interval | None:
        """How much faster `candidate` is, over the blocks that have both; None when these are too few."""
        return Interval.of(self.logs(candidate, against), alpha=alpha)

    def lead(self, candidate: str, against: str) -> float:
        """The same by the median alone; 1 where no block has both."""
        logs = self.logs(candidate, against)
        return math.exp(median(logs)) if logs else 1.0

    def beats(self, faster: str, slower: str, *, by: float = 1.0, alpha: float = ALPHA) -> bool:
        """Is it certain that `faster` is more than `by` times as fast? As the lower end of `ratio` tells."""
        return evidence(self.logs(faster, slower), math.log(by)) > math.log(2 / alpha)

    def falls_short(self, candidate: str, against: str, *, of: float, alpha: float = ALPHA) -> bool:
        """Is it certain that `candidate` is less than `of` times as fast? As the upper end of `ratio` tells."""
        return evidence(self.logs(against, candidate), -math.log(of)) > math.log(2 / alpha)
