"""The declared space of llvm-cpu, on dispatches that the real compiler made: products, convolutions and attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.render import cpu_compilation_info
from autotuner.iree.mlir import Dispatch, read_root, tile_levels
from autotuner.iree.processor import CpuFacts, read_cpu_facts
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.space.cpu import CpuSpace
from autotuner.targets import PLAIN, Target
from autotuner.tuning.plan import Candidate, Plan

MakeJob = Callable[[Plan, Candidate], BuildJob]
DispatchOf = Callable[..., tuple[Dispatch, CpuFacts]]
Levels = Mapping[str, tuple[int, ...]]

PROCESSORS = {
    "avx2": ("x86_64", "+avx2,+fma"),
    "avx512": ("x86_64", "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq"),
    "neon": ("aarch64", "+neon"),
    "sve": ("aarch64", "+sve"),
}
PACKED = ("--iree-global-opt-data-tiling",)
SCALABLE = "--iree-llvmcpu-enable-scalable-vectorization"
BIG = Gemm.parse(shape="512x512x1024", dtype="f32")
SQUARE = Attention.parse(shape="1x8x256x256x64", dtype="f32")
CONVS = {
    "one image": Conv.parse(shape="1x30x30x64", filter="3x3x64", dtype="f32"),
    "two images": Conv.parse(shape="2x58x58x64", filter="3x3x64", dtype="f32"),
    "channels first": Conv.parse(shape="2x58x58x64", filter="3x3x64", dtype="f32", layout="nchw-fchw"),
    "strided": Conv.parse(shape="2x57x57x32", filter="3x3x64", stride="2x2", dtype="f16"),
    "integers": Conv.parse(shape="2x30x30x64", filter="3x3x64", dtype="i8"),
    "depthwise": Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=64, dtype="f32"),
    "padded": Conv.parse(shape="2x28x28x3", filter="7x7x64", stride="2x2", pad="3x3", dtype="f32"),
    "odd channels": Conv.parse(shape="2x57x57x40", filter="3x3x40", dtype="f32"),
}
SCALAR = [
    Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=4, dtype="f32"),
    Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=64, dtype="f32", layout="nchw-fchw"),
]


@pytest.fixture
def dispatch_of(builder: Builder) -> DispatchOf:
    """dispatch_of(problem, processor, *flags): what the compiler makes of it, for this machine's processor or not."""

    def of(problem: Problem, processor: str, *extra: str) -> tuple[Dispatch, CpuFacts]:
        triple, features = PROCESSORS[processor]
        flags = [
            *Target.parse("cpu", flags=["--iree-llvmcpu-target-cpu=generic"]).compile_flags,
            f"--iree-llvmcpu-target-triple={triple}-unknown-linux-gnu",
            f"--iree-llvmcpu-target-cpu-features={features}",
            "--iree-codegen-add-tuner-attributes",
            *extra,
        ]
        text = builder.inspect(problem_mlir(problem), flags, timeout=120)
        root = read_root(text)
        assert root is not None
        return root, read_cpu_facts(text)

    return of


def declare(dispatch: Dispatch, facts: CpuFacts, *, cores: int = 2) -> CpuSpace:
    declared = CpuSpace.declare(dispatch, facts, cores=cores)
    assert declared is not None
    assert len(declared.space)
    return declared


@pytest.mark.parametrize(
    ("problem", "processor", "route"),
    [
        *((BIG, processor, ()) for processor in PROCESSORS),
        *((BIG, processor, PACKED) for processor in ("avx512", "neon")),
        *((conv, "avx512", ()) for conv in CONVS.values()),
    ],
    ids=lambda value: value.name if isinstance(value, Problem) else str(value),
)
def test_default_is_the_compilers_own_choice(
    dispatch_of: DispatchOf, problem: Problem, processor: str, route: tuple[str, ...]
) -> None:
    dispatch, facts = dispatch_of(problem, processor, *route)
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is not None
    assert default in declared.space
    tiling = declared.tiling(default)
    assert dict(tiling.levels) == tile_levels(dispatch.lowering_config)
    assert tiling.pipeline in dispatch.translation_info
    assert tiling.peel == ("enable_loop_peeling" in dispatch.translation_info)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_attentions_default_is_the_compilers_but_for_parts_of_the_width(dispatch_of: DispatchOf, dtype: str) -> None:
    dispatch, facts = dispatch_of(replace(SQUARE, dtype=dtype), "avx512")
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is not None
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


def test_a_default_that_is_not_said_in_plain_tiles(dispatch_of: DispatchOf) -> None:
    dispatch, facts = dispatch_of(BIG, "sve", SCALABLE)
    assert "[8, [8], 0]" in dispatch.lowering_config
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is None or default in declared.space
    other = replace(dispatch, lowering_config="#iree_codegen.lowering_config<tile_sizes = [[1]]>")
    assert declare(other, facts).default() is None


