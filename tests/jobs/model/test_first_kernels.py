"""On which route microkernels are tried by their defaults, and which route's dispatches are tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from autotuner import Attention, Gemm, Options, Problem
from autotuner.jobs.model import first_kernels
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.entries import Library, Place
from autotuner.jobs.model.first_kernels import (
    FirstKernels,
    KernelRoute,
    attempts,
    in_order,
    kernel_routes,
    try_kernels,
    unranked,
    worth_tuning,
)
from autotuner.jobs.model.whole import WholeModel
from autotuner.microkernels.variants import Kernel
from autotuner.patterns.forms import Forms
from autotuner.programs.structure import Shares
from autotuner.targets import PLAIN, Route, Target
from tests.support.bare_model import NOTHING, BareContext, kernel, race_of, tried
from tests.support.clocks import Simulated
from tests.support.fake_tools import ONE_ROUTE

TRANSPOSED = "--iree-preprocessing-pass-pipeline=builtin.module(iree-preprocessing-transpose-convolution-pipeline)"
LAST = Route("channels-last+O3", (TRANSPOSED,))
IM2COL = Route("im2col+O3", ("--iree-global-opt-use-im2col-for-convs",))
NCHWC, FUSED = Route("nchwc+data-tiling", ("--iree-opt-data-tiling",)), Route("O3", ("--iree-opt-level=O3",))
MODEL = 9e9
"""The arithmetic of a model, of which kernels compute a part."""
SMALL, LARGE = (Gemm.parse(shape=shape, dtype="f32") for shape in ("64x64x64", "512x512x512"))
GPU = Target.parse("sm_80")


def covering(route: Route, us: float, flops: float, *, wrong: bool = False) -> KernelRoute:
    return KernelRoute(tried(route, us, wrong=wrong), flops)


def names(routes: Sequence[KernelRoute]) -> list[str]:
    return [one.tried.route.name for one in routes]


def test_kernels_are_tried_where_they_compute_most_of_the_arithmetic_and_not_where_the_model_is_fastest() -> None:
    """Times of an Inception v1 for sm_80: kernels for nchw went into im2col, the slowest of the three."""
    plain, im2col = covering(PLAIN, 2284.0, 3e9, wrong=True), covering(IM2COL, 2535.0, 3e9)
    last = covering(LAST, 1533.0, 1e8)
    assert names(in_order([last, im2col, plain], flops=MODEL)) == ["plain", "im2col+O3", "channels-last+O3"]
    most = replace(last, flops=8e9)
    assert names(in_order([plain, most], flops=MODEL)) == ["channels-last+O3", "plain"]


def test_what_kernels_compute_alike_is_told_apart_by_time_and_a_route_that_rewrites_comes_last() -> None:
    plain, im2col = covering(PLAIN, 2000.0, 3.00e9), covering(IM2COL, 500.0, 2.99e9)
    assert names(in_order([plain, im2col], flops=MODEL)) == ["im2col+O3", "plain"]
    assert names(in_order([covering(LAST, 100.0, 3e9), plain], flops=MODEL)) == ["plain", "channels-last+O3"]
    assert in_order([covering(PLAIN, 1.0, 0.0)], flops=MODEL) == []


def test_where_kernels_compute_nearly_all_they_are_tried_on_a_route_that_leaves_the_form_of_the_rest_alone() -> None:
    """SqueezeNet, with all convolutions by kernels: on nchwc its poolings were packed, a sixth of the time."""
    plain, nchwc, fused = (covering(route, us, MODEL) for route, us in ((PLAIN, 116.0), (NCHWC, 16.0), (FUSED, 99.0)))
    assert names(in_order([plain, nchwc, fused], flops=MODEL)) == ["O3", "plain", "nchwc+data-tiling"]
    assert names(in_order([plain, nchwc], flops=1.1 * MODEL)) == ["nchwc+data-tiling", "plain"]


def test_where_the_first_route_is_wrong_without_kernels_a_right_one_follows() -> None:
    plain, im2col = covering(PLAIN, 2284.0, 3e9, wrong=True), covering(IM2COL, 2535.0, 3e9)
    assert attempts([plain, im2col]) == [plain, im2col]
    assert attempts([im2col, plain]) == [im2col]
    slower, less = covering(FUSED, 9000.0, 3e9), covering(NCHWC, 100.0, 1e9)
    assert attempts([plain, less, slower, im2col]) == [plain, im2col]
    assert attempts([]) == []


def test_a_program_is_read_once_for_all_routes_that_share_it_and_a_mask_hides_nothing_of_what_is_counted() -> None:
    """A decoder layer is computed by kernels alone; as these skip half of the keys, it counted as 93 % of it."""
    read: list[str] = []
    whole, causal = (Attention.parse(shape="1x8x1024x1024x128", causal=causal) for causal in (False, True))

    def places(text: str) -> list[Place]:
        read.append(text)
        problems: dict[str, list[Problem]] = {"as written": [LARGE, causal], "rewritten": [SMALL]}
        return [Place(problem, Forms(()), 2, ("sgemm_c",), constant=True) for problem in problems[text]]

    outcomes = [
        tried(PLAIN, 3.0, wrong=True, text="of the cache"),
        tried(LAST, 1.0, text="rewritten"),
        tried(IM2COL, 2.0, text="as written"),
        tried(Route("failed"), None),
    ]
    found = kernel_routes(outcomes, places, plain="as written", flops=1e12)
    assert names(found) == ["im2col+O3", "plain", "channels-last+O3"]
    assert read == ["as written", "rewritten"]
    assert found[0].flops == 2.0 * (LARGE.flops + whole.flops)


@dataclass
class Attempts:
    """What came of kernels on two routes, one of them wrong without them, which take 1.2 ms with them."""

    found: FirstKernels | None
    compiled: list[str]
    """The routes on which the model was compiled."""
    said: list[str]


def attempted(
    monkeypatch: pytest.MonkeyPatch,
    *,
    wrong_with_kernels: bool = False,
    best: float = 9999.0,
    target: Target = ONE_ROUTE,
) -> Attempts:
    compiled: list[str] = []

    def made(whole: WholeModel, _: Library) -> Contestant | None:
        compiled.append(whole.on.route.name)
        wrong = wrong_with_kernels and not whole.on.ok
        return None if wrong else replace(whole.on, id="kernels", us=1200.0, kernels=(kernel(SMALL),))

    options = Options(microkernels=[Kernel("auto")])
    context = BareContext(clock=Simulated(200.0), options=options, target=target)
    routes = [covering(PLAIN, 2284.0, 3e9, wrong=True), covering(IM2COL, 2535.0, 3e9)]
    monkeypatch.setattr(Library, "open", lambda *_: Library(context, (), "", ""))
    monkeypatch.setattr(first_kernels, "kernel_routes", lambda *_, **__: routes)
    monkeypatch.setattr(first_kernels, "kernels_first", made)
    found = try_kernels(race_of(context, tried(FUSED, best)), NOTHING, kept=40.0)
    return Attempts(found, compiled, context.said)


def test_kernels_that_lead_are_told_with_their_part_of_the_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    done = attempted(monkeypatch)
    assert done.found is not None
    assert done.found.gains
    assert done.said == ["route plain with 1 microkernel (0% of the arithmetic): 1.200 ms"]


def test_a_model_that_is_wrong_with_kernels_too_is_tried_on_a_right_route(monkeypatch: pytest.MonkeyPatch) -> None:
    done = attempted(monkeypatch, wrong_with_kernels=True)
    assert done.compiled == ["plain", "im2col+O3"]
    assert done.found is not None
    assert done.found.on.route == IM2COL


def test_a_model_that_is_slow_with_kernels_is_tried_on_the_fastest_route_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-50 without flags: two convolutions that no kernel took were 20 times as slow as all others together."""
    assert attempted(monkeypatch, best=1000.0).compiled == ["plain", "im2col+O3"]
    assert attempted(monkeypatch, best=2000.0).compiled == ["plain"]


