"""Without --budget a run says how long it will take, from what the first routes took."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from autotuner.jobs.model.context import Context
from autotuner.jobs.model.expectation import Known, expected_seconds, in_words, racing_seconds, too_small
from autotuner.jobs.model.reserve import Reserve
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.system.progress import Clock

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


def test_the_time_for_a_race_has_the_compile_of_what_ships_in_it() -> None:
    short = racing_seconds(timing=0.2, isolated=0.2, best=0.01, rivals=2, compile_seconds=0.0)
    assert racing_seconds(timing=0.2, isolated=0.2, best=0.01, rivals=2, compile_seconds=20.0) >= short + 20
    assert racing_seconds(timing=3.0, isolated=0.2, best=0.01, rivals=2, compile_seconds=0.0) < 3 / 0.2 * short, (
        "rivals are faster"
    )


def test_a_budget_that_is_too_small_is_told_with_the_least_that_would_do() -> None:
    assert too_small(45.0, 71.0) == "45 s will hardly do for a verdict on this model: --budget 80s is the least"


def test_the_race_ends_so_early_that_what_ships_can_be_compiled() -> None:
    build = SimpleNamespace(took=20.0, ok=True)
    tried = [SimpleNamespace(build=build, ok=True, us=1e5)]
    context = SimpleNamespace(clock=Clock(300.0, 7.0), timing_seconds=0.5, isolated_seconds=0.5)
    reserve = Reserve(cast(Context, context), cast("list[RouteOutcome]", tried))
    clock = reserve.race_clock()
    assert clock.started == 7.0
    assert clock.budget + clock.kept == 300.0
    assert clock.kept >= 20.0
    assert clock.kept < reserve.racing < 300.0
