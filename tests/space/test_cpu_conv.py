"""Convolutions on llvm-cpu: the declared space, on dispatches that the real compiler made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.render import cpu_compilation_info
from autotuner.iree.mlir import Dispatch, read_root, tile_levels
from autotuner.iree.processor import CpuFacts, read_cpu_facts
from autotuner.problems import Conv
from autotuner.problems.render import problem_mlir
from autotuner.space.cpu import CpuSpace
from autotuner.targets import PLAIN, Target
from autotuner.tuning.plan import Candidate, Plan

MakeJob = Callable[[Plan, Candidate], BuildJob]

AVX512 = ("x86_64", "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq")
AVX2 = ("x86_64", "+avx2,+fma")
NEON = ("aarch64", "+neon")
PROBLEMS = {
    "one image": Conv.parse(shape="1x30x30x64", filter="3x3x64", dtype="f32"),
    "two images": Conv.parse(shape="2x58x58x64", filter="3x3x64", dtype="f32"),
    "channels first": Conv.parse(shape="2x58x58x64", filter="3x3x64", dtype="f32", layout="nchw-fchw"),
    "strided": Conv.parse(shape="2x57x57x32", filter="3x3x64", stride="2x2", dtype="f16"),
    "dilated": Conv.parse(shape="2x32x32x32", filter="3x3x48", dilation="2x2", dtype="f32"),
    "integers": Conv.parse(shape="2x30x30x64", filter="3x3x64", dtype="i8"),
    "depthwise": Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=64, dtype="f32"),
    "padded": Conv.parse(shape="2x28x28x3", filter="7x7x64", stride="2x2", pad="3x3", dtype="f32"),
    "odd channels": Conv.parse(shape="2x57x57x40", filter="3x3x40", dtype="f32"),
}
SCALAR = {
    "grouped": Conv.parse(shape="2x30x30x64", filter="3x3x64", groups=4, dtype="f32"),
    "grouped, channels first": Conv.parse(
        shape="2x30x30x64", filter="3x3x64", groups=4, dtype="f32", layout="nchw-fchw"
    ),
    "depthwise, channels first": Conv.parse(
        shape="2x30x30x64", filter="3x3x64", groups=64, dtype="f32", layout="nchw-fchw"
    ),
}


def dispatch_of(builder: Builder, problem: Conv, processor: tuple[str, str]) -> tuple[Dispatch, CpuFacts]:
    """What the compiler makes of a problem for any processor, this machine's or not."""
    triple, features = processor
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


@dataclass(frozen=True)
class Tiles:
    """One configuration's tiles, by what the loops are for."""

    dispatch: Dispatch
    levels: dict[str, tuple[int, ...]]

    def of(self, level: str, role: str) -> tuple[int, ...]:
        return tuple(self.levels[level][loop] for loop in self.dispatch.dims(role))

    @cached_property
    def channel(self) -> str:
        return "channel" if self.dispatch.dims("channel") else "depth"


@pytest.mark.parametrize("name", PROBLEMS)
def test_default_is_the_compilers_own_choice(builder: Builder, name: str) -> None:
    dispatch, facts = dispatch_of(builder, PROBLEMS[name], AVX512)
    declared = declare(dispatch, facts)
    default = declared.default()
    assert default is not None
    assert default in declared.space
    tiling = declared.tiling(default)
    assert dict(tiling.levels) == tile_levels(dispatch.lowering_config)
    assert tiling.pipeline in dispatch.translation_info
    assert tiling.peel == ("enable_loop_peeling" in dispatch.translation_info)


@pytest.mark.parametrize("name", SCALAR)
def test_what_the_compiler_does_not_vectorize_has_no_knobs(builder: Builder, name: str) -> None:
    dispatch, facts = dispatch_of(builder, SCALAR[name], AVX512)
    assert dispatch.kind == "convolution"
    assert CpuSpace.declare(dispatch, facts, cores=2) is None


