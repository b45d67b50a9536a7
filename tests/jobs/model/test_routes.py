"""Rounds of routes: how long the next one is expected to take."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotuner.devices.device import Timing
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.choice import Routes
from autotuner.jobs.model.context import Ahead
from autotuner.jobs.model.routes import RouteOutcome, RouteRace
from autotuner.targets import PLAIN, Route

_CALLED = 0.05
"""Seconds that the default is timed for."""


@dataclass
class SlowDefault(RouteRace):
    """All builds are there; to time the default takes long, and nothing else does."""

    def _default(self, tried: RouteOutcome, _: Compiled) -> RouteOutcome:
        time.sleep(_CALLED)
        return replace(tried, us=1e6, build=None)

    def _try(self, tried: RouteOutcome, _: Compiled) -> RouteOutcome:
        return replace(tried, us=1e4, build=None)


def test_what_the_default_takes_is_not_expected_of_the_next_round() -> None:
    began = time.monotonic()

    def built() -> Ahead:
        build: Future[Compiled] = Future()
        build.set_result(Compiled.refused("nobody asks"))
        return Ahead(build, began)

    routes = Routes((PLAIN, Route("fast", ("--fast",))))
    context: Any = SimpleNamespace(
        options=SimpleNamespace(jobs=2),
        compile_timeout=60.0,
        target=SimpleNamespace(compiles_on_device=True),
        ahead={route: built() for route in routes.first},
        stages=SimpleNamespace(routes=0.0, routes_end=0.0),
        clock=SimpleNamespace(elapsed=1.0),
        session=SimpleNamespace(stop=SimpleNamespace(requested=True)),
        stage=lambda _: None,
        row=lambda *_: 1,
        flags=lambda _: (),
        record_build=lambda *_: None,
        clocked=lambda _: nullcontext(),
    )
    expected: list[float] = []
    race = SlowDefault(context, benchmark=SimpleNamespace(), program=SimpleNamespace())  # type: ignore[arg-type]
    race.all(routes, told=expected.append, then=lambda: None)
    assert [one.route.name for one in race.tried] == ["plain", "fast"]
    assert 0.0 <= expected[0] <= time.monotonic() - began - _CALLED


@pytest.mark.parametrize(
    ("default", "others", "timed"),
    [
        (30.0, {"slow-once": 44.0, "slower": 80.0}, ["plain", "slow-once"]),
        (30.0, {"hopeless": 120.0}, []),
        (30.0, {"near": 31.0, "behind": 44.0}, ["plain", "near"]),
        (300_000.0, {"slow-once": 440_000.0}, []),
    ],
    ids=["first-behind", "far-behind", "near", "slow-default"],
)
def test_where_the_default_leads_the_first_behind_it_is_timed_again(
    tmp_path: Path, default: float, others: dict[str, float], timed: list[str]
) -> None:
    def tried(name: str, us: float) -> RouteOutcome:
        (tmp_path / name).write_text(name)
        route = PLAIN if name == "plain" else Route(name, (f"--{name}",))
        return RouteOutcome(route, 1, Compiled(None, "", 0.0, (), tmp_path / name), us)

    again: list[str] = []

    def time_it(build: Compiled, _: Any) -> Timing:
        again.append(build.vmfb.name)
        return Timing((default / 2 if build.vmfb.name != "plain" else default,))

    session = SimpleNamespace(
        stop=SimpleNamespace(requested=False),
        runner=SimpleNamespace(time=time_it),
        store=SimpleNamespace(record_timing=lambda *_, **__: None),
    )
    context: Any = SimpleNamespace(session=session, clocked=lambda _: nullcontext())
    outcomes = [tried("plain", default), *(tried(name, us) for name, us in others.items())]
    race = RouteRace(context, benchmark=SimpleNamespace(), program=SimpleNamespace(), tried=outcomes)  # type: ignore[arg-type]
    race._time_the_nearest()
    assert again == timed
    if timed:
        assert min(race.tried, key=lambda one: one.us or 0).route.name == timed[1]
