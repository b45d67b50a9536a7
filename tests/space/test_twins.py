"""Configurations that give the code of another one are left out; what gives other code is not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.iree.mlir import Dispatch, read_root
from autotuner.iree.processor import CpuFacts, read_cpu_facts
from autotuner.problems import Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.space import ABSENT, Config
from autotuner.space.cpu import CpuSpace
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan

MakePlan = Callable[[Problem, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]

SHAPE = "96x128x64"
"""All tiles of 2, 4 and 8 rows divide it, those of 10 and 14 do not."""
PAIRS = 3
"""Of each rule: every pair is two compiles."""


@pytest.fixture(scope="module")
def product(builder: Builder) -> tuple[Dispatch, CpuFacts]:
    flags = [*Target.parse("cpu").compile_flags, "--iree-codegen-add-tuner-attributes"]
    text = builder.inspect(problem_mlir(Gemm.parse(shape=SHAPE, dtype="f32")), flags, timeout=120)
    root = read_root(text)
    assert root is not None
    return root, read_cpu_facts(text)


def test_the_compilers_own_choice_stays_in_the_space(product: tuple[Dispatch, CpuFacts]) -> None:
    dispatch, facts = product
    declared = CpuSpace.declare(dispatch, facts, cores=2)
    assert declared is not None
    every = CpuSpace(dispatch, declared.part.space(), declared.part)
    assert len(declared.space) < len(every.space)
    assert declared.default() == every.default()


def test_a_size_that_is_not_known_leaves_nothing_out(product: tuple[Dispatch, CpuFacts]) -> None:
    dispatch, facts = product
    unknown = replace(dispatch, dynamic=dispatch.dims("m"))
    declared = CpuSpace.declare(unknown, facts, cores=2)
    assert declared is not None
    assert len(declared.space) == len(declared.part.space())


def twins(declared: CpuSpace, knob: str) -> Iterator[tuple[Config, Config]]:
    """Random pairs of which one is left out for what it has of this knob, and the other is said to be the same."""
    every = declared.part.space()
    columns = every.columns()
    assert declared.part.twins is not None
    left_out = declared.part.twins(columns) & (columns[knob] > 0)
    for row in np.random.default_rng(7).permutation(np.flatnonzero(left_out)):
        values = {name: int(value) for name, value in every[int(row)].items}
        other = values | ({"peel": 0} if knob == "peel" else {f"vectors_{a}": 0 for a in "mn"})
        if knob == "vectors_m":
            other |= {f"tiles_{a}": values[f"vectors_{a}"] * values[f"tiles_{a}"] for a in "mn"}
        if Config.of(other) in declared.space:
            yield every[int(row)], Config.of(other)


@pytest.mark.parametrize("knob", ["peel", "vectors_m"])
def test_what_is_left_out_compiles_to_the_same_binary(
    make_plan: MakePlan,
    make_job: MakeJob,
    builder: Builder,
    executor: Executor,
    knob: str,
) -> None:
    plan = make_plan(Gemm.parse(shape=SHAPE, dtype="f32"), "cpu")
    declared = plan.cpu["plain"]
    pairs = list(itertools.islice(twins(declared, knob), PAIRS))
    assert len(pairs) == PAIRS
    builds = executor.map(builder.build, [_job(plan, make_job, config) for pair in pairs for config in pair])
    binaries = [build.binary for build in builds]
    assert all(binaries)
    assert binaries[0::2] == binaries[1::2]


def test_a_microkernel_of_the_compiler_has_no_loop_over_k_to_unroll(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, executor: Executor
) -> None:
    plan = make_plan(Gemm.parse(shape=SHAPE, dtype="f32"), "cpu")
    called = [route for route, part in plan.cpu.items() if part.dispatch.op == "linalg.mmt4d"]
    assert called
    for route in called:
        assert plan.cpu[route].space.counts("unroll_k").keys() == {1}
    own = plan.cpu[called[0]].space[0]
    unrolled = [_job(plan, make_job, Config.of({**own.as_dict(), "unroll_k": k}), called[0]) for k in (1, 4)]
    one, four = executor.map(builder.build, unrolled)
    assert one.ok
    assert one.binary == four.binary


def _job(plan: Plan, make_job: MakeJob, config: Config, route: str = "plain") -> BuildJob:
    every = {**{knob.name: ABSENT for knob in plan.space.knobs}, "route": route, **config.as_dict()}
    return make_job(plan, plan.candidate(Config.of(every), id="c0"))