@pytest.mark.parametrize("problem", SCALAR, ids=lambda problem: problem.name)
def test_what_the_compiler_does_not_vectorize_has_no_knobs(dispatch_of: DispatchOf, problem: Problem) -> None:
    dispatch, facts = dispatch_of(problem, "avx512")
    assert dispatch.kind == "convolution"
    assert CpuSpace.declare(dispatch, facts, cores=2) is None


# --- the rules of the machine ---------------------------------------------------------------------------------------


def product_obeys(dispatch: Dispatch, facts: CpuFacts, levels: Levels, cores: int) -> None:
    m, n, k = dispatch.loops
    assert all(len(tiles) == 3 for tiles in levels.values())
    work_m, work_n, _ = levels["distribution"]
    vector_m, vector_n, _ = levels["vector_common_parallel"]
    assert levels["distribution"][2] == levels["vector_common_parallel"][2] == 0
    assert levels["vector_reduction"][:2] == (0, 0)
    assert vector_m * -(-vector_n // (facts.vector_bytes // 4)) <= facts.vector_registers
    assert levels["vector_reduction"][2] <= max(k, 1)
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


def packed_obeys(dispatch: Dispatch, facts: CpuFacts, levels: Levels, cores: int) -> None:
    del facts
    m, n, k, *inner = dispatch.loops
    work_m, work_n, *rest = levels["distribution"]
    assert rest == [0, 0, 0, 0]
    assert 1 <= work_m <= m
    assert 1 <= work_n <= n
    assert -(-m // work_m) * -(-n // work_n) >= cores
    assert levels["vector_common_parallel"] == (1, 1, 0, inner[0], inner[1], 0)
    unroll = levels["vector_reduction"][2]
    assert 1 <= unroll <= k
    assert levels["vector_reduction"] == (0, 0, unroll, 0, 0, inner[2])


def convolution_obeys(dispatch: Dispatch, facts: CpuFacts, levels: Levels, cores: int) -> None:
    def of(level: str, role: str) -> tuple[int, ...]:
        return tuple(levels[level][loop] for loop in dispatch.dims(role))

    deep, lanes = "channel" if dispatch.dims("channel") else "depth", facts.vector_bytes // 4
    (batch,), (height, width), (channels,) = (dispatch.sizes(role) for role in ("batch", "image", deep))
    assert of("distribution", "batch") == of("vector_common_parallel", "batch") == (1,)
    work_height, work_width = of("distribution", "image")
    one_row, vector_width = of("vector_common_parallel", "image")
    (work_channel,), (vector_channel,) = (of(level, deep) for level in ("distribution", "vector_common_parallel"))
    assert one_row == 1
    assert width % work_width == work_width % vector_width == 0
    assert channels % work_channel == work_channel % vector_channel == 0
    assert 1 <= work_height <= height
    assert batch * -(-height // work_height) * (width // work_width) * (channels // work_channel) >= cores
    last = dispatch.outputs[-1][-1] in dispatch.dims(deep)
    across = (vector_channel, vector_width) if last else (vector_width, vector_channel)
    assert 4 <= -(-across[0] // lanes) * across[1] <= facts.vector_registers
    filter_height, filter_width = of("vector_reduction", "filter")
    inputs = of("vector_reduction", "input")
    assert filter_height == 1
    assert all(size % tile == 0 for size, tile in zip(dispatch.sizes("input"), inputs, strict=True))
    assert vector_width * vector_channel * filter_width * max(inputs, default=1) * 4 < 512 * facts.vector_bytes


def attention_obeys(dispatch: Dispatch, facts: CpuFacts, levels: Levels, cores: int) -> None:
    def of(role: str, level: str) -> int:
        return next((levels[level][loop] for loop in dispatch.dims(role)), 1)

    (n,), (k1,), (k2,) = (dispatch.sizes(role) for role in ("n", "k1", "k2"))
    batch, m = (math.prod(dispatch.sizes(role)) for role in ("batch", "m"))
    lanes = facts.vector_bytes // 4
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


@pytest.mark.parametrize(
    ("problem", "processor", "cores", "route", "obeys"),
    [
        *((BIG, processor, cores, (), product_obeys) for processor, cores in (("avx2", 2), ("neon", 64))),
        (Gemm.parse(shape="1000x333x77", dtype="f32"), "avx2", 16, (), product_obeys),
        (Gemm.parse(shape="7x3x5", dtype="f32"), "neon", 2, (), product_obeys),
        (BIG, "avx2", 16, PACKED, packed_obeys),
        (CONVS["two images"], "avx512", 2, (), convolution_obeys),
        (CONVS["channels first"], "avx2", 64, (), convolution_obeys),
        (CONVS["depthwise"], "neon", 16, (), convolution_obeys),
        (SQUARE, "avx512", 2, (), attention_obeys),
        (Attention.parse(shape="1x1x96x128x128", dtype="f32"), "avx2", 16, (), attention_obeys),
        (Attention.parse(shape="2x2x1x1024x64", dtype="f32"), "neon", 4, (), attention_obeys),
    ],
    ids=lambda value: value.name if isinstance(value, Problem) else None,
)
def test_tiles_obey_the_rules_of_the_machine(
    dispatch_of: DispatchOf,
    problem: Problem,
    processor: str,
    cores: int,
    route: tuple[str, ...],
    obeys: Callable[[Dispatch, CpuFacts, Levels, int], None],
) -> None:
    dispatch, facts = dispatch_of(problem, processor, *route)
    declared = declare(dispatch, facts, cores=cores)
    assert declared.default() in declared.space
    infos = set()
    rows = declared.space.sample(250, np.random.default_rng(0))
    for row in rows:
        tiling = declared.tiling(declared.space[int(row)])
        obeys(dispatch, facts, dict(tiling.levels), cores)
        infos.add(cpu_compilation_info(tiling))
    assert len(infos) == len(rows), "different rows mean different tiles"


@pytest.mark.parametrize(
    ("problem", "processor"),
    [
        *((Conv.parse(shape=s, filter=f, dtype="f32"), "avx512") for s, f in (("2x55x55x33", "3x3x37"),)),
        *((Conv.parse(shape=s, filter="3x3x1440", dtype="f32"), "avx512") for s in ("2x9x258x3", "1x258x258x480")),
        *((Gemm.parse(shape=shape, dtype="f32"), "neon") for shape in ("4096x1x1024", "1x1x1")),
        (Attention.parse(shape="1x8x1x1024x64", dtype="f32"), "avx512"),
        (Attention.parse(shape="1x2x128x131x40", dtype="f32"), "avx2"),
        (Attention.parse(shape="1x1x3x5x7", dtype="f32"), "neon"),
        (Attention.parse(shape="1x2x128x128x256", dtype="f32"), "avx512"),
    ],
    ids=lambda value: value.name if isinstance(value, Problem) else value,
)
def test_odd_sizes_give_a_space_with_a_default_or_none(
    dispatch_of: DispatchOf, problem: Problem, processor: str
) -> None:
    dispatch, facts = dispatch_of(problem, processor)
    declared = CpuSpace.declare(dispatch, facts, cores=2)
    assert declared is None or declared.default() in declared.space
    if problem.op == "attention" and len(dispatch.dims("n")) == len(dispatch.dims("k2")) == 1:
        assert declared is not None  # else loops of one iteration are folded away


def test_a_batch_loop_gets_tiles_of_one(dispatch_of: DispatchOf) -> None:
    for route in ((), PACKED):
        dispatch, facts = dispatch_of(Gemm.parse(shape="64x64x64", dtype="f32", batch=3), "avx512", *route)
        declared = declare(dispatch, facts)
        (loop,) = dispatch.dims("batch")
        levels = dict(declared.tiling(declared.space[0]).levels)
        assert levels["distribution"][loop] == levels["vector_common_parallel"][loop] == 1
        assert levels["vector_reduction"][loop] == 0


@pytest.mark.parametrize(
    "problem",
    [
        BIG,
        Gemm.parse(shape="1000x333x77", dtype="f32"),
        *(CONVS[name] for name in ("two images", "channels first", "integers", "depthwise", "padded")),
        SQUARE,
        Attention.parse(shape="2x2x77x77x64", dtype="f16", causal=True),
        Attention.parse(shape="1x2x128x131x40", dtype="bf16"),
        pytest.param(Attention.parse(shape="1x2x64x64x256", dtype="f32"), marks=pytest.mark.long),
    ],
    ids=lambda problem: problem.name,
)
def test_random_candidates_build_and_apply(
    builder: Builder, executor: Executor, make_job: MakeJob, problem: Problem
) -> None:
    chip = replace(Target.parse("cpu"), routes=(PLAIN,))
    with ThreadPoolExecutor(1) as one:
        plan = Plan.make(chip.prepare(problem), chip, BuildExecutor.on(one, builder), timeout=120)
    count = 2 if problem == BIG else 1
    configs = [plan.space[int(row)] for row in plan.space.sample(count, np.random.default_rng(0))]
    builds = list(executor.map(builder.build, [make_job(plan, plan.candidate(c, id="c")) for c in configs]))
    assert [(b.failure, b.stderr[-300:]) for b in builds if not b.ok] == []
    assert [b.applied for b in builds] == [1] * count
    assert len({b.binary for b in builds}) == count
