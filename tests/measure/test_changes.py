"""A level that changes for good is found where it changed; noise, spikes and one bad night are not."""

from __future__ import annotations

import math
import random

import pytest

from autotuner.measure.changes import LEAST_TOGETHER, LEAST_VALUES, changes, limit, shared

RATE = 1e-5


def noise(count: int, *, spread: float = 0.005, seed: int = 0) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(0.0, spread) for _ in range(count)]


def test_a_step_is_found_within_ten_values_and_placed_where_it_is() -> None:
    for seed in range(20):
        values = noise(40, seed=seed)
        values[30:] = [value + math.log(1.02) for value in values[30:]]
        (change,) = changes(values, rate=RATE)
        assert 30 <= change.found < 40
        assert abs(change.at - 30) <= 2
        assert change.size == pytest.approx(0.02, abs=0.008)


def test_a_drift_by_small_steps_is_found() -> None:
    values = [value + 0.002 * max(0, index - 29) for index, value in enumerate(noise(45, spread=0.003))]
    assert changes(values, rate=RATE, smallest=0.01)[0].size > 0.01


def test_what_became_faster_is_a_change_too() -> None:
    values = [value - 0.05 * (index >= 20) for index, value in enumerate(noise(30))]
    (change,) = changes(values, rate=RATE)
    assert change.size == pytest.approx(-0.05, abs=0.01)


def test_one_bad_value_or_two_are_no_change() -> None:
    values = noise(60)
    for place in (20, 40, 41):
        values[place] += 0.5
    assert changes(values, rate=RATE) == ()


def test_a_change_back_is_a_second_change() -> None:
    values = [value + 0.05 * (20 <= index < 40) for index, value in enumerate(noise(60))]
    first, second = changes(values, rate=RATE)
    assert (first.at, second.at) == (20, 40)
    assert first.size == pytest.approx(0.05, abs=0.01)
    assert second.size == pytest.approx(-0.05, abs=0.01)


def test_a_change_below_the_smallest_is_none_however_certain() -> None:
    values = [value + 0.004 * (index >= 30) for index, value in enumerate(noise(80, spread=0.0002))]
    assert len(changes(values, rate=RATE)) == 1
    assert changes(values, rate=RATE, smallest=0.01) == ()


def test_the_first_values_are_not_judged() -> None:
    assert changes([0.0, 5.0, 0.0, 5.0][: LEAST_VALUES - 1], rate=RATE) == ()
    assert changes([], rate=RATE) == ()


def test_equal_values_are_no_change_and_leaving_them_is_one() -> None:
    assert changes([1.0] * 50, rate=RATE) == ()
    (change,) = changes([1.0] * 20 + [1.1] * 10, rate=RATE)
    assert change.at == 20


def test_what_is_known_later_does_not_change_what_was_told() -> None:
    values = [value + 0.05 * (index >= 20) for index, value in enumerate(noise(60))]
    (change,) = changes(values, rate=RATE)
    for length in range(1, 60):
        expected = (change,) if length > change.found else ()
        assert changes(values[:length], rate=RATE) == expected


def test_a_smaller_rate_has_a_higher_limit() -> None:
    assert limit(1e-3) < limit(1e-5) < limit(1e-7)
    with pytest.raises(ValueError, match="probability"):
        limit(0.0)


def test_scores_in_control_alarm_as_rarely_as_they_are_told_to() -> None:
    length, rate = 400, 1e-3
    alarms = sum(len(changes(noise(length, seed=seed), rate=rate)) for seed in range(100))
    # Both sides: 2 × 1e-3 × 40,000 values would be 80; cut scores and new segments make them fewer.
    assert 5 <= alarms <= 80


def test_what_all_series_do_in_a_night_is_taken_out_of_each() -> None:
    names = [f"s{index}" for index in range(LEAST_TOGETHER)]
    nights = [{name: 0.1 * place + 0.03 * (night >= 10) for place, name in enumerate(names)} for night in range(20)]
    nights[15]["s0"] += 0.2
    found = shared(nights)
    assert [round(value, 9) for _, value in found.together] == [0.0] * 5 + [0.03] * 10
    assert all(value == pytest.approx(0.1) for _, value in found.own["s1"])
    assert dict(found.own["s0"])[15] == pytest.approx(0.2)


def test_few_series_share_nothing() -> None:
    nights = [{"a": float(night), "b": 1.0} for night in range(20)]
    found = shared(nights)
    assert found.together == ()
    assert [value for _, value in found.own["a"]] == [float(night) for night in range(20)]


def test_a_series_that_joins_later_does_not_move_the_others() -> None:
    names = [f"s{index}" for index in range(LEAST_TOGETHER)]
    nights = [dict.fromkeys(names, 0.05 * (night >= 10)) for night in range(30)]
    for night in range(15, 30):
        nights[night]["late"] = 7.05
    found = shared(nights)
    assert {round(value, 9) for night, value in found.together if night >= 10} == {0.05}
    assert all(value == pytest.approx(7.0) for _, value in found.own["late"])
