"""The exact confidence interval of a median: order statistics, binomial tails, no distribution assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=4096)
def interval_rank(count: int, *, alpha: float) -> int | None:
    """How many values to leave out at each end, plus one; None when `count` values cannot reach the level.

    The k-th smallest value lies above the median with probability P(Binomial(count, 1/2) < k), and the k-th
    largest below it with the same: the largest k for which the two together stay within alpha is exact,
    whatever the values are distributed like. That is why spikes and drift need no model here.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is a probability between 0 and 1, not {alpha}")
    tail, rank = 0, 0
    while 2 * rank < count:
        tail += math.comb(count, rank)
        if 2 * tail > alpha * 2**count:
            break
        rank += 1
    return rank or None


def median_interval(values: Sequence[float], *, alpha: float) -> tuple[float, float] | None:
    """Bounds that hold the true median with probability 1 - alpha at least; None when there are too few."""
    rank = interval_rank(len(values), alpha=alpha)
    if rank is None:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]
