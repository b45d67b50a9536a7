"""Without --budget a run says how long it will take, from what the first routes took."""

from __future__ import annotations

from dataclasses import replace

from autotuner.jobs.model.expectation import Known, expected_seconds, in_words, too_small

SMALL = Known(elapsed=20.0, round_seconds=5.0, rounds=4, compile_seconds=4.0, block_seconds=0.5, dispatches=3)


def test_what_is_expected_grows_with_what_there_is_to_do() -> None:
    small = expected_seconds(SMALL, single=600.0, most=1800.0)
    assert 20 + 4 * 5 + 3 * 30 <= small <= 300
    for more in ({"rounds": 8}, {"compile_seconds": 60.0}, {"dispatches": 9}, {"block_seconds": 20.0}):
        assert expected_seconds(replace(SMALL, **more), single=600.0, most=1800.0) > small
    assert expected_seconds(SMALL, single=120.0, most=360.0) < small


def test_it_is_never_more_than_the_effort_gives() -> None:
    assert expected_seconds(replace(SMALL, dispatches=500), single=600.0, most=1800.0) == 1800.0


def test_it_is_told_in_minutes() -> None:
    assert [in_words(s) for s in (40, 60, 270)] == ["40 s", "1 min", "4 min 30 s"]


def test_a_budget_that_is_too_small_is_told_with_the_least_that_would_do() -> None:
    assert too_small(45.0, 71.0) == "45 s will hardly do for a verdict on this model: --budget 90s would do"