@pytest.mark.parametrize(
    ("name", "processor", "cores"),
    [("two images", AVX512, 2), ("channels first", AVX2, 64), ("depthwise", NEON, 16), ("two images", NEON, 64)],
)
def test_tiles_obey_the_rules_of_the_machine(
    builder: Builder, name: str, processor: tuple[str, str], cores: int
) -> None:
    dispatch, facts = dispatch_of(builder, PROBLEMS[name], processor)
    lanes = facts.vector_bytes // 4
    declared = declare(dispatch, facts, cores=cores)
    assert declared.default() in declared.space
    for row in declared.space.sample(150, np.random.default_rng(0)):
        tiles = Tiles(dispatch, dict(declared.tiling(declared.space[int(row)]).levels))
        (batch,), (height, width), (channels,) = (dispatch.sizes(r) for r in ("batch", "image", tiles.channel))
        assert tiles.of("distribution", "batch") == tiles.of("vector_common_parallel", "batch") == (1,)
        work_height, work_width = tiles.of("distribution", "image")
        one_row, vector_width = tiles.of("vector_common_parallel", "image")
        (work_channel,), (vector_channel,) = (
            tiles.of(level, tiles.channel) for level in ("distribution", "vector_common_parallel")
        )
        assert one_row == 1
        assert width % work_width == work_width % vector_width == 0
        assert channels % work_channel == work_channel % vector_channel == 0
        assert 1 <= work_height <= height
        assert batch * -(-height // work_height) * (width // work_width) * (channels // work_channel) >= cores
        across = (vector_width, vector_channel) if name == "channels first" else (vector_channel, vector_width)
        assert 4 <= -(-across[0] // lanes) * across[1] <= facts.vector_registers
        filter_height, filter_width = tiles.of("vector_reduction", "filter")
        inputs = tiles.of("vector_reduction", "input")
        assert filter_height == 1
        assert all(size % tile == 0 for size, tile in zip(dispatch.sizes("input"), inputs, strict=True))
        assert vector_width * vector_channel * filter_width * max(inputs, default=1) * 4 < 512 * facts.vector_bytes


def test_different_rows_mean_different_tiles(builder: Builder) -> None:
    declared = declare(*dispatch_of(builder, PROBLEMS["two images"], AVX512))
    rows = declared.space.sample(500, np.random.default_rng(1))
    assert len({cpu_compilation_info(declared.tiling(declared.space[int(r)])) for r in rows}) == len(rows)


@pytest.mark.parametrize(
    ("shape", "window"),
    [("2x55x55x33", "3x3x37"), ("2x9x258x3", "3x3x1440"), ("1x258x258x480", "3x3x1440")],
)
def test_odd_sizes_give_a_space_with_a_default_or_none(builder: Builder, shape: str, window: str) -> None:
    dispatch, facts = dispatch_of(builder, Conv.parse(shape=shape, filter=window, dtype="f32"), AVX512)
    declared = CpuSpace.declare(dispatch, facts, cores=2)
    assert declared is None or declared.default() in declared.space


@pytest.mark.parametrize("name", ["two images", "channels first", "integers", "depthwise", "padded"])
def test_random_candidates_build_and_apply(builder: Builder, executor: Executor, make_job: MakeJob, name: str) -> None:
    chip = replace(Target.parse("cpu"), routes=(PLAIN,))
    with ThreadPoolExecutor(1) as one:
        plan = Plan.make(chip.prepare(PROBLEMS[name]), chip, BuildExecutor.on(one, builder), timeout=120)
    configs = [plan.space[int(row)] for row in plan.space.sample(1, np.random.default_rng(0))]
    jobs = [make_job(plan, plan.candidate(config, id="c")) for config in configs]
    builds = list(executor.map(builder.build, jobs))
    assert [(b.failure, b.stderr[-300:]) for b in builds if not b.ok] == []
    assert [b.applied for b in builds] == [1]
