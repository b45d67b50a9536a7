"""How a model with microkernels is compared with routes that were timed before it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner.carriers.carrier import Parts
from autotuner.iree.benchmark import DispatchTime
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.lineup import Lineup
from autotuner.jobs.model.routes import RouteOutcome, RouteRace
from autotuner.jobs.model.whole import Tuned, WholeModel
from autotuner.targets import PLAIN, Route


def module(name: str) -> Compiled:
    return replace(Compiled.refused(""), failure=None, vmfb=Path(name))


PLAINLY = RouteOutcome(PLAIN, 1, module("plain"), us=115_800.0)
BEST = RouteOutcome(Route("nchwc+data-tiling"), 2, module("best"), us=15_758.0)
KERNELS = Tuned(PLAINLY, "kernels", (), Parts(), module("kernels"), None, 3)


def timed(us: dict[str, list[float]], routes: list[RouteOutcome]) -> Tuned:
    """The model with kernels, where a module takes one of these times after the other; infinity is a failure."""

    def time(build: Compiled, _benchmark: object) -> Any:
        one = us[build.vmfb.name].pop(0)
        return SimpleNamespace(ok=one < float("inf"), median=one)

    store = SimpleNamespace(record_timing=lambda *_, **__: None)
    session = SimpleNamespace(runner=SimpleNamespace(time=time), store=store)
    context = SimpleNamespace(clocked=lambda _: nullcontext(), session=session)
    race = cast(RouteRace, SimpleNamespace(benchmark=None, tried=routes))
    return WholeModel(cast(Dispatches, SimpleNamespace(context=context)), PLAINLY, race).timed(KERNELS)


def test_kernels_are_compared_with_the_best_route_as_it_is_now_and_not_as_it_was_on_a_quieter_machine() -> None:
    """On a machine that had become busy they took 32 ms, the best route 44 ms; and it had been timed at 15.8 ms."""
    busy = {"kernels": [32_000.0, 40_000.0, 33_000.0], "best": [60_000.0, 44_000.0, 45_000.0]}
    us = timed(busy, [PLAINLY, BEST]).us
    assert us is not None
    assert round(us) == round(15_758.0 * 32 / 44)


def test_kernels_that_cannot_be_timed_have_no_time_and_those_beside_no_right_route_have_their_own() -> None:
    assert timed({"kernels": [float("inf")] * 3, "best": [1.0] * 3}, [PLAINLY, BEST]).us is None
    assert timed({"kernels": [9.0, 7.0, 8.0] * 2}, [replace(PLAINLY, failure="wrong-result")]).us == 7.0


@pytest.mark.parametrize(("slower", "readings"), [(1.5, 3), (30.0, 1)])
def test_a_model_that_is_far_slower_without_kernels_is_read_once(slower: float, readings: int) -> None:
    read: list[str] = []

    def statistics(vmfb: Path, _call: object) -> dict[str, DispatchTime]:
        read.append(vmfb.name)
        return {"dispatch": DispatchTime((slower if vmfb.name == "plain" else 1.0) * (1000.0 - len(read)))}

    context = SimpleNamespace(statistics=statistics)
    race = cast(RouteRace, SimpleNamespace(call=None))
    whole = WholeModel(cast(Dispatches, SimpleNamespace(context=context)), PLAINLY, race)
    before, after = whole.readings(PLAINLY.build, KERNELS.build)
    assert (read.count("plain"), read.count("kernels")) == (readings, 3)
    assert before is not None
    assert after is not None
    assert before.total > after.total > 0


@pytest.mark.parametrize(
    ("entries_us", "kernels_us", "favourite"),
    [
        (None, 64.0, "kernels"),  # untimed: about as fast as its route, and others are faster
        (None, None, "tuned"),  # right before its route, where that is the best that is known
        (50.0, 64.0, "tuned"),
    ],
)
def test_a_model_that_was_not_timed_is_no_favourite_before_a_faster_one(
    entries_us: float | None, kernels_us: float | None, favourite: str
) -> None:
    plain = replace(PLAINLY, us=400.0)
    entries = replace(KERNELS, tried=plain, name="tuned", us=entries_us)
    kernels = [replace(KERNELS, tried=plain, us=kernels_us)] if kernels_us else []

    assert Lineup([plain], [entries, *kernels]).order[0] == favourite
