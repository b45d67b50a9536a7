from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.measure.interval import interval_rank, median_interval, shift_interval, shift_rank


@pytest.mark.parametrize(
    ("count", "alpha", "rank"),
    [(5, 0.05, None), (6, 0.05, 1), (9, 0.05, 2), (12, 0.05, 3), (20, 0.05, 6), (12, 0.00125, 1), (10, 0.00125, None)],
)
def test_ranks_are_those_of_the_binomial_tables(count: int, alpha: float, rank: int | None) -> None:
    assert interval_rank(count, alpha=alpha) == rank


@given(st.integers(1, 200), st.floats(1e-6, 0.5))
def test_rank_is_the_largest_that_keeps_the_level(count: int, alpha: float) -> None:
    def outside(rank: int) -> float:
        return 2.0 * sum(math.comb(count, i) for i in range(rank)) / float(2**count)

    rank = interval_rank(count, alpha=alpha)
    assert outside(rank or 0) <= alpha
    assert outside((rank or 0) + 1) > alpha


def test_too_few_values_have_no_interval() -> None:
    assert median_interval([], alpha=0.05) is None
    assert median_interval([1.0] * 5, alpha=0.05) is None


def test_bounds_are_order_statistics_whatever_the_order() -> None:
    values = [float(v) for v in np.random.default_rng(0).permutation(12)]
    assert median_interval(values, alpha=0.05) == (2.0, 9.0)


def test_a_few_spikes_do_not_move_the_bounds_far() -> None:
    values = [float(v) for v in range(12)]
    spiked = [*values[:-2], 1e6, 1e9]
    assert median_interval(spiked, alpha=0.05) == median_interval(values, alpha=0.05)


def test_a_skewed_sample_is_covered_at_least_as_often_as_promised() -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(2000):
        bounds = median_interval(list(rng.exponential(size=16)), alpha=0.1)
        assert bounds is not None
        missed += not bounds[0] <= math.log(2) <= bounds[1]
    assert missed / 2000 < 0.1


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 5.0])
def test_a_level_that_is_no_probability_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        interval_rank(12, alpha=alpha)


@pytest.mark.parametrize(
    ("count", "others", "rank"),
    [(2, 7, None), (2, 8, 1), (3, 4, None), (3, 5, 1), (3, 9, 3), (4, 4, 1), (5, 5, 3), (19, 20, 120), (20, 20, 128)],
)
def test_ranks_of_differences_are_those_of_the_tables_of_mann_and_whitney(
    count: int, others: int, rank: int | None
) -> None:
    """Two-sided, 5 %: the critical value of the tables, plus one."""
    assert shift_rank(count, others, alpha=0.05) == shift_rank(others, count, alpha=0.05) == rank


def test_the_rank_of_as_many_timings_as_a_long_confirmation_has_is_known_at_once() -> None:
    began = time.monotonic()
    assert shift_rank(48, 49, alpha=0.05) == 905
    assert time.monotonic() - began < 2


def test_a_shift_between_two_samples_is_covered_at_least_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(2000):
        found = shift_interval(list(3 + rng.exponential(size=2)), list(rng.exponential(size=9)), alpha=0.05)
        assert found is not None
        missed += not found[1] <= 3 <= found[2]
    assert missed / 2000 <= 0.05


def test_two_samples_that_are_too_small_have_no_interval() -> None:
    assert shift_interval([1.0, 2.0], [0.1] * 7, alpha=0.05) is None
    assert shift_interval([], [1.0], alpha=0.05) is None
