"""Rounds of routes: how long the next one is expected to take."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

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
    race = SlowDefault(context, benchmark=SimpleNamespace(), arbiter=SimpleNamespace())  # type: ignore[arg-type]
    race.all(routes, told=expected.append, then=lambda: None)
    assert [one.route.name for one in race.tried] == ["plain", "fast"]
    assert 0.0 <= expected[0] <= time.monotonic() - began - _CALLED
