"""An arm on its way: how often it is repeated to be timed, and how far both came."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.devices.device import Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import Invocation
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.arm_run import A, ArmRun, B, counts_of
from autotuner.jobs.ab.arms import DEFAULT
from autotuner.jobs.ab.racing import race_plan
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.opening import is_slow
from autotuner.measure.takes import Takes
from autotuner.system.progress import Clock


@pytest.mark.parametrize(
    ("single", "before", "likely"),
    [
        (None, 50.0, None),
        (90.0, None, 90.0),
        (90.0, 50.0, 50.0),
        (590.0, 50.0, 50.0),
        (40.0, 50.0, 40.0),
        (601.0, 50.0, 601.0),
    ],
)
def test_a_single_call_is_mostly_overhead_so_the_time_of_before_counts_unless_it_no_longer_fits(
    single: float | None, before: float | None, likely: float | None
) -> None:
    assert ArmRun(B, DEFAULT, expected_us=before, us=single).likely_us == likely


@pytest.mark.parametrize(
    ("us", "same_code", "timed", "duplicate"),
    [
        ((None, None), False, 0, 0),
        ((None, None), True, 0, 1),  # it was stopped before the first timing
        ((5.0, 4.0), False, 2, 0),
        ((5.0, 5.0), True, 1, 1),
    ],
)
def test_equal_code_is_counted_as_timed_once(
    us: tuple[float | None, float | None], same_code: bool, timed: int, duplicate: int
) -> None:
    sides = [ArmRun(A, DEFAULT, us=us[0]), ArmRun(B, DEFAULT, us=us[1], failure="wrong-result")]
    found = counts_of(sides, same_code=same_code)
    assert (found.asked, found.timed, found.duplicate, found.built, found.checked) == (2, timed, duplicate, 0, 0)
    assert (found.failed["wrong-result"], sum(found.failed.values())) == (1, 1)


def test_the_race_of_a_slow_model_is_planned_by_the_calls_that_were_compared() -> None:
    """4.7 s and 0.16 s: two more calls of the one beside nine timings of the other fit into a quarter of a minute."""
    benchmark = Benchmark(Invocation("main", (), ()), 0.05, 60.0)
    assert is_slow(4.7e6, benchmark)
    assert not is_slow(0.16e6, benchmark)

    def untaken(name: str) -> Timing:
        raise AssertionError(f"{name} is not timed to plan")

    def untaken_in_the_race(name: str) -> Timing:
        return untaken(name)

    recipe = Recipe(Tools(Path(), Path(), Path()), ())
    sides = (
        ArmRun(A, DEFAULT, recipe=recipe, us=4.7e6, timing_seconds=4.7, called=True),
        ArmRun(B, DEFAULT, recipe=recipe, us=0.16e6, timing_seconds=0.5),
    )
    plan = race_plan(sides, Takes(untaken_in_the_race, untaken), benchmark, Clock(30.0), blocks=24)
    assert plan.ahead == pytest.approx(29.375)
    assert plan.least < 15
    assert plan.race.baseline < plan.confirm.baseline < 6
