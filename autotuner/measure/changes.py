"""Where a series of measurements changes its level for good: a self-starting CUSUM, and what many series share.

Each value is compared with the mean and the spread of the values before it in its segment, so neither need be known
beforehand: in control the scores are standard normal from the third value on, however short the history is (Hawkins).
A CUSUM adds up what the scores are beyond a slack. A score is cut, so that a bad night or two are no change. After a
change a new segment begins with the values since.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median

SLACK = 0.75
"""In spreads: what a score must be above to count. Half of the shift that is found fastest."""
MOST_SCORE = 2.5
"""A score beyond this counts as this: a bad night alone is no change, and neither are two."""
LEAST_VALUES = 8
"""Values of a segment before which nothing is judged."""
LEAST_TOGETHER = 8
"""Series from which on what they share is told apart."""
REFERENCE_VALUES = 5
"""First values of a series, whose median is its place among others."""
_LEAST_SPREAD = 1e-12
"""Below this values are the same but for rounding."""
_NORMAL = 1.4826
"""A normal distribution's spread in median distances from its middle."""
_OVERSHOOT = 1.166
"""By how much a CUSUM of normal scores passes its limit, as Siegmund's approximation has it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A level that holds from `at` on; known since `found`."""

    at: int
    found: int
    before: float
    after: float

    @property
    def size(self) -> float:
        """Of logarithms: by how much larger, as a part."""
        return math.expm1(self.after - self.before)


@lru_cache(maxsize=1024)
def limit(rate: float) -> float:
    """The CUSUM's limit at which one value in 1/rate is a false alarm on one side."""
    if not 0.0 < rate < 1.0:
        raise ValueError(f"a rate is a probability between 0 and 1, not {rate}")
    low, high = 0.0, 200.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        reach = 2 * SLACK * (middle + _OVERSHOOT)
        length = (math.exp(min(reach, 700.0)) - reach - 1) / (2 * SLACK**2)
        low, high = (middle, high) if length < 1 / rate else (low, middle)
    return high


@dataclass
class Usual:
    """The values of a segment so far: their mean and spread."""

    values: list[float] = field(default_factory=list)
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.values.append(value)
        step = value - self.mean
        self.mean += step / len(self.values)
        self.squares += step * (value - self.mean)

    def score(self, value: float) -> float:
        """How unlikely a value is after these, as a standard normal number (Wallace's approximation of Student's t)."""
        count = len(self.values)
        spread = math.sqrt(self.squares / (count - 1))
        if spread < _LEAST_SPREAD:
            return 0.0 if abs(value - self.mean) < _LEAST_SPREAD else math.copysign(MOST_SCORE, value - self.mean)
        t, freedom = (value - self.mean) / spread * math.sqrt(count / (count + 1)), count - 1
        size = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))
        return math.copysign(size, t)

    def pulled(self, value: float) -> float:
        """What an outlier counts as in the mean and the spread of what comes after it."""
        middle = median(self.values)
        reach = MOST_SCORE * _NORMAL * median(abs(one - middle) for one in self.values)
        return max(middle - reach, min(middle + reach, value))


def changes(values: Sequence[float], *, rate: float, smallest: float = 0.0) -> tuple[Change, ...]:
    """The changes of a series, in order; `smallest` is the least difference of levels that counts as one."""
    found: list[Change] = []
    start = 0
    while (change := _first(values, start, rate, smallest)) is not None:
        found.append(change)
        start = change.at
    return tuple(found)


def _first(values: Sequence[float], start: int, rate: float, smallest: float) -> Change | None:
    """The first change of the segment that begins at `start`."""
    sums, since = [0.0, 0.0], [start, start]
    usual, most = Usual(), limit(rate)
    for index in range(start, len(values)):
        value = values[index]
        if len(usual.values) < LEAST_VALUES:
            usual.add(value)
            continue
        raw = usual.score(value)
        cut = max(-MOST_SCORE, min(MOST_SCORE, raw))
        for side, sign in ((0, 1.0), (1, -1.0)):
            if sums[side] == 0.0:
                since[side] = index
            sums[side] = max(0.0, sums[side] + sign * cut - SLACK)
            if sums[side] > most:
                change = _change(values, start, since[side], index)
                if abs(change.after - change.before) >= smallest:
                    return change
        usual.add(value if raw == cut else usual.pulled(value))
    return None


def _change(values: Sequence[float], start: int, since: int, found: int) -> Change:
    """The level may have changed later than the sum began to grow: where the values part best."""

    def parted(at: int) -> float:
        before, after = values[start:at], values[at : found + 1]
        gap = sum(after) / len(after) - sum(before) / len(before)
        return gap * gap * len(before) * len(after)

    at = max(range(since, found + 1), key=parted)
    after = values[at : found + 1]
    before = median(values[start:at])
    # A drift goes on: its last values say where it is.
    level = max((median(after), median(after[-3:])), key=lambda one: abs(one - before))
    return Change(at, found, before, level)


@dataclass(frozen=True)
class Shared:
    """Series without what they share, and that by itself: None where too few were there to tell."""

    own: Mapping[str, tuple[tuple[int, float], ...]]
    """By series: (night, value)."""
    together: tuple[tuple[int, float], ...]


def shared(nights: Sequence[Mapping[str, float]]) -> Shared:
    """Takes out of every series what all of them did in the same night: a hot machine moves all kernels at once."""
    first: dict[str, list[float]] = {}
    place: dict[str, float] = {}
    own: dict[str, list[tuple[int, float]]] = {}
    together: list[tuple[int, float]] = []
    for night, values in enumerate(nights):
        known = [value - place[name] for name, value in values.items() if name in place]
        level = median(known) if len(known) >= LEAST_TOGETHER else 0.0
        if len(known) >= LEAST_TOGETHER:
            together.append((night, level))
        for name, value in values.items():
            own.setdefault(name, []).append((night, value - level))
            begun = first.setdefault(name, [])
            if name not in place:
                begun.append(value - level)
                if len(begun) == REFERENCE_VALUES:
                    place[name] = median(begun)
    return Shared({name: tuple(series) for name, series in own.items()}, tuple(together))