def test_on_a_gpu_kernels_that_lead_are_tried_on_the_fastest_route_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder layer: the default has two dispatches for a layer norm, flags that fuse more have one."""
    assert attempted(monkeypatch, best=2000.0, target=GPU).compiled == ["plain", "im2col+O3"]


def chosen(monkeypatch: pytest.MonkeyPatch, *, kernels_us: float, target: Target = GPU) -> tuple[str, list[str]]:
    """The route that is tuned, beside a wrong default with kernels on it; and the routes that were ranked."""
    ranked: list[str] = []

    def measured(_: object, route: Route, *__: object) -> Shares:
        ranked.append(route.name)
        return Shares({"a": 1.0}, "")

    monkeypatch.setattr(first_kernels, "measure_shares", measured)
    context, default = BareContext(target=target), tried(PLAIN, 2284.0, wrong=True)
    made = replace(default, id="kernels", us=kernels_us, failure=None)
    first = FirstKernels(unranked(context, default, NOTHING), default, made)
    race = race_of(context, default, tried(LAST, 1533.0), tried(FUSED, 1700.0), tried(IM2COL, 9000.0))
    _, on = worth_tuning(race, NOTHING, first)
    return on.route.name, ranked


def test_where_the_model_with_kernels_leads_its_route_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU by arithmetic: dispatches timed alone would tell of the code that the kernels have replaced."""
    assert chosen(monkeypatch, kernels_us=1200.0) == ("plain", [])
    assert chosen(monkeypatch, kernels_us=1200.0, target=ONE_ROUTE) == ("plain", ["plain"])


def test_dispatches_that_must_be_timed_alone_are_ranked_on_one_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA three rankings of an Inception left no time to tune it in 220 s. What is far behind is never ranked."""
    assert chosen(monkeypatch, kernels_us=1600.0) == ("channels-last+O3", ["channels-last+O3"])
    assert chosen(monkeypatch, kernels_us=1600.0, target=ONE_ROUTE)[1] == ["channels-last+O3", "O3"]
