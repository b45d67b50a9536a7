"""Exact confidence intervals, of a median and of what lies between two samples: ranks, no distribution assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median


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


@lru_cache(maxsize=4096)
def shift_rank(count: int, others: int, *, alpha: float) -> int | None:
    """The same for all differences between `count` values and `others`: how many of these to leave out, plus one.

    Where both are alike, every order of them is equally likely (Mann and Whitney): so few of the differences are
    negative as often as so few pairs of an order are turned around.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is a probability between 0 and 1, not {alpha}")
    tail, rank, orders = 0, 0, math.comb(count + others, count)
    for number in _orders(count, others)[: (count * others + 1) // 2]:
        tail += number
        if 2 * tail > alpha * orders:
            break
        rank += 1
    return rank or None


def _orders(count: int, others: int) -> list[int]:
    """In how many orders of both 0, 1, 2, … pairs are turned around: the coefficients of Gauss's binomial.

    That is the product of (1 - q^(others + i)) / (1 - q^i) for i from 1 to `count`, one factor after the other.
    """
    most = count * others
    found = [1, *[0] * most]
    for i in range(1, count + 1):
        for turned in range(most, others + i - 1, -1):
            found[turned] -= found[turned - others - i]
        for turned in range(i, most + 1):
            found[turned] += found[turned - i]
    return found


def shift_interval(
    values: Sequence[float], others: Sequence[float], *, alpha: float
) -> tuple[float, float, float] | None:
    """How much larger `values` are than `others`: the median of all differences, and bounds that hold the true one with
    probability 1 - alpha at least; None when there are too few."""
    rank = shift_rank(len(values), len(others), alpha=alpha)
    if rank is None:
        return None
    ordered = sorted(one - other for one in values for other in others)
    return median(ordered), ordered[rank - 1], ordered[-rank]
