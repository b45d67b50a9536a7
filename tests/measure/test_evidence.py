"""Evidence that may be looked at after every pair: what it claims of nothing, what it finds, and how soon."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotuner.measure.blocks import BlockTimes, Interval
from autotuner.measure.evidence import bounds, evidence

NEEDED = math.log(2 / 0.05)


def first_win(logs: list[float], threshold: float = math.log(1.01)) -> int | None:
    """After how many pairs a win is certain, looked at after each."""
    return next((n for n in range(1, len(logs) + 1) if evidence(logs[:n], threshold) > NEEDED), None)


def pairs(seed: int, count: int, *, gain: float, noise: float, spikes: float = 0.0) -> list[float]:
    rng = np.random.default_rng(seed)
    noises = rng.normal(0.0, noise, (2, count)) + (rng.random((2, count)) < spikes) * rng.uniform(0.2, 0.7, (2, count))
    return [float(one) for one in math.log(gain) + noises[0] - noises[1]]


@pytest.mark.parametrize(("noise", "spikes"), [(0.005, 0.0), (0.015, 0.0), (0.015, 0.1), (0.05, 0.0)])
def test_looked_at_after_every_pair_hardly_any_win_is_claimed_of_nothing(noise: float, spikes: float) -> None:
    runs = [pairs(seed, 40, gain=1.0, noise=noise, spikes=spikes) for seed in range(100)]
    assert sum(first_win(run) is not None for run in runs) <= 1


def test_at_the_threshold_itself_it_holds_its_level() -> None:
    """Where exactly as much is gained as must be exceeded, at most 2.5 % of runs ever claim more."""
    runs = [pairs(seed, 40, gain=1.01, noise=0.02) for seed in range(160)]
    assert sum(first_win(run) is not None for run in runs) <= 0.025 * 160


@pytest.mark.parametrize(
    ("gain", "noise", "most"), [(1.03, 0.01, 12), (1.2, 0.015, 4), (3.0, 0.05, 4), (20.0, 0.05, 3)]
)
def test_the_larger_the_gain_the_fewer_pairs_tell_it(gain: float, noise: float, most: int) -> None:
    found = [first_win(pairs(seed, 60, gain=gain, noise=noise)) for seed in range(41)]
    assert all(one is not None for one in found)
    assert float(np.median([one or math.inf for one in found])) <= most


def test_two_pairs_tell_nothing_and_three_equal_ones_of_a_large_gain_do() -> None:
    assert bounds([1.0, 1.0], alpha=0.05) is None
    assert first_win([math.log(20)] * 3) == 3
    assert bounds([], alpha=0.05) is None
    assert evidence([], 0.0) == 0.0
    for alpha in (0.0, 1.0):
        with pytest.raises(ValueError, match="alpha"):
            bounds([0.1, 0.2, 0.3], alpha=alpha)


def test_bounds_are_where_the_evidence_turns() -> None:
    logs = pairs(1, 12, gain=1.1, noise=0.02)
    low, high = bounds(logs, alpha=0.05) or (0.0, 0.0)
    assert low < math.log(1.1) < high
    assert evidence(logs, low - 1e-6) > NEEDED > evidence(logs, low + 1e-6)
    mirrored = [-one for one in logs]
    assert evidence(mirrored, -high - 1e-6) > NEEDED > evidence(mirrored, -high + 1e-6)


def test_bounds_hold_the_truth_at_whatever_moment() -> None:
    held = 0
    for seed in range(40):
        logs = pairs(seed, 40, gain=1.05, noise=0.03, spikes=0.05)
        spans = [bounds(logs[:n], alpha=0.05) for n in (3, 5, 8, 13, 20, 40)]
        held += all(span is None or span[0] <= math.log(1.05) <= span[1] for span in spans)
    assert held >= 0.95 * 40


def test_an_interval_has_its_median_within_its_bounds() -> None:
    spiked = [0.1] * 20 + [3.0, 3.1, 2.9]
    found = Interval.of(spiked)
    assert found is not None
    assert found.low <= found.median <= found.high
    assert Interval.of([0.1, 0.1]) is None


def capital(logs: list[float], mu: float) -> float:
    """The definition: the mean of a mixture t (prior 0.02) and of bets on signs; of one pair, or a loss, the signs."""
    apart, n = [log - mu for log in logs], len(logs)
    odds = (0.6, 0.7, 0.8, 0.9, 0.97)
    signs: float = sum(math.prod(2 * p if one > 0 else 2 * (1 - p) for one in apart) for p in odds) / 5
    total, inside = sum(apart), (n + 0.02) * sum(one * one for one in apart)
    if n < 2 or total <= 0:
        return signs / 2
    mixture: float = (inside / (inside - total**2)) ** (n / 2)
    return (math.sqrt(0.02 / (n + 0.02)) * mixture + signs) / 2


@pytest.mark.parametrize(
    ("logs", "mu"),
    [
        ([0.3], 0.01),
        ([0.1, 0.25], 0.01),
        ([0.2, 0.31, -0.1, 0.25, 1.4], 0.01),
        ([0.01, 0.2, 0.3, 0.25], 0.01),
        ([-0.3, -0.2, 0.1], 0.0),
        ([0.5, -0.5], 0.0),
    ],
)
def test_evidence_is_the_log_of_a_capital(logs: list[float], mu: float) -> None:
    assert evidence(logs, mu) == pytest.approx(math.log(capital(logs, mu)))


@pytest.mark.parametrize("seed", range(5))
def test_both_bounds_are_where_each_side_has_spent_half_of_alpha(seed: int) -> None:
    logs = pairs(seed, 12, gain=1.2, noise=0.03)
    found = bounds(logs, alpha=0.1)
    assert found is not None
    for side, bound in ((logs, found[0]), ([-log for log in logs], -found[1])):
        assert evidence(side, bound - 1e-9) > math.log(20) > evidence(side, bound + 1e-9)


def test_what_is_certain_of_two_is_what_their_interval_says() -> None:
    ratios = [math.exp(log) for log in pairs(4, 9, gain=1.2, noise=0.03)]
    times = BlockTimes({"a": (1.0,) * 9, "b": tuple(ratios), "none": (None,) * 9})
    for alpha in (0.05, 0.2):
        found = times.ratio("a", "b", alpha=alpha)
        assert found is not None
        for factor, inside in ((1 - 1e-6, True), (1 + 1e-6, False)):
            assert times.beats("a", "b", by=found.low * factor, alpha=alpha) == inside
            assert times.falls_short("a", "b", of=found.high * factor, alpha=alpha) != inside
    assert times.lead("a", "none") == 1.0
