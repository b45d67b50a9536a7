"""The schedule of a run follows from what its default took."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import Device, Timing
from autotuner.iree.run import Benchmark, CacheState, Invocation
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check, Checker
from autotuner.measure.schedule import Schedule
from autotuner.tuning.first_plan import AfterVerdict, compile_seconds, first_schedule
from autotuner.tuning.options import Options, Task
from tests.support.clocks import Simulated

OPEN = SimpleNamespace(isolated=None)
"""A device that stays open."""


def calibration(*, device: object = OPEN, took: float = 2.0, cache: CacheState = "warm") -> Calibration[Compiled]:
    baseline = cast(Compiled, SimpleNamespace(took=took, cached=False))
    benchmark = Benchmark(Invocation("main", (), ()), 0.02, 60.0, cache=cache)
    checker, right = cast(Checker, None), Check(None, 0.0)
    return Calibration(cast(Device, device), checker, benchmark, 1, baseline, 0.1, 0.3, Timing((1.0,)), right)


def schedule(task: Task, *, left: float = 100.0, options: Options | None = None) -> Schedule:
    options = options or Options(cache="both")
    found = calibration(cache=options.searched_cache)
    return first_schedule(found, Simulated(left), task, options, reading=1.0, jobs=4)


def test_a_race_has_longer_modules_than_a_short_comparison_and_is_confirmed_in_processes_of_their_own() -> None:
    race, lead = schedule(Task()), schedule(Task(race=False, ship=False))
    assert race.timing == pytest.approx(0.18)
    assert race.fresh == 0.3
    assert lead.timing == pytest.approx(0.1)
    assert (lead.shipping, lead.judges) == (0.0, False)


def test_a_cold_search_is_confirmed_as_it_is_raced() -> None:
    cold = schedule(Task(), options=Options(cache="cold"))
    assert cold.fresh == cold.timing


def test_shipping_is_kept_for_and_the_cold_cache_where_it_is_a_small_part() -> None:
    after = AfterVerdict.of(calibration(), Task(), Options(cache="both"), reading=1.0)
    assert after.shipping == pytest.approx(3.0)
    assert after.cold > 2.0
    assert schedule(Task(), left=15.0).shipping == after.shipping
    assert schedule(Task(), left=600.0).shipping == after.shipping + after.cold


def test_what_is_not_wanted_is_not_kept_for() -> None:
    warm = AfterVerdict.of(calibration(), Task(), Options(cache="warm"), reading=1.0)
    part = AfterVerdict.of(calibration(), Task(ship=False, cold=False), Options(cache="both"), reading=1.0)
    assert (warm.cold, part.shipping, part.cold) == (0.0, 0.0, 0.0)
    device = SimpleNamespace()
    device.isolated = device
    alone = AfterVerdict.of(calibration(device=device), Task(), Options(cache="both"), reading=1.0)
    assert alone.cold == 0.0, "nothing stays open on it"
    arms = AfterVerdict.of(calibration(), Task(microkernels_alone=True), Options(cache="warm"), reading=1.0)
    assert arms.shipping == pytest.approx(7.0), "both arms are compiled once more"


@pytest.mark.parametrize(
    ("cached", "reading", "seconds"), [(False, 1.0, 8.0), (True, 3.0, 3.0), (True, 0.5, 2.0), (True, 20.0, 8.0)]
)
def test_a_compile_out_of_the_cache_is_not_thought_to_take_what_it_took_on_a_busier_machine(
    cached: bool, reading: float, seconds: float
) -> None:
    assert compile_seconds(cast(Compiled, SimpleNamespace(took=8.0, cached=cached)), reading) == seconds
