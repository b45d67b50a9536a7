"""Evidence that holds at any time: timing may stop after any pair.

Log ratios of pairs are bet against "the mean is at most mu". The capital is the mean of two bets, each a fair game
where that is true: it ever reaches 1/alpha with a probability of alpha at most (Ville), however often anybody looks.

- A t statistic mixed over a normal prior on mean/scale (Lai 1976; Wang & Ramdas 2024), which needs few pairs where
  noise is even, whatever its size;
- one on signs (is this pair above mu?), which spikes and slow spells of the machine hardly touch.

`python -m benchmarks.aa` shows what it does on simulated and on recorded pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

SPREAD = 0.02
"""Of the prior, one over its variance: the smaller it is, the sooner large gains are certain, and the later small ones.
With 0.02 three pairs tell what is far beyond the noise."""
ODDS = (0.6, 0.7, 0.8, 0.9, 0.97)
"""Of a pair being above mu: the bets on signs, in equal parts."""
_STEPS = 60
"""Halvings of a bound: beyond a double's precision."""


def evidence(logs: Sequence[float], mu: float) -> float:
    """Log of the evidence against "the mean is at most mu": refuted at level alpha above log(1 / alpha)."""
    count = len(logs)
    if not count:
        return 0.0
    apart = [value - mu for value in logs]
    total, squares = math.fsum(apart), math.fsum(value * value for value in apart)
    above = sum(value > 0.0 for value in apart)
    signs = _log_mean([above * math.log(2 * p) + (count - above) * math.log(2 - 2 * p) for p in ODDS])
    if count < 2 or total <= 0.0:
        return signs - math.log(2)
    inside = (count + SPREAD) * squares
    mixture = 0.5 * math.log(SPREAD / (count + SPREAD)) + count / 2 * math.log(inside / (inside - total * total))
    return _log_mean([mixture, signs])


def _log_mean(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + math.log(math.fsum(math.exp(one - most) for one in logs) / len(logs))


def bounds(logs: Sequence[float], *, alpha: float) -> tuple[float, float] | None:
    """All means that the pairs so far do not refute, each side at alpha / 2; None where there are too few."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is a probability between 0 and 1, not {alpha}")
    low = _lowest(logs, math.log(2 / alpha))
    high = _lowest([-value for value in logs], math.log(2 / alpha))
    return None if low is None or high is None else (low, -high)


def _lowest(logs: Sequence[float], needed: float) -> float | None:
    """The largest mean such that all below it are refuted."""
    if not logs:
        return None
    reach = max(max(logs) - min(logs), 1e-9)
    inner, outer = max(logs), min(logs) - reach
    for _ in range(_STEPS):
        if evidence(logs, outer) > needed:
            return _border(lambda mu: evidence(logs, mu) > needed, outer, inner)
        reach *= 4
        outer = min(logs) - reach
    return None


def _border(refuted: Callable[[float], bool], low: float, high: float) -> float:
    """The end of what is refuted: `low` is, `high` is not."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
