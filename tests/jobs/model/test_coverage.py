"""On which route microkernels are tried, and whether there is time for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner import Attention, Gemm
from autotuner.iree.compile import PREPROCESSED, Compiled
from autotuner.jobs.model.coverage import Coverage, KernelRoute, in_order, kernel_routes
from autotuner.jobs.model.first_kernels import attempts, seconds_needed
from autotuner.jobs.model.places import Place
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.patterns.forms import Forms
from autotuner.targets import PLAIN, Route

TRANSPOSED = "--iree-preprocessing-pass-pipeline=builtin.module(iree-preprocessing-transpose-convolution-pipeline)"
LAST = Route("channels-last+O3", (TRANSPOSED,))
IM2COL = Route("im2col+O3", ("--iree-global-opt-use-im2col-for-convs",))
NCHWC, FUSED = Route("nchwc+data-tiling", ("--iree-opt-data-tiling",)), Route("O3", ("--iree-opt-level=O3",))
MODEL = 9e9
"""The arithmetic of a model, of which kernels compute a part."""
SMALL, LARGE = (Gemm.parse(shape=shape, dtype="f32") for shape in ("64x64x64", "512x512x512"))


def tried(route: Route, us: float, *, wrong: bool = False, text: str = "") -> RouteOutcome:
    build = replace(Compiled.refused(""), failure=None, vmfb=Path(route.name), dumped={PREPROCESSED: (text,)})
    return RouteOutcome(route, 1, build, us, failure="wrong-result" if wrong else "")


def covering(route: Route, us: float, flops: float, *, wrong: bool = False) -> KernelRoute:
    return KernelRoute(tried(route, us, wrong=wrong), Coverage(flops, 50))


def names(routes: Sequence[KernelRoute]) -> list[str]:
    return [one.tried.route.name for one in routes]


def test_kernels_are_tried_where_they_compute_most_of_the_arithmetic_and_not_where_the_model_is_fastest() -> None:
    """Times of an Inception v1 for sm_80: kernels for nchw went into im2col, the slowest of the three."""
    plain, im2col = covering(PLAIN, 2284.0, 3e9, wrong=True), covering(IM2COL, 2535.0, 3e9)
    last = covering(LAST, 1533.0, 1e8)
    assert names(in_order([last, im2col, plain], flops=MODEL)) == ["plain", "im2col+O3", "channels-last+O3"]
    most = replace(last, coverage=Coverage(8e9, 50))
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


def test_a_causal_attention_covers_what_its_program_computes() -> None:
    """A decoder layer is computed by kernels alone; as these skip half of the keys, it counted as 93 % of it."""
    whole, causal = (Attention.parse(shape="1x8x1024x1024x128", causal=causal) for causal in (False, True))
    covered = Coverage.of([Place(causal, Forms(()), 1, ("attention_triton",), constant=False)])
    assert covered.flops == whole.flops > causal.flops


def test_a_program_is_read_once_for_all_routes_that_share_it() -> None:
    read: list[str] = []

    def places(text: str) -> list[Place]:
        read.append(text)
        problems = {"as written": [LARGE, SMALL], "rewritten": [SMALL]}[text]
        return [Place(problem, Forms(()), 2, ("sgemm_c",), constant=True) for problem in problems]

    outcomes = [
        tried(PLAIN, 3.0, wrong=True, text="of the cache"),
        tried(LAST, 1.0, text="rewritten"),
        tried(IM2COL, 2.0, text="as written"),
        RouteOutcome(Route("failed"), 1, failure="compile-error"),
    ]
    found = kernel_routes(outcomes, places, plain="as written", flops=MODEL)
    assert names(found) == ["im2col+O3", "plain", "channels-last+O3"]
    assert read == ["as written", "rewritten"]
    assert found[0].coverage == Coverage(2.0 * (LARGE.flops + SMALL.flops), 2)


def test_the_time_for_kernels_is_that_of_the_models_compile_and_of_theirs_side_by_side() -> None:
    one = covering(PLAIN, 1.0, 1.0)
    many, few = (seconds_needed(one, each=3.0, compiling=20.0, cores=cores) for cores in (50, 1))
    assert many == pytest.approx(28.0)
    assert few == pytest.approx(175.0)
    crowded = seconds_needed(one, each=3.0, compiling=20.0, cores=50, crowding=3.0)
    assert crowded == pytest.approx(20.0 + 3 * 8.0), "what is only guessed takes longer on a busy machine"
