"""The declared space of llvm-cpu, on dispatches that the real compiler made: products, convolutions and attention.
Configurations that give the code of another one are left out; what gives other code is not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.render import cpu_compilation_info
from autotuner.iree.mlir import Dispatch, read_root, tile_levels
from autotuner.iree.processor import CpuFacts, read_cpu_facts
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.space import ABSENT, Config
from autotuner.space.cpu import CpuSpace
from autotuner.targets import Target
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
BIG = Gemm.parse(shape="256x192x128", dtype="f32")
SQUARE = Attention.parse(shape="1x8x256x256x64", dtype="f32")
CONVS = {
    "one image": Conv.parse(shape="1x30x30x64", filter="3x3x64", dtype="f32"),
    "two images": Conv.parse(shape="2x58x58x64", filter="3x3x64", dtype="f32"),
    "channels first": Conv.parse(shape="2x58x58x64", filter="3x3x64", dtype="f32", layout="nchw-fchw"),
    "strided": Conv.parse(shape="2x57x57x32", filter="3x3x64", stride="2x2", dtype="f16"),
    "integers": Conv.parse(shape="2x18x18x32", filter="3x3x64", dtype="i8"),
    "depthwise": Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=64, dtype="f32"),
    "padded": Conv.parse(shape="2x28x28x3", filter="7x7x64", stride="2x2", pad="3x3", dtype="f32"),
    "odd channels": Conv.parse(shape="2x57x57x40", filter="3x3x40", dtype="f32"),
}
SCALAR = [
    Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=4, dtype="f32"),
    Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=64, dtype="f32", layout="nchw-fchw"),
]


@pytest.fixture(scope="module")
def dispatch_of(builder: Builder) -> DispatchOf:
    """dispatch_of(problem, processor, *flags): what the compiler makes of it, for this machine's processor or not."""

    @cache
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


def obeys(dispatch: Dispatch, facts: CpuFacts, levels: Levels, cores: int) -> None:
    """Tiles are multiples of those within, sums fit the registers (attention's twice over), all cores have work."""
    work, vector = levels["distribution"], levels["vector_common_parallel"]
    cache = levels.get("cache_parallel", work)
    for outer, inner in ((work, cache), (cache, vector)):
        assert all(large % small == 0 for large, small in zip(outer, inner, strict=True) if large and small)
    assert all(tile < size + inner for size, tile, inner in zip(dispatch.loops, work, vector, strict=True) if tile)
    groups = math.prod(-(-size // tile) for size, tile in zip(dispatch.loops, work, strict=True) if tile)
    assert groups >= min(cores, math.prod(size for size, tile in zip(dispatch.loops, vector, strict=True) if tile))
    if not dispatch.packed:
        across = max((tile for tile in vector if tile), key=lambda tile: -tile % (facts.vector_bytes // 4) == 0)
        sums = math.prod(max(tile, 1) for tile in vector) // across * -(-across // (facts.vector_bytes // 4))
        assert sums <= facts.vector_registers * (2 if dispatch.kind == "attention" else 1)


@pytest.mark.parametrize(
    ("problem", "processor", "cores", "route"),
    [
        *((BIG, processor, cores, ()) for processor, cores in (("avx2", 2), ("neon", 64))),
        (Gemm.parse(shape="1000x333x77", dtype="f32"), "avx2", 16, ()),
        (Gemm.parse(shape="7x3x5", dtype="f32"), "neon", 2, ()),
        (BIG, "avx2", 16, PACKED),
        (CONVS["two images"], "avx512", 2, ()),
        (CONVS["channels first"], "avx2", 64, ()),
        (CONVS["depthwise"], "neon", 16, ()),
        (SQUARE, "avx512", 2, ()),
        (Attention.parse(shape="1x1x96x128x128", dtype="f32"), "avx2", 16, ()),
        (Attention.parse(shape="2x2x1x1024x64", dtype="f32"), "neon", 4, ()),
    ],
    ids=lambda value: value.name if isinstance(value, Problem) else None,
)
def test_tiles_obey_the_rules_of_the_machine(
    dispatch_of: DispatchOf, problem: Problem, processor: str, cores: int, route: tuple[str, ...]
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
        *(CONVS[name] for name in ("channels first", "integers", "depthwise")),
        Attention.parse(shape="1x2x77x77x32", dtype="f16", causal=True),
    ],
    ids=lambda problem: problem.name,
)
def test_random_candidates_build_and_apply(
    builder: Builder, executor: Executor, make_job: MakeJob, problem: Problem
) -> None:
    chip = replace(Target.parse("cpu"), knobs=())
    with ThreadPoolExecutor(1) as one:
        plan = Plan.make(chip.prepare(problem), chip, BuildExecutor.on(one, builder), timeout=120)
    count = 2 if problem == BIG else 1
    configs = [plan.space[int(row)] for row in plan.space.sample(count, np.random.default_rng(0))]
    builds = list(executor.map(builder.build, [make_job(plan, plan.candidate(c, id="c")) for c in configs]))
    assert [(b.failure, b.stderr[-300:]) for b in builds if not b.ok] == []
    assert [b.applied for b in builds] == [1] * count
    assert len({b.binary for b in builds}) == count


# --- twins ------------------------------------------------------------------------------------------------------------


MakePlan = Callable[[Problem, str], Plan]

SHAPE = "96x128x64"
"""All tiles of 2, 4 and 8 rows divide it, those of 10 and 14 do not."""
PAIRS = 2
"""Of each rule: every pair is two compiles."""


def test_the_compilers_own_choice_stays_in_the_space_and_a_size_that_is_not_known_leaves_nothing_out(
    dispatch_of: DispatchOf,
) -> None:
    dispatch, facts = dispatch_of(BIG, "avx512")
    declared = declare(dispatch, facts)
    every = CpuSpace(dispatch, declared.part.space(), declared.part)
    assert len(declared.space) < len(every.space)
    assert declared.default() == every.default()
    unknown = declare(replace(dispatch, dynamic=dispatch.dims("m")), facts)
    assert len(unknown.space) == len(unknown.part.space())


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
