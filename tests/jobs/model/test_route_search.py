"""The search over routes: the expected ones first, then one knob at a time around the best, then gains together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import pytest

from autotuner import Target
from autotuner.build import Compiled
from autotuner.devices.device import Computed
from autotuner.errors import OutOfTimeError
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.route_search import RouteSearch, choose
from autotuner.jobs.model.routes import RouteRace
from autotuner.measure.schedule import BeginningError
from autotuner.problems.conv import Conv
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.model import Model
from autotuner.programs.program import ModelProgram
from autotuner.system import process
from autotuner.targets import PLAIN
from autotuner.targets.knobs import Route, named_route, touching
from tests.support.bare_device import BareDevice
from tests.support.bare_model import BENCHMARK, BareContext, race_of, tried
from tests.support.clocks import Simulated

KNOBS = touching(Target.parse("cpu").knobs, {"conv", "gemm"})
TILED = "im2col+data-tiling+ukernels"


def search(*first: str) -> RouteSearch:
    return RouteSearch(KNOBS, [named_route(KNOBS, name) for name in first])


def found(search: RouteSearch, us: Mapping[str, float], *, rounds: int, side: int = 2) -> list[str]:
    """What is asked for when a route takes what the product of its settings' factors says."""
    asked: list[str] = []
    search.tell(PLAIN, 100.0)
    for _ in range(rounds):
        for route in search.ask(side):
            asked.append(route.name)
            time = 100.0
            for setting in route.settings:
                time *= us.get(setting, 1.0)
            search.tell(route, time)
    return asked


def test_what_is_expected_to_win_is_asked_for_first_and_once() -> None:
    asked = search(TILED, "channels-last", TILED).ask(50)
    assert [route.name for route in asked[:2]] == [TILED, "channels-last"]
    assert len({route.name for route in asked}) == len(asked)


def test_from_the_best_one_knob_is_turned_at_a_time() -> None:
    times = {"im2col": 0.2, "data-tiling": 0.5, "ukernels": 0.9, "aggressive-fusion": 0.8}
    asked = found(search(TILED), times, rounds=12)
    around = [name for name in asked if set(TILED.split("+")) < set(name.split("+"))]
    assert f"{TILED}+aggressive-fusion" in around
    # From there on every other knob is turned on top of what gained.
    later = asked[asked.index(f"{TILED}+aggressive-fusion") + 4 :]
    assert later
    assert all("aggressive-fusion" in name or "O" in name for name in later[:4])


def test_what_gained_alone_is_tried_together() -> None:
    times = {"im2col": 0.2, "data-tiling": 0.5, "reshapes-moved": 0.9, "single-use": 0.9}
    asked = found(search(TILED), times, rounds=20, side=8)
    both = [name for name in asked if {"reshapes-moved", "single-use"} <= set(name.split("+"))]
    assert both
    assert asked.index(both[0]) < len(asked) - 1


def test_a_setting_that_only_fails_is_given_up() -> None:
    one = search(TILED)
    one.tell(PLAIN, 100.0)
    asked = []
    for _ in range(40):
        for route in one.ask(1):
            asked.append(route.name)
            one.tell(route, None if "O3" in route.settings else 50.0 - len(asked))
    assert 1 <= sum("O3" in name.split("+") for name in asked) <= 2


def test_where_the_default_fails_the_setting_that_helps_joins_all_others() -> None:
    """Without "single-use" nothing compiles: what failed before that is known is tried again with it."""
    one = search(TILED)
    asked = [route.name for route in one.ask(1)]
    one.rescuing = True
    for name in (PLAIN.name, *asked):
        one.tell(named_route(KNOBS, name), None)
    for _ in range(20):
        for route in one.ask(2):
            asked.append(route.name)
            one.tell(route, 100.0 - len(asked) if "single-use" in route.settings else None)
    helped = asked.index("single-use")
    assert all("+" not in name for name in asked[1:helped]), "one knob after the other"
    after = [set(name.split("+")) for name in asked[helped + 2 :]]
    assert {*TILED.split("+"), "single-use"} in after
    assert sum("single-use" in names for names in after) > len(after) / 2


def test_the_search_ends() -> None:
    one = search(TILED)
    asked = found(one, {}, rounds=200)
    assert one.ask(5) == []
    assert len(asked) < 60


def test_routes_of_the_user_are_tried_before_all_and_are_no_product() -> None:
    target = Target.parse("cpu")
    routes = choose(target, ["mine=--iree-opt-level=O1"], {"conv"}, won=["im2col", "gone+O9"])
    expected = target.model_routes({"conv"}, (Conv,))[1].name
    assert [route.name for route in routes.first[:4]] == ["plain", "mine", "im2col", expected]
    one = RouteSearch(routes.knobs, list(routes.first[1:]))
    one.tell(PLAIN, 10.0)
    one.tell(Route("mine", ("--iree-opt-level=O1",)), 1.0)
    assert one.best == ()
    assert RouteSearch((), list(choose(Target.parse("cpu"), ["im2col"], {"conv"}).first[1:])).ask(9) == [
        named_route(KNOBS, "im2col")
    ]


# --- which of them have time ------------------------------------------------------------------------------------------


def test_a_round_is_begun_where_it_is_expected_to_end_in_time() -> None:
    clock = Simulated(100.0, now=20.0)
    race: RouteRace = race_of(BareContext(clock=clock))
    race.round_seconds = 9.0
    assert race.fits(clock.at(29.1))
    assert not race.fits(clock.at(28.9))


class Told(RouteRace):
    """Its compiles take no time, and say when they would have been given up."""

    def _start(self, routes: Sequence[Route], *, timeout: float) -> dict[Future[Compiled], Contestant]:
        del routes, timeout
        self.given_up = process.deadline()
        return {}


def test_a_round_that_is_late_takes_no_time_of_the_race_where_there_is_something_to_race() -> None:
    clock = Simulated(100.0, now=20.0)
    for kept, end in ((False, 88.0), (True, 80.0)):
        race = Told(BareContext(clock=clock), BENCHMARK, cast(ModelProgram, None), tried=[tried(PLAIN, 10.0)])
        race.search = RouteSearch((), [Route("O3")])
        race.rounds(lambda: clock.at(80.0), kept=kept)
        assert race.given_up == pytest.approx(clock.at(end))


def test_routes_that_had_no_time_are_named() -> None:
    context = BareContext()
    race = race_of(context)
    race.tell_missed()
    race.search.queue += [Route("O3"), Route("im2col")]
    race.tell_missed()
    assert context.said == ["no time for routes O3, im2col: give a longer --budget, or name them by --route"]


class Endless(ModelProgram):
    """A model whose call never ends."""

    def outputs(self, vmfb: Path) -> Computed:
        raise OutOfTimeError(f"{vmfb} takes too long")


def test_a_call_without_an_end_is_named() -> None:
    program = Endless(Model(Path("m.mlir")), BENCHMARK.invocation, BareDevice(), 1.0, cast(Arbiter, None))
    race = RouteRace(BareContext(), BENCHMARK, program)
    with pytest.raises(BeginningError, match="the first call of IREE's default had not ended after 0 s"):
        race._default(tried(PLAIN, None))
