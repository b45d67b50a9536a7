"""The end of a model's run is planned by what its routes took."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.carriers.carrier import Parts
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.ending import compiling_seconds, end_schedule, kept_now, longest_compile
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.whole import Tuned
from autotuner.measure.schedule import Schedule
from autotuner.targets import PLAIN, Route
from tests.support.clocks import Simulated


def test_what_the_cache_holds_from_a_busier_machine_keeps_no_time_for_the_end() -> None:
    """A SqueezeNet's compiles had taken 99 s each when they were put into the cache: 119 of 220 s were kept to ship."""
    now = replace(Compiled.refused(""), failure=None, took=12.0)
    then = replace(now, took=99.0, cached=True)
    assert compiling_seconds([then, now], reading=8.0) == 12.0
    assert compiling_seconds([then, then], reading=30.0) == 30.0
    assert compiling_seconds([then], reading=8.0) == pytest.approx(99.0 / 4)
    assert compiling_seconds([], reading=8.0) == 0.0


def _context() -> Context:
    run = SimpleNamespace(account=SimpleNamespace(seconds={}))
    return cast(Context, SimpleNamespace(run=run, clock=Simulated(60.0), timing_seconds=0.5, isolated_seconds=0.8))


def test_the_end_keeps_time_for_what_can_ship_and_not_for_what_took_longer() -> None:
    """A route that lost had compiled for 42 s on a machine that had become busy: nothing shipped, with 49 s left."""
    context = _context()
    slow, quick = (replace(Compiled.refused(""), failure=None, took=took) for took in (42.0, 10.0))
    tried = [RouteOutcome(PLAIN, 1, quick, 100.0), RouteOutcome(Route("O3"), 2, slow, 300.0)]
    assert end_schedule(context, tried, made=10.0).shipping == pytest.approx(12.0)
    assert end_schedule(context, tried).shipping < 5, "a route's module is the one that was timed"


@pytest.mark.parametrize("failure", ["", "wrong-result"])
def test_kernels_that_are_far_ahead_need_less_time_for_a_verdict(failure: str) -> None:
    """Also on a route that is wrong without them."""
    built = replace(Compiled.refused(""), failure=None, took=1.0)
    default = RouteOutcome(PLAIN, 1, built, 8e5)
    kernels = Tuned(replace(default, failure=failure), "kernels", (), Parts(), built, None, 2, us=1e5)
    alone, beside = (end_schedule(_context(), [default], tuned=tuned, made=1.0) for tuned in ([], [kernels]))
    assert beside.gain == pytest.approx(8.0)
    assert beside.least < alone.least


def test_a_model_whose_kernels_take_long_to_compile_has_time_to_ship() -> None:
    """ResNet-50: 45 s with batch norms folded into its weights and these packed, and 23 s as it is."""
    context = cast(Context, SimpleNamespace(run=SimpleNamespace(account=SimpleNamespace(seconds={}))))
    plain, kernels = (replace(Compiled.refused(""), failure=None, took=took) for took in (23.0, 45.0))
    tried = [RouteOutcome(PLAIN, 1, plain)]
    assert longest_compile(context, tried) == 23.0
    assert longest_compile(context, tried, also=[kernels]) == 45.0
    assert longest_compile(context, tried, also=[replace(kernels, failure="compile-error")]) == 23.0


def test_while_nothing_is_ahead_routes_leave_no_time_for_a_race() -> None:
    """A ConvNeXt block's first route was slower than the default: the run ended after 10 of 30 s."""
    schedule = Schedule(Simulated(30.0), 0.5, 0.8, baseline_us=1e5, best_us=5e4, shipping=4.8)
    assert kept_now(schedule, 30.0, ahead=True) == schedule.kept_of(30.0)
    assert schedule.least <= kept_now(schedule, 30.0, ahead=False) < schedule.kept_of(30.0)
    assert kept_now(schedule, 300.0, ahead=False) == schedule.kept_of(300.0), "where there is time it is kept"
