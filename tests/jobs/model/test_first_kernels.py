"""When microkernels go into the model by their defaults: by a clock that stands still."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.jobs.model import first_kernels
from autotuner.jobs.model.coverage import Coverage, KernelRoute
from autotuner.jobs.model.first_kernels import FirstKernels, Kept, try_kernels
from autotuner.jobs.model.routes import RouteOutcome, RouteRace
from autotuner.jobs.model.whole import Tuned, WholeModel
from autotuner.programs.structure import ModelStructure
from autotuner.targets import PLAIN, Route, Target
from tests.support.fake_tools import ONE_ROUTE

WRONG = KernelRoute(RouteOutcome(PLAIN, 1, us=2284.0, failure="wrong-result"), Coverage(3e9, 50))
RIGHT = KernelRoute(RouteOutcome(Route("im2col+O3"), 2, us=2535.0), Coverage(3e9, 50))
KEPT = Kept(verdict=40.0, racing=100.0)
COMPILING = 20.0
GPU = Target.parse("sm_80")
NEEDED = (5.0 + 2.8 + COMPILING) / 2
"""To find places, to build fifty kernels on sixteen cores, and to compile the model; half of it is worth a try."""


def attempted(
    monkeypatch: pytest.MonkeyPatch,
    *,
    left: float,
    wrong_with_kernels: bool = False,
    best: float | None = None,
    before: FirstKernels | None = None,
    early: bool = False,
    flops: float = 3e9,
    target: Target = ONE_ROUTE,
) -> tuple[FirstKernels | None, list[str], list[str]]:
    """What came of it, the routes on which the model was compiled, and what was said."""
    compiled: list[str] = []
    said: list[str] = []

    def kernels(whole: WholeModel, *_: object, kept: float) -> Tuned | None:
        assert kept == KEPT.verdict
        compiled.append(whole.tried.route.name)
        if wrong_with_kernels and not whole.tried.ok:
            return None
        return cast(Tuned, SimpleNamespace(us=1200.0, kernels=(1,)))

    monkeypatch.setattr(first_kernels, "Library", SimpleNamespace(open=lambda *_: SimpleNamespace(places=None)))
    monkeypatch.setattr(first_kernels, "kernel_routes", lambda *_, **__: [WRONG, RIGHT])
    monkeypatch.setattr(first_kernels, "kernels_first", kernels)
    monkeypatch.setattr(first_kernels, "Dispatches", lambda *_: SimpleNamespace())
    plain = SimpleNamespace(configured={}, preprocessed="", groups=(), flops=flops)
    context = SimpleNamespace(
        options=SimpleNamespace(microkernels=("auto",), jobs=16),
        session=SimpleNamespace(stop=SimpleNamespace(requested=False), jobs=16),
        clock=SimpleNamespace(left=left, budget=200.0),
        clocked=lambda _: nullcontext(),
        crowding=1.0,
        structure=lambda _: plain,
        target=target,
        note=said.append,
    )
    tried = [] if best is None else [RouteOutcome(Route("fast"), 3, us=best)]
    race = cast(RouteRace, SimpleNamespace(context=context, tried=tried))
    structure = cast(ModelStructure, plain)
    found = try_kernels(race, structure, kept=KEPT, compiling=COMPILING, before=before, early=early)
    return found, compiled, said


def test_kernels_are_tried_where_only_the_shortest_verdict_fits_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time for a whole race was kept, and kernels that halve the model's time were not tried."""
    found, compiled, said = attempted(monkeypatch, left=NEEDED + KEPT.verdict)
    assert compiled == ["plain"]
    assert found is not None
    assert found.gains
    assert said == ["route plain with 1 microkernel (100% of the arithmetic): 1.200 ms"]


def test_where_no_verdict_would_fit_after_them_the_budget_that_would_do_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, compiled, said = attempted(monkeypatch, left=NEEDED + KEPT.verdict - 1.0)
    assert found is None
    assert compiled == []
    assert said == ["no time to compile the model with 50 microkernels: --budget 245s would do"]


def test_a_model_that_is_wrong_with_kernels_too_is_tried_on_a_right_route(monkeypatch: pytest.MonkeyPatch) -> None:
    found, compiled, _ = attempted(monkeypatch, left=150.0, wrong_with_kernels=True)
    assert compiled == ["plain", "im2col+O3"]
    assert found is not None
    assert found.tried is RIGHT.tried


def test_a_model_that_is_slow_with_kernels_is_tried_on_the_fastest_route_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-50 without flags: two convolutions that no kernel took were 20 times as slow as all others together."""
    _, compiled, _ = attempted(monkeypatch, left=150.0, best=1000.0)
    assert compiled == ["plain", "im2col+O3"]
    _, compiled, _ = attempted(monkeypatch, left=150.0, best=2000.0)
    assert compiled == ["plain"]


def test_kernels_that_compute_nearly_all_are_tried_before_most_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-50 in five minutes: the routes took a third of it, and the compile with kernels had no time."""
    found, compiled, _ = attempted(monkeypatch, left=150.0, early=True, best=1000.0)
    assert compiled == ["plain"], "where they are slow there, other routes come first"
    later, compiled, _ = attempted(monkeypatch, left=150.0, before=found, best=1000.0)
    assert compiled == ["im2col+O3"]
    assert later is found
    later, compiled, _ = attempted(monkeypatch, left=150.0, before=found, best=2000.0)
    assert (later, compiled) == (found, []), "what leads is not tried again"


def test_on_a_gpu_kernels_that_lead_are_tried_on_the_fastest_route_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder layer: the default has two dispatches for a layer norm, flags that fuse more have one."""
    found, _, _ = attempted(monkeypatch, left=150.0, early=True, best=2000.0, target=GPU)
    later, compiled, _ = attempted(monkeypatch, left=150.0, before=found, best=2000.0, target=GPU)
    assert compiled == ["im2col+O3"]
    assert later is found, "it was not faster"


def test_kernels_that_leave_work_to_flags_wait_for_the_best_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempted(monkeypatch, left=150.0, early=True, flops=4e9) == (None, [], [])
    assert attempted(monkeypatch, left=NEEDED, early=True) == (None, [], []), "that there is no time is told later"
