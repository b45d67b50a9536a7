"""The declared space of llvm-cpu, on dispatches that the real compiler made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.render import cpu_compilation_info
from autotuner.iree.mlir import Dispatch, read_root, tile_levels
from autotuner.iree.processor import CpuFacts, read_cpu_facts
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.space import ABSENT, Config
from autotuner.space.cpu import CpuSpace
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan

MakePlan = Callable[[Gemm, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]

BIG = "512x512x1024"
ODD = ("1000x333x77", "4096x1x1024", "1x1x1")
PROCESSORS = {
    "avx2": ("x86_64", "+avx2,+fma"),
    "avx512": ("x86_64", "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq"),
    "neon": ("aarch64", "+neon"),
    "sve": ("aarch64", "+sve"),
}
PACKED = "--iree-global-opt-data-tiling"
SCALABLE = "--iree-llvmcpu-enable-scalable-vectorization"


def dispatch_of(builder: Builder, shape: str, processor: str, *extra: str) -> tuple[Dispatch, CpuFacts]:
    """What the compiler makes of a problem for any processor, this machine's or not."""
    triple, features = PROCESSORS[processor]
    flags = [
        *Target.parse("cpu", flags=["--iree-llvmcpu-target-cpu=generic"]).compile_flags,
        f"--iree-llvmcpu-target-triple={triple}-unknown-linux-gnu",
        f"--iree-llvmcpu-target-cpu-features={features}",
        "--iree-codegen-add-tuner-attributes",
        *extra,
    ]
    text = builder.inspect(problem_mlir(Gemm.parse(shape=shape, dtype="f32")), flags, timeout=120)
    root = read_root(text)
    assert root is not None
    return root, read_cpu_facts(text)


def declare(dispatch: Dispatch, facts: CpuFacts, *, cores: int = 2) -> CpuSpace:
    declared = CpuSpace.declare(dispatch, facts, cores=cores)
    assert declared is not None
    assert len(declared.space)
    return declared


def on_route(plan: Plan, route: str, config: Config) -> Config:
    """A configuration of one route's space as the joined space has it."""
    return Config.of({**{knob.name: ABSENT for knob in plan.space.knobs}, "route": route, **config.as_dict()})


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("route", [(), (PACKED,)], ids=["plain", "packed"])
def test_default_is_the_compilers_own_choice(builder: Builder, processor: str, route: tuple[str, ...]) -> None:
    dispatch, facts = dispatch_of(builder, BIG, processor, *route)
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is not None
    assert default in declared.space
    tiling = declared.tiling(default)
    assert dict(tiling.levels) == tile_levels(dispatch.lowering_config)
    assert tiling.pipeline in dispatch.translation_info
    assert tiling.peel == ("enable_loop_peeling" in dispatch.translation_info)


def test_default_survives_scalable_tiles(builder: Builder) -> None:
    dispatch, facts = dispatch_of(builder, BIG, "sve", SCALABLE)
    assert "[8, [8], 0]" in dispatch.lowering_config
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is None or default in declared.space


def test_a_dispatch_that_was_not_configured_for_the_cpu_has_no_default(builder: Builder) -> None:
    dispatch, facts = dispatch_of(builder, BIG, "neon")
    declared = declare(replace(dispatch, lowering_config="#iree_codegen.lowering_config<tile_sizes = [[1]]>"), facts)
    assert declared.default() is None


@pytest.mark.parametrize("missing", ["m", "n", "k"])
def test_a_dispatch_without_all_three_loops_has_no_space(builder: Builder, missing: str) -> None:
    dispatch, facts = dispatch_of(builder, BIG, "neon")
    roles = tuple((role, () if role == missing else dims) for role, dims in dispatch.roles)
    assert CpuSpace.declare(replace(dispatch, roles=roles), facts, cores=2) is None


