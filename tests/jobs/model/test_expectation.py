"""Without --budget a run says how long it will take, from what the first routes took."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.carriers.carrier import Parts
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.expectation import Known, expected_seconds, in_words, too_small
from autotuner.jobs.model.first_kernels import FirstKernels
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.summary import Summary
from autotuner.jobs.model.tuner import _ModelRun
from autotuner.jobs.model.whole import Tuned
from autotuner.programs.structure import ModelStructure
from autotuner.targets import PLAIN
from tests.support.clocks import Simulated

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


@pytest.mark.parametrize(("kernels_us", "told"), [(None, True), (8e5, False), (5e6, True)])
def test_a_budget_is_not_too_small_where_kernels_are_so_much_faster(kernels_us: float | None, told: bool) -> None:
    """A default of four seconds a call, with 18 of 45 s gone."""
    built = replace(Compiled.refused(""), failure=None, took=2.0)
    default = RouteOutcome(PLAIN, 1, built, 4e6)
    notes: list[str] = []
    context = SimpleNamespace(
        run=SimpleNamespace(account=SimpleNamespace(seconds={})),
        timing_seconds=4.0,
        isolated_seconds=4.5,
        options=SimpleNamespace(effort=SimpleNamespace(confirm_blocks=24), budget=45.0),
        clock=Simulated(45.0, now=18.0),
        note=notes.append,
    )
    made = Tuned(default, "kernels", (), Parts(), built, None, 2, us=kernels_us) if kernels_us else None
    run = _ModelRun(
        cast(Context, context),
        cast(ModelStructure, None),
        cast(Summary, SimpleNamespace(tried=[default])),
        FirstKernels(cast(Dispatches, None), default, made),
    )
    run.tell_if_too_short()
    assert ["will hardly do" in note for note in notes] == [True] * told
