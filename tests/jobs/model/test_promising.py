"""How many routes' dispatches are ranked before some are tuned."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.iree.run import Invocation
from autotuner.jobs.model import promising
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.first_kernels import FirstKernels
from autotuner.jobs.model.promising import _SECOND_BUDGET, Chosen, _worth_ranking, worth_tuning
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.whole import Tuned
from autotuner.programs.shares import Shares
from autotuner.programs.structure import ModelStructure
from autotuner.targets import PLAIN, Route


def test_dispatches_that_must_be_timed_alone_are_ranked_on_one_route_unless_there_is_much_time() -> None:
    """On CUDA three rankings of an Inception left no time to tune it in 220 s."""
    alone, by_statistics = Shares({"a": 1.0}, "", timed_alone=True), Shares({"a": 1.0}, "")
    assert not _worth_ranking(alone, left=_SECOND_BUDGET - 1)
    assert _worth_ranking(alone, left=_SECOND_BUDGET)
    assert _worth_ranking(by_statistics, left=0.0)
    assert not _worth_ranking(by_statistics, left=-1.0)


@dataclass
class Ranked:
    """Dispatches that count how often they are ranked."""

    structure: str = ""
    shares: Shares = field(default_factory=lambda: Shares({"a": 1.0}, "", estimated=True))
    kernels_only: bool = False
    tunable: float = 1.0
    rankings: list[Shares] = field(default_factory=list)

    def rank(self, shares: Shares) -> None:
        self.shares = shares
        self.rankings.append(shares)


def chosen(monkeypatch: pytest.MonkeyPatch, *, kernels_us: float) -> tuple[list[Chosen], list[str]]:
    """On CUDA, beside a default that is wrong and kernels on its route; and the routes whose dispatches were timed."""
    timed: list[str] = []

    def measured(_context: Context, route: Route, *_: object) -> Shares:
        timed.append(route.name)
        return Shares({"a": 1.0}, "", timed_alone=True)

    def made(_context: Context, _route: Route, _structure: object, shares: Shares) -> Ranked:
        return Ranked(shares=shares)

    monkeypatch.setattr(promising, "measure_shares", measured)
    monkeypatch.setattr(promising, "Dispatches", made)
    default = RouteOutcome(PLAIN, 1, us=2284.0, failure="wrong-result")
    last = RouteOutcome(Route("channels-last+O3"), 2, us=1533.0)
    context = SimpleNamespace(clock=SimpleNamespace(left=150.0), stages=SimpleNamespace(alone=True))
    first = FirstKernels(cast(Dispatches, Ranked()), default, cast(Tuned, SimpleNamespace(us=kernels_us, kernels=())))
    found = worth_tuning(
        cast(Context, context),
        [default, last],
        cast(Invocation, None),
        cast(ModelStructure, None),
        reserve=50.0,
        kernels=first,
    )
    return found, timed


def test_the_model_with_kernels_leads_and_its_route_alone_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """By arithmetic: dispatches timed alone would tell of the code that the kernels have replaced."""
    found, timed = chosen(monkeypatch, kernels_us=1200.0)
    assert [(tried.route.name, seconds) for _, tried, seconds in found] == [("plain", 100.0)]
    assert timed == []


def test_kernels_that_are_near_the_best_route_are_searched_without_a_ranking_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, timed = chosen(monkeypatch, kernels_us=1600.0)
    assert [(tried.route.name, seconds) for _, tried, seconds in found] == [("plain", 50.0), ("channels-last+O3", 50.0)]
    assert [dispatches.kernels_only for dispatches, _, _ in found] == [True, False]
    assert timed == ["channels-last+O3"]


def test_kernels_that_are_far_behind_get_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found, timed = chosen(monkeypatch, kernels_us=9000.0)
    assert [(tried.route.name, seconds) for _, tried, seconds in found] == [("channels-last+O3", 100.0)]
    assert timed == ["channels-last+O3"]
