"""The static score: each loss is what its description says, and what is worse scores worse."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner.build import Compiled
from autotuner.devices.many import Devices
from autotuner.iree.figures import Isa
from autotuner.iree.mlir import Dispatch
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.space.dispatch import CompilationInfo
from autotuner.targets import Target
from autotuner.tuning.estimate import Estimate, Untimed, estimate, without_device
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate, Plan

MakePlan = Callable[[Problem, str], Plan]
NOT_ASKED = cast(Any, None)
PLAIN = Isa(threads=256, wavefront=64, occupancy=2, vgpr_spills=0)


def gemm(m: int, n: int, k: int) -> Dispatch:
    return Dispatch(
        op="linalg.matmul",
        kind="contraction",
        maps=(),
        operand_types=(),
        element_types=("f16", "f16", "f32"),
        loops=(m, n, k),
        roles=(("batch", ()), ("m", (0,)), ("n", (1,)), ("k", (2,))),
        outputs=((0, 1),),
        lowering_config="",
        translation_info="",
    )


def of(dispatch: Dispatch, tiles: tuple[int, int], isa: Isa = PLAIN, target: str = "gfx942") -> Estimate:
    config = f"#iree_gpu.lowering_config<{{workgroup = [{tiles[0]}, {tiles[1]}, 0]}}>"
    return estimate(Target.parse(target), dispatch, CompilationInfo(config, "<>"), isa)


def test_padding_is_waste_and_spills_cost() -> None:
    good = of(gemm(4096, 4096, 4096), (128, 128))
    assert (good.waste, good.spills) == (1.0, 1.0)
    spilled = replace(PLAIN, vgpr_spills=64)
    assert of(gemm(4096, 4096, 4096), (128, 128), spilled).spills == pytest.approx(3.0)
    assert of(gemm(129, 128, 512), (128, 128)).waste == pytest.approx(256 / 129)


def test_idle_units_are_a_tail() -> None:
    units = Target.parse("gfx942").units
    assert of(gemm(128 * units, 128, 64), (128, 128)).tail == 1.0
    assert of(gemm(128 * (units + 1), 128, 64), (128, 128)).tail == pytest.approx(2 * units / (units + 1))
    assert of(gemm(128, 128, 64), (128, 128)).tail == units


def test_small_tiles_are_starved_of_memory() -> None:
    dispatch = gemm(4096, 4096, 4096)
    losses = [of(dispatch, tiles).memory for tiles in ((256, 256), (128, 128), (64, 64), (32, 32), (16, 256))]
    assert losses[0] == losses[1] == 1.0
    assert losses[2] == pytest.approx(2.0)
    assert losses[3] == pytest.approx(4.0)
    assert losses[4] > losses[2]


def test_few_accumulators_in_flight_cost_latency_and_more_waves_help() -> None:
    dispatch = gemm(16384, 16384, 64)
    few, more = (of(dispatch, (32, 32), replace(PLAIN, occupancy=waves)).latency for waves in (1, 8))
    assert few > more >= 1.0
    assert of(dispatch, (256, 256)).latency == 1.0


def test_the_score_is_the_product_of_the_losses() -> None:
    losses = Estimate(waste=1.5, tail=2.0, memory=1.0, latency=1.0, spills=1.25)
    assert losses.score == pytest.approx(3.75)
    assert losses.to_json() == {
        "score": 3.75,
        "waste": 1.5,
        "tail": 2.0,
        "memory": 1.0,
        "latency": 1.0,
        "spills": 1.25,
    }


@pytest.mark.parametrize(
    ("problem", "target"),
    [
        (Gemm.parse(shape="128x128x128"), "gfx942"),
        (Gemm.parse(shape="128x128x128", batch=4), "sm_80"),
        (Attention.parse(shape="1x4x128x128x64"), "sm_80"),
        (Gemm.parse(shape="64x64x64", dtype="f32"), "cpu"),
    ],
)
def test_every_candidate_of_a_real_space_has_a_score(make_plan: MakePlan, problem: Problem, target: str) -> None:
    plan = make_plan(problem, target)
    scores = set()
    for row in range(0, len(plan.space), max(len(plan.space) // 50, 1)):
        candidate = plan.candidate(plan.space[row], id="c")
        assert candidate.info is not None
        assert candidate.dispatch is not None
        losses = estimate(plan.target, candidate.dispatch, candidate.info, PLAIN)
        assert min(losses.waste, losses.tail, losses.memory, losses.latency, losses.spills) >= 1.0
        scores.add(round(losses.score, 6))
    assert len(scores) > 3


def evaluated(plan: Plan, *outcomes: Outcome) -> Evaluator:
    found = {outcome.id: outcome for outcome in outcomes}
    return Evaluator(plan, NOT_ASKED, NOT_ASKED, "", Path(), frozenset(), 1.0, Devices(()), outcomes=found)


def test_candidates_that_there_was_no_time_for_do_not_count_as_failed_builds(make_plan: MakePlan) -> None:
    plan = make_plan(Gemm.parse(shape="64x64x64", dtype="f32"), "cpu")
    cut = Outcome(plan.candidate(plan.first[0], id="c1"), 0)

    def concluded(*outcomes: Outcome) -> Untimed:
        return without_device(evaluated(plan, *outcomes))

    for late in (concluded(cut), concluded()):
        assert (late.verdict, late.cause) == ("inconclusive", None)
        assert late.reason == "ran out of time before a candidate was built. Try a longer --budget"
    failed = replace(cut, failure="compile-error")
    assert concluded(failed).reason == "none of 1 candidate builds, and none was timed"


def test_what_promises_less_than_the_default_is_not_chosen(make_plan: MakePlan) -> None:
    plan = make_plan(Gemm.parse(shape="128x128x128"), "gfx942")

    def built(candidate: Candidate, isa: Isa) -> Outcome:
        return Outcome(candidate, 0, Compiled(None, "", 0.0, (), Path(), binary=candidate.id, isa=isa))

    def concluded(spills: int, default_spills: int) -> Untimed:
        default = built(plan.baseline, replace(PLAIN, vgpr_spills=default_spills))
        other = built(plan.candidate(plan.first[0], id="c1"), replace(PLAIN, vgpr_spills=spills))
        return without_device(evaluated(plan, default, other))

    worse, better = concluded(64, 0), concluded(0, 64)
    assert worse.chosen is None
    assert worse.reason.startswith("1 candidate built and proven, none timed; the estimate prefers IREE's default")
    assert better.chosen is not None
    assert re.search(r"the estimate promises 3\.00x$", better.reason)