@pytest.mark.parametrize(
    ("shape", "processor", "cores"),
    [(BIG, "avx2", 2), (BIG, "neon", 64), ("1000x333x77", "avx2", 16), ("7x3x5", "neon", 2)],
)
def test_tiles_obey_the_rules_of_the_machine(builder: Builder, shape: str, processor: str, cores: int) -> None:
    dispatch, facts = dispatch_of(builder, shape, processor)
    m, n, k = dispatch.loops
    lanes = facts.vector_bytes // 4
    declared = declare(dispatch, facts, cores=cores)
    for row in declared.space.sample(150, np.random.default_rng(0)):
        levels = dict(declared.tiling(declared.space[int(row)]).levels)
        assert all(len(tiles) == 3 for tiles in levels.values())
        work_m, work_n, _ = levels["distribution"]
        vector_m, vector_n, _ = levels["vector_common_parallel"]
        vector_k = levels["vector_reduction"][2]
        assert levels["distribution"][2] == levels["vector_common_parallel"][2] == 0
        assert levels["vector_reduction"][:2] == (0, 0)
        assert vector_m * -(-vector_n // lanes) <= facts.vector_registers
        assert vector_k <= max(k, 1)
        assert work_m % vector_m == work_n % vector_n == 0
        assert work_m < m + vector_m
        assert work_n < n + vector_n
        assert -(-m // work_m) * -(-n // work_n) >= min(cores, m * n)
        inner_m, inner_n, _ = levels.get("cache_parallel", levels["distribution"])
        assert work_m % inner_m == work_n % inner_n == 0
        assert inner_m % vector_m == inner_n % vector_n == 0
        if "cache_reduction" in levels:
            assert 0 < levels["cache_reduction"][2] < k
            assert inner_m * inner_n * 4 < 32768


def test_packed_tiles_obey_the_rules_of_the_machine(builder: Builder) -> None:
    dispatch, facts = dispatch_of(builder, BIG, "avx2", PACKED)
    declared = declare(dispatch, facts, cores=16)
    m, n, k, *inner = dispatch.loops
    assert len(declared.space) > 50
    for config in declared.space:
        levels = dict(declared.tiling(config).levels)
        work_m, work_n, *rest = levels["distribution"]
        assert rest == [0, 0, 0, 0]
        assert 1 <= work_m <= m
        assert 1 <= work_n <= n
        assert -(-m // work_m) * -(-n // work_n) >= 16
        assert levels["vector_common_parallel"] == (1, 1, 0, inner[0], inner[1], 0)
        unroll = levels["vector_reduction"][2]
        assert 1 <= unroll <= k
        assert levels["vector_reduction"] == (0, 0, unroll, 0, 0, inner[2])


def test_a_batch_loop_gets_tiles_of_one(make_plan: MakePlan) -> None:
    plan = make_plan(Gemm.parse(shape="64x64x64", dtype="f32", batch=3), "cpu")
    for part in plan.cpu.values():
        assert len(part.dispatch.dims("batch")) == 1
        (loop,) = part.dispatch.dims("batch")
        levels = dict(part.tiling(part.space[0]).levels)
        assert levels["distribution"][loop] == 1
        assert levels["vector_common_parallel"][loop] == 1
        assert levels["vector_reduction"][loop] == 0


def test_different_rows_mean_different_tiles(make_plan: MakePlan) -> None:
    plan = make_plan(Gemm.parse(shape=BIG, dtype="f32"), "cpu")
    for part in plan.cpu.values():
        rows = part.space.sample(300, np.random.default_rng(1))
        assert len({cpu_compilation_info(part.tiling(part.space[int(r)])) for r in rows}) == len(rows)


@pytest.mark.parametrize("shape", ODD)
def test_odd_sizes_give_a_space_that_builds_or_none(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, executor: Executor, shape: str
) -> None:
    plan = make_plan(Gemm.parse(shape=shape, dtype="f32"), "cpu")
    assert set(plan.cpu) | {note.split(":")[0].removeprefix("route ") for note in plan.notes} == {
        r.name for r in plan.target.routes_for("gemm") if r.reachable
    }
    tried: list[Config] = []
    for name, part in plan.cpu.items():
        default = part.default()
        assert default is not None
        assert default in part.space
        if name == "plain":
            random = part.space[int(part.space.sample(1, np.random.default_rng(0))[0])]
            tried = [on_route(plan, name, config) for config in {default, random}]
    builds = executor.map(builder.build, [make_job(plan, plan.candidate(c, id="c")) for c in tried])
    assert [(b.failure, b.stderr[-300:]) for b in builds if not b.ok] == []


def test_random_candidates_build_and_apply(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder, executor: Executor
) -> None:
    plan = make_plan(Gemm.parse(shape=BIG, dtype="f32"), "cpu")
    rows = plan.cpu["plain"].space.sample(3, np.random.default_rng(0))
    configs = [on_route(plan, "plain", plan.cpu["plain"].space[int(row)]) for row in rows]
    assert all(config in plan.space for config in configs)
    jobs = [make_job(plan, plan.candidate(config, id="c")) for config in configs]
    builds = list(executor.map(builder.build, jobs))
    assert [(b.failure, b.stderr[-300:]) for b in builds if not b.ok] == []
    assert [b.applied for b in builds] == [1] * 3
    assert len({b.binary for b in builds}) > 1
