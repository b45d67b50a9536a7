"""500 nights in which nothing changes, and a drift of 2 %, as the benchmark judges them: seeded, so always the same."""

from __future__ import annotations

import math

import pytest

from benchmarks.nightly import NIGHTS, NOISES, SOON, _drifted, alarm_nights, judged, simulated

SERIES = 40


@pytest.mark.parametrize("name", [name for name in NOISES if "carried" not in name])
def test_500_nights_without_a_change_alarm_in_at_most_one_of_200(name: str) -> None:
    logs = simulated(noise=NOISES[name], seed=1, nights=NIGHTS, series=SERIES)
    assert len(alarm_nights(judged(logs))) <= NIGHTS * 0.005


def test_a_drift_of_2_percent_is_found_within_ten_nights() -> None:
    found = [_drifted(seed, 0.005, 20, 1) for seed in range(10)]
    assert all(night is not None and night <= SOON for night in found), found


def test_a_drift_of_all_kernels_is_found_as_one() -> None:
    night = _drifted(3, 0.005, 20, 1, everything=True)
    assert night is not None
    assert night <= SOON


def test_an_alarm_names_the_series_that_drifts_and_no_other() -> None:
    logs = simulated(noise=NOISES["normal"], seed=5, nights=60, series=SERIES, spread=0.005)
    logs[40:, 7] += math.log1p(0.03)
    assert {name for names in alarm_nights(judged(logs)).values() for name in names} == {"p7 default on gfx942"}
