"""The promise that matters most: a spec that we emit is applied, and one that is not is never timed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.build.proof import proven
from autotuner.carriers.carrier import SpecCarrier
from autotuner.carriers.render import MARKER
from autotuner.iree.mlir import read_root
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.space import ABSENT, Config
from autotuner.targets import Target, all_targets
from autotuner.targets.backends import CUDA
from autotuner.tuning.plan import Candidate, Plan

MakePlan = Callable[[Problem, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]

ROOT = "--iree-codegen-add-tuner-attributes"


CPU_GEMM = Gemm.parse(shape="64x64x64", dtype="f32")
ROUTES = [r.name for r in Target.parse("cpu").routes_for(CPU_GEMM) if r.reachable]
GPU_GEMM = Gemm.parse(shape="128x128x128", dtype="f16")
CONV = Conv.parse(shape="2x16x16x64", filter="3x3x64")
ATTENTION = Attention.parse(shape="1x4x128x128x64")


def of_route(plan: Plan, route: str, count: int) -> list[Candidate]:
    """The compiler's own choice on a route of the cpu and random others, distinct in what they ask for."""
    part = plan.cpu[route]
    rows = part.space.sample(count - 1, np.random.default_rng(0))
    absent = {knob.name: ABSENT for knob in plan.space.knobs}
    others = [Config.of({**absent, "route": route, **part.space[int(row)].as_dict()}) for row in rows]
    own = [first for first in plan.first if first["route"] == route]
    candidates = [plan.candidate(config, id=f"c{i}") for i, config in enumerate([*own, *others])]
    assert len({c.info for c in candidates}) == count
    return candidates


def build_all(builder: Builder, executor: Executor, jobs: list[BuildJob]) -> list[Compiled]:
    builds = list(executor.map(builder.build, jobs))
    assert [(b.failure, b.stderr[-400:]) for b in builds if not b.ok] == []
    assert [b.applied for b in builds] == [1] * len(jobs)
    return builds


@pytest.mark.parametrize("route", ROUTES)
def test_specs_apply_on_every_cpu_route_with_knobs(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, executor: Executor, route: str
) -> None:
    plan, count = make_plan(CPU_GEMM, "cpu"), 2 if route == "plain" else 1
    builds = build_all(builder, executor, [make_job(plan, c) for c in of_route(plan, route, count)])
    assert len({b.binary for b in builds}) == count


@pytest.mark.parametrize(("target", "layout"), [("plain", "tt"), ("gfx942", "nt"), ("sm_80", "tn")])
def test_specs_apply_to_every_layout(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, executor: Executor, target: str, layout: str
) -> None:
    plan = make_plan(replace(CPU_GEMM if target == "plain" else GPU_GEMM, layout=layout), target)
    build_all(builder, executor, [make_job(plan, plan.candidate(plan.first[0], id="c"))])


@pytest.mark.parametrize(
    ("problem", "target"),
    [
        (CPU_GEMM, "cpu"),
        (CONV, "gfx942"),
        (replace(ATTENTION, causal=True), "gfx942"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.op,
)
def test_a_spec_for_another_size_is_not_applied(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, problem: Problem, target: str
) -> None:
    plan = make_plan(problem, target)
    candidate = plan.candidate(plan.first[0], id="c")
    larger = plan.target.prepare(_twice(problem))
    other = read_root(builder.inspect(problem_mlir(larger), [*plan.flags(candidate), ROOT], timeout=120))
    assert isinstance(candidate.carrier, SpecCarrier)
    assert other is not None
    spec = replace(candidate.carrier, dispatch=other).carried().spec
    build = builder.build(replace(make_job(plan, candidate), spec=spec))
    assert build.failure == "not-applied"
    assert build.applied == 0
    assert "matched no operation" in build.stderr


def _twice(problem: Problem) -> Problem:
    """The same with more channels, keys or terms."""
    if isinstance(problem, Gemm):
        return replace(problem, k=2 * problem.k)
    if isinstance(problem, Conv):
        return replace(problem, c=2 * problem.c)
    assert isinstance(problem, Attention)
    return replace(problem, keys=2 * problem.keys)


def test_an_attention_that_decomposes_otherwise_is_not_applied(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder
) -> None:
    plan = make_plan(ATTENTION, "gfx942")
    candidate = plan.candidate(plan.first[0], id="c")
    assert candidate.info is not None
    assert candidate.info.decomposition_config is not None
    changed = candidate.info.decomposition_config.replace("col_major = true", "col_major = false")
    expected = replace(candidate.info, decomposition_config=changed)
    assert expected != candidate.info
    build = builder.build(replace(make_job(plan, candidate), expected=expected))
    assert build.failure == "not-applied"
    assert "decomposes by" in build.stderr


def test_a_spec_that_gives_another_configuration_than_expected_is_not_applied(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder
) -> None:
    plan = make_plan(CPU_GEMM, "cpu")
    one, other = of_route(plan, "plain", 2)
    assert other.info is not None
    build = builder.build(replace(make_job(plan, one), expected=other.info))
    assert build.failure == "not-applied"
    assert f"not the spec's {other.info.lowering_config}" in build.stderr


def test_a_spec_by_the_tuning_spec_flag_is_ignored_on_cuda(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder
) -> None:
    plan = make_plan(GPU_GEMM, "sm_80")
    job = make_job(plan, plan.candidate(plan.first[0], id="c"))
    assert job.spec_flag == "--iree-codegen-transform-dialect-library"
    ignored = builder.build(replace(job, spec_flag="--iree-codegen-tuning-spec-path"))
    assert ignored.failure == "not-applied"
    assert {t.spec_flag for t in all_targets() if t.backend is CUDA} == {job.spec_flag}


def test_a_translation_info_that_differs_is_not_applied(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder
) -> None:
    plan = make_plan(GPU_GEMM, "gfx942")
    values = plan.first[0].as_dict()
    stages = {plan.space[plan.space.nearest({**values, "prefetch_num_stages": s})] for s in (0, 3)}
    one, other = (plan.candidate(config, id="c") for config in stages)
    assert one.info is not None
    assert other.info is not None
    assert one.info.lowering_config == other.info.lowering_config
    build = builder.build(replace(make_job(plan, one), expected=other.info))
    assert build.failure == "not-applied"
    assert "the function has" in build.stderr


def test_the_proof_needs_the_marker_and_the_configuration(make_plan: MakePlan, builder: Builder) -> None:
    plan = make_plan(CPU_GEMM, "cpu")
    candidate = of_route(plan, "plain", 2)[1]
    spec = candidate.carrier.carried().spec
    assert spec is not None
    assert candidate.info is not None
    flags, flag = plan.flags(candidate), candidate.carrier.carried().spec_flag
    text = builder.inspect(plan.source, flags, timeout=120, spec=spec, spec_flag=flag)

    def proof(dumped: str) -> tuple[int, str]:
        return proven([dumped], candidate.info) if candidate.info else (0, "")

    assert proof(text) == (1, "")
    applied, why = proof(text.replace(f"{MARKER}, ", ""))
    assert (applied, "matched no operation" in why) == (0, True)
    assert "lowering_config = #iree_cpu" in text
    applied, why = proof(text.replace("lowering_config = #iree_cpu", "other = #iree_cpu"))
    assert (applied, "dropped by a later pass" in why) == (0, True)
    assert proven([], candidate.info)[0] == 0
