"""Attention on llvm-cpu: the declared space, on dispatches that the real compiler made."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.render import cpu_compilation_info
from autotuner.iree.mlir import Dispatch, read_root, tile_levels
from autotuner.iree.processor import CpuFacts, read_cpu_facts
from autotuner.problems import Attention
from autotuner.problems.render import problem_mlir
from autotuner.space.cpu import CpuSpace
from autotuner.targets import PLAIN, Target
from autotuner.tuning.plan import Candidate, Plan

MakeJob = Callable[[Plan, Candidate], BuildJob]

PROCESSORS = {
    "avx512": ("x86_64", "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq"),
    "avx2": ("x86_64", "+avx2,+fma"),
    "neon": ("aarch64", "+neon"),
}
SQUARE = "1x8x256x256x64"
ODD = {
    "1x8x1x1024x64": "avx512",
    "2x2x77x77x64": "neon",
    "1x2x128x131x40": "avx2",
    "1x1x3x5x7": "neon",
    "1x2x128x128x256": "avx512",
}


def dispatch_of(builder: Builder, problem: Attention, processor: str) -> tuple[Dispatch, CpuFacts]:
    """What the compiler makes of a problem for any processor, this machine's or not."""
    triple, features = PROCESSORS[processor]
    flags = [
        *Target.parse("cpu", flags=["--iree-llvmcpu-target-cpu=generic"]).compile_flags,
        f"--iree-llvmcpu-target-triple={triple}-unknown-linux-gnu",
        f"--iree-llvmcpu-target-cpu-features={features}",
        "--iree-codegen-add-tuner-attributes",
    ]
    text = builder.inspect(problem_mlir(problem), flags, timeout=120)
    root = read_root(text)
    assert root is not None
    return root, read_cpu_facts(text)


def declare(dispatch: Dispatch, facts: CpuFacts, *, cores: int = 2) -> CpuSpace:
    declared = CpuSpace.declare(dispatch, facts, cores=cores)
    assert declared is not None
    assert len(declared.space)
    return declared


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_default_is_the_compilers_own_choice_but_for_parts_of_the_width(builder: Builder, dtype: str) -> None:
    dispatch, facts = dispatch_of(builder, Attention.parse(shape=SQUARE, dtype=dtype), "avx512")
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is not None
    assert default in declared.space
    tiling = declared.tiling(default)
    assert tiling.pipeline in dispatch.translation_info
    own, near = tile_levels(dispatch.lowering_config), dict(tiling.levels)
    assert own.keys() == near.keys()
    (width,) = dispatch.dims("n")
    assert near["vector_common_parallel"][width] == dispatch.loops[width]
    if dtype == "f16":  # with f32 the compiler takes one query at a time, which is left out as hopeless
        assert own["vector_common_parallel"][1] == near["vector_common_parallel"][1]
        assert own["distribution"] == near["distribution"]
        assert own["vector_reduction"] == near["vector_reduction"]


@pytest.mark.parametrize(
    ("processor", "shape", "cores"),
    [("avx512", SQUARE, 2), ("avx2", "1x1x96x128x128", 16), ("neon", "2x2x1x1024x64", 4), ("neon", SQUARE, 2)],
)
def test_tiles_obey_the_rules_of_the_machine(builder: Builder, processor: str, shape: str, cores: int) -> None:
    dispatch, facts = dispatch_of(builder, Attention.parse(shape=shape, dtype="f32"), processor)
    lanes = facts.vector_bytes // 4
    declared = declare(dispatch, facts, cores=cores)
    (n,), (k1,), (k2,) = (dispatch.sizes(role) for role in ("n", "k1", "k2"))
    batch, m = (math.prod(dispatch.sizes(role)) for role in ("batch", "m"))
    for config in declared.space:
        levels = dict(declared.tiling(config).levels)

        def of(role: str, level: str, levels: dict[str, tuple[int, ...]] = levels) -> int:
            return next((levels[level][loop] for loop in dispatch.dims(role)), 1)

        work_m, vector_m = of("m", "distribution"), of("m", "vector_common_parallel")
        work_n, vector_n = of("n", "distribution"), of("n", "vector_common_parallel")
        keys = of("k2", "vector_reduction")
        assert of("batch", "distribution") == of("batch", "vector_common_parallel") == 1
        assert all(levels[level][loop] == 0 for level in levels for loop in dispatch.dims("k1"))
        assert work_m % vector_m == work_n % vector_n == n % work_n == k2 % keys == 0
        assert work_m < m + vector_m
        assert n // vector_n <= 2
        assert vector_m * keys * max(k1, vector_n) * 4 < 512 * facts.vector_bytes
        assert vector_m * -(-vector_n // lanes) <= max(2 * facts.vector_registers, n // lanes)
        assert batch * -(-m // work_m) * (n // work_n) >= min(cores, batch * -(-m // vector_m))


@pytest.mark.parametrize(("shape", "processor"), ODD.items())
def test_odd_sizes_give_a_space_with_a_default(builder: Builder, shape: str, processor: str) -> None:
    dispatch, facts = dispatch_of(builder, Attention.parse(shape=shape, dtype="f32"), processor)
    if dispatch.kind != "attention" or len(dispatch.dims("n")) != 1 or len(dispatch.dims("k2")) != 1:
        return  # loops of one iteration are folded away
    declared = CpuSpace.declare(dispatch, facts, cores=2)
    assert declared is not None
    assert declared.default() in declared.space


def test_different_rows_mean_different_tiles(builder: Builder) -> None:
    declared = declare(*dispatch_of(builder, Attention.parse(shape=SQUARE, dtype="f32"), "avx512"))
    assert len({cpu_compilation_info(declared.tiling(config)) for config in declared.space}) == len(declared.space)


@pytest.mark.parametrize(
    ("shape", "dtype", "causal", "count"),
    [
        (SQUARE, "f32", False, 1),
        ("2x2x77x77x64", "f16", True, 1),
        ("1x2x128x131x40", "bf16", False, 1),
        pytest.param("1x2x64x64x256", "f32", False, 1, marks=pytest.mark.long),
    ],
)
def test_random_candidates_build_and_apply(
    builder: Builder, executor: Executor, make_job: MakeJob, shape: str, dtype: str, causal: bool, count: int
) -> None:
    chip = replace(Target.parse("cpu"), routes=(PLAIN,))
    problem = Attention.parse(shape=shape, dtype=dtype, causal=causal)
    with ThreadPoolExecutor(1) as one:
        plan = Plan.make(chip.prepare(problem), chip, BuildExecutor.on(one, builder), timeout=120)
    configs = [plan.space[int(row)] for row in plan.space.sample(count, np.random.default_rng(0))]
    jobs = [make_job(plan, plan.candidate(config, id="c")) for config in configs]
    builds = list(executor.map(builder.build, jobs))
    assert [(b.failure, b.stderr[-300:]) for b in builds if not b.ok] == []
    assert [b.applied for b in builds] == [1] * count
