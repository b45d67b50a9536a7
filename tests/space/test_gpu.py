"""The search space of a dispatch: its knobs, the compiler's own choice in it, and the attributes it stands for."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu  # noqa: F401  (importing registers the dialects)

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import text_context
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.space import ABSENT, CompilationInfo, Config, Space, Value
from autotuner.space.dispatch import Batch, DispatchSpace, read_dispatch_space
from autotuner.space.gpu import GpuSpace
from autotuner.space.gpu_attention import AttentionSpace
from autotuner.space.prune import REGISTERS, RULES, SHARED_MEMORY, STRIDED, TORN_SCORES, UNDERIVABLE, WIDENED, Rule
from autotuner.specfiles.entries import read_spec
from autotuner.targets import Target
from autotuner.targets.backends import CUDA, ROCM, Backend, backend_of
from autotuner.tuning.plan import Plan
from benchmarks.emulated.channels_first import ChannelsFirst
from benchmarks.success import inverted
from tests.space.conftest import Emit, attention


def frame(space: Space) -> pd.DataFrame:
    """A row a configuration, with the values of its knobs."""
    return pd.DataFrame({k.name: np.array(k.values, object)[space.indices[:, i]] for i, k in enumerate(space.knobs)})


GEMM, SMALL = Gemm.parse(shape="4096x4096x4096"), Gemm.parse(shape="128x256x512")
CONV = Conv.parse(shape="2x34x34x1280", filter="3x3x1280")
STRIDES = Conv.parse(shape="2x33x33x128", filter="3x3x128", stride="2x2")
UNEVEN = Conv.parse(shape="1x58x58x64", filter="3x3x64")
BACK, BACK_UNEVEN = (
    ConvNd.parse(shape=f"{shape}x32", filter="3x3x64", direction="data", pad="1x1") for shape in ("1x16x16", "2x9x9")
)
ATTENTION, WIDE = attention(20, 4096, 64, 1024), attention(8, 1024, 128, 1024)


@cache
def read(emit: Emit, target: str, problem: Problem) -> DispatchSpace:
    return read_dispatch_space(emit(problem, target), backend=backend_of(target))


def chosen(gpu: DispatchSpace) -> tuple[Config, CompilationInfo]:
    """The compiler's own choice in a space."""
    default = gpu.default()
    assert default is not None
    return default, gpu.compilation_info(default)


def rejects(text: str, backend: Backend, rule: Rule) -> bool:
    """Whether this rule rejects some of what the constraints allow."""
    every, kept = (GpuSpace.read(text, backend=backend, rules=rules).space for rules in ((), (rule,)))
    return len(kept) < len(every)


def parse(info: CompilationInfo) -> str:
    with text_context():
        text = f"lowering_config = {info.lowering_config}, translation_info = {info.translation_info}"
        if info.decomposition_config is not None:
            ir.Attribute.parse(info.decomposition_config)
        return str(ir.Attribute.parse(f"#iree_codegen.compilation_info<{text}>"))


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("gfx942", GEMM),
        ("gfx1100", GEMM),
        ("sm_80", GEMM),
        ("gfx942", CONV),
        ("gfx942", BACK),
        ("gfx942", BACK_UNEVEN),
        ("sm_80", BACK),
        ("gfx942", ATTENTION),
        ("sm_80", ATTENTION),
    ],
)
def test_default_is_exactly_what_the_compiler_chose_and_random_attributes_parse_and_are_distinct(
    emit: Emit, target: str, problem: Problem
) -> None:
    text = emit(problem, target)
    gpu = read(emit, target, problem)
    _, info = chosen(gpu)
    assert f"lowering_config = {info.lowering_config}" in text
    if info.decomposition_config is not None:
        assert f"decomposition_config = {info.decomposition_config}" in text
    elif target != "sm_80":
        assert f"translation_info = {info.translation_info}" in text
    rows = gpu.space.sample(30, np.random.default_rng(0))
    infos = [gpu.compilation_info(gpu.space[int(row)]) for row in rows]
    assert len({(parse(one), one.decomposition_config) for one in infos}) == len(rows)


def test_knobs_that_others_determine_are_not_searched(emit: Emit) -> None:
    gpu = read(emit, "gfx942", GEMM)
    table = frame(gpu.space)
    tile_and_fuse = table[table["pipeline"] == "TileAndFuse"]
    own = {name for name in table if not (tile_and_fuse[name] == ABSENT).all()}
    assert own == {
        *("pipeline", "mma", "sg_0", "sg_1", "sg_m_cnt", "sg_n_cnt", "red_2"),
        *("prefetch_num_stages", "waves_per_eu", "no_reduce_shared_memory_bank_conflicts"),
    }
    assert set(table["mma"]) == {"MFMA_F32_16x16x16_F16", "MFMA_F32_32x32x8_F16"}
    legal = GpuSpace.read(emit(GEMM, "gfx942"), backend=ROCM, rules=()).space
    assert len(legal) == 1369 * 2 * 3 * 4 + 606 * 2 * 3 * 4 * 2


def test_free_knobs_reach_the_attributes(emit: Emit) -> None:
    gpu = read(emit, "gfx942", GEMM)
    row = gpu.space.nearest(
        {
            "pipeline": "VectorDistribute",
            "prefetch_num_stages": 3,
            "waves_per_eu": 2,
            "no_reduce_shared_memory_bank_conflicts": 1,
            "reorder_workgroups": "transpose",
        }
    )
    text = gpu.compilation_info(gpu.space[row]).translation_info
    for part in (
        "prefetch_num_stages = 3",
        'llvm_func_attrs = {"amdgpu-waves-per-eu" = "2"}',
        "no_reduce_shared_memory_bank_conflicts = true",
        "reorder_workgroups_strategy = <Transpose>",
    ):
        assert part in text
    assert "llvm_func_attrs" not in chosen(gpu)[1].translation_info


def test_gfx950_can_copy_operands_by_dma_as_the_compiler_does(emit: Emit) -> None:
    text = emit(GEMM, "gfx950")
    gpu = read(emit, "gfx950", GEMM)
    default, info = chosen(gpu)
    assert default["operand_copies"] == "dma-swizzled"
    assert f"lowering_config = {info.lowering_config}" in text
    assert f"translation_info = {info.translation_info}" in text
    by_threads = gpu.compilation_info(Config.of({**default.as_dict(), "operand_copies": "threads"}))
    assert "promotion_types" not in by_threads.lowering_config
    plain = gpu.compilation_info(Config.of({**default.as_dict(), "operand_copies": "dma"}))
    assert "promotion_types = [#iree_gpu.use_global_load_dma, #iree_gpu.use_global" in plain.lowering_config
    table = frame(gpu.space)
    swizzled = table[table["operand_copies"] == "dma-swizzled"]
    for how in ("dma-swizzled", "dma"):  # what DMA writes has no padding
        assert set(table[table["operand_copies"] == how]["no_reduce_shared_memory_bank_conflicts"]) == {1}
    assert set(swizzled["mma"]) == {"MFMA_F32_16x16x32_F16", "MFMA_F32_32x32x16_F16"}


def test_dma_of_rows_that_end_in_padding_is_that_by_threads(emit: Emit) -> None:
    copies = {
        (shape, layout): set(
            frame(read(emit, "gfx950", Gemm.parse(shape=shape, layout=layout)).space)["operand_copies"]
        )
        for shape, layout in (("1280x1000x1280", "nn"), ("1280x1000x1280", "nt"))
    }
    assert list(copies.values()) == [{"dma-swizzled", "threads"}, {"dma", "dma-swizzled", "threads"}]


def test_five_waves_that_share_rows_in_their_copies_have_one_stage(emit: Emit) -> None:
    # Two stages of 96 KiB would be too much; one and the results are 116 KiB, and IREE builds it.
    gpu = read(emit, "gfx950", Gemm.parse(shape="1000x1280x1280"))
    tiles: dict[str, Value] = {
        "sg_0": 1,
        "sg_1": 1,
        "red_2": 16,
        "mma": "MFMA_F32_32x32x16_F16",
        "sg_m_cnt": 1,
        "sg_n_cnt": 5,
    }
    wanted: dict[str, Value] = {**tiles, "prefetch_num_stages": 2, "operand_copies": "dma-swizzled", "waves_per_eu": 0}
    wanted |= {"pipeline": "TileAndFuse", "no_reduce_shared_memory_bank_conflicts": 1}
    found = gpu.space[gpu.space.nearest(wanted)]
    assert {name: found[name] for name in wanted} == wanted


def test_gfx950_can_copy_by_dma_where_the_compiler_itself_does_not(emit: Emit) -> None:
    gpu = read(emit, "gfx950", SMALL)
    default, info = chosen(gpu)
    assert default["operand_copies"] == "threads"
    assert "promotion_types" not in info.lowering_config
    # Of two operands that lie along N only the plain copy is legal for the right one.
    unpadded = {"no_reduce_shared_memory_bank_conflicts": 1}
    row = gpu.space.nearest({**default.as_dict(), **unpadded, "operand_copies": "dma-swizzled"})
    text = gpu.compilation_info(gpu.space[row]).lowering_config
    swizzle = "swizzle = #iree_codegen.xor_shuffle<64, 8>>, #iree_gpu.use_global_load_dma]"
    assert f"[#iree_gpu.swizzle_operand<copy_config = #iree_gpu.use_global_load_dma, {swizzle}" in text
    assert "operand_copies" not in frame(read(emit, "gfx942", SMALL).space)


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_an_image_that_is_no_multiple_of_the_tile_is_padded_as_the_compiler_does(emit: Emit, target: str) -> None:
    text = emit(UNEVEN, target)
    gpu = read(emit, target, UNEVEN)
    assert gpu.space.knobs[0].values[:2] == ("TileAndFuse", "TileAndFuse/igemm")
    default, info = chosen(gpu)
    assert default["pipeline"] == "TileAndFuse/igemm"
    assert "padding_conv = [2, 64, " in info.lowering_config
    assert info.lowering_config in text
    # A direct convolution is padded as one; the product's padding would tear its window.
    direct = gpu.compilation_info(gpu.space[gpu.space.nearest({"pipeline": "TileAndFuse"})]).lowering_config
    assert "padding_conv = " in direct
    assert "padding = " not in direct
    assert "use_igemm_convolution = true" in info.translation_info


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_batched_attributes_have_a_loop_more(emit: Emit, target: str) -> None:
    gpu = GpuSpace.read(emit(SMALL, target), backend=backend_of(target), batch=Batch(1))
    for pipeline, parts in {
        "TileAndFuse": ("workgroup = [1, ", "reduction = [0, 0, 0, ", "subgroup = [0, "),
        "VectorDistribute": ("workgroup = [1, ", "reduction = [0, 0, 0, ", "subgroup_basis = [[1, ", "[0, 1, 2, 3]]"),
    }.items():
        info = gpu.compilation_info(gpu.space[gpu.space.nearest({"pipeline": pipeline})])
        parse(info)
        for part in parts:
            assert part in info.lowering_config


def test_a_convolution_with_strides_is_a_matrix_product_first(emit: Emit) -> None:
    gpu = read(emit, "gfx942", STRIDES)
    assert gpu.space.knobs[0].values == ("TileAndFuse/igemm",)
    assert rejects(emit(STRIDES, "gfx942"), ROCM, STRIDED)
    assert chosen(gpu)[1].lowering_config in emit(STRIDES, "gfx942")


@pytest.mark.parametrize("target", ["gfx1100", "sm_80"])
def test_instructions_add_up_in_the_operations_own_type(emit: Emit, target: str) -> None:
    """Others are among what the constraints allow, and none of them builds."""
    text, backend = emit(replace(SMALL, acc="f16"), target), backend_of(target)
    halves = GpuSpace.read(text, backend=backend)
    assert rejects(text, backend, WIDENED)
    assert {"_F16_" in str(config["mma"]) for config in halves.space} == {True}
    assert not rejects(emit(SMALL, target), backend, WIDENED)


def test_groups_are_a_loop_in_the_middle_and_only_igemm_has_them(emit: Emit) -> None:
    text = emit(Conv.parse(shape="2x34x34x32", filter="3x3x32"), "gfx942")
    gpu = GpuSpace.read(text, backend=ROCM, batch=Batch(1, at=3))
    assert gpu.space.knobs[0].values == ("TileAndFuse/igemm",)
    config = gpu.compilation_info(gpu.space[gpu.space.nearest({"wg_0": 1, "sg_0": 1})]).lowering_config
    parts = {name: config.split(f"{name} = [")[1].split("]")[0].split(", ") for name in ("workgroup", "subgroup")}
    assert [len(part) for part in parts.values()] == [6, 6]
    assert (parts["workgroup"][3], parts["subgroup"][3]) == ("1", "0")


def test_attention_leaves_out_what_cannot_be_built(emit: Emit) -> None:
    gpu = read(emit, "gfx942", WIDE)
    for rule in (TORN_SCORES, SHARED_MEMORY):
        assert rejects(emit(WIDE, "gfx942"), ROCM, rule)
    table = frame(gpu.space)
    wide = table["qk_mma"].str.contains("32x32")
    assert set(table[wide]["red_k2"].astype(int) % 32) == {0}
    assert (table[~wide]["red_k2"].astype(int) % 32 > 0).any()


def test_attention_prefetches_only_where_softmax_stays_in_registers(emit: Emit) -> None:
    table = frame(read(emit, "gfx942", WIDE).space)
    stays = table["pv_mma"].str.startswith("MFMA") & (table["mma_col_major"].astype(int) == 1)
    looped = table["prefetch_num_stages"].astype(int) * table["red_k2"].astype(int) < WIDE.keys
    prefetched = (table["prefetch_num_stages"].astype(int) > 1) & looped
    assert (prefetched & stays).any()
    assert (~prefetched & ~stays).any()
    assert not (prefetched & ~stays).any()


def test_without_rules_the_constraints_alone_decide(emit: Emit) -> None:
    text = emit(WIDE, "gfx942")
    gpu, whole = (GpuSpace.read(text, backend=ROCM, rules=rules) for rules in (RULES, ()))
    assert all(config in whole.space for config in gpu.space)
    rejected = GpuSpace.read(text, backend=ROCM, rules=(inverted(TORN_SCORES),))
    config = rejected.space[0]
    assert config in whole.space
    assert config not in gpu.space
    with pytest.raises(UsageError, match="not a legal configuration"):
        gpu.compilation_info(config)


def test_a_dispatch_without_constraints_says_so(emit: Emit) -> None:
    with pytest.raises(NoCandidateError, match="emits no pipeline constraints"):
        GpuSpace.read(emit(ATTENTION, "sm_80"), backend=CUDA)


# --- attention on NVIDIA, whose space is declared ---------------------------------------------------------------------


def test_tiles_are_whole_instructions_for_every_subgroup(emit: Emit) -> None:
    space = AttentionSpace.read(emit(WIDE, "sm_80"))
    table = frame(space.space).drop(columns=["pipeline", "mma", "reorder_workgroups"]).astype(int)
    assert (table["m_tile"] % (16 * table["sg_m_cnt"]) == 0).all()
    assert (table["n_tile"] % (8 * table["sg_n_cnt"]) == 0).all()
    assert (table["red_k2"] % 16 == 0).all()
    shared = 2 * 128 * (table["m_tile"] * table["promote_q"] + table["red_k2"] * table["promote_k"])
    assert (shared + 2 * table["red_k2"] * table["n_tile"] * table["promote_v"] <= 166912).all()
    few, every = (AttentionSpace.read(emit(WIDE, "sm_80"), rules=rules).space for rules in ((REGISTERS,), ()))
    assert len(few) < len(every)
    assert set(space.space.counts("mma")) == {"NV_MMA_SYNC_F32_16x8x16_F16"}


def test_an_operand_that_is_not_promoted_needs_no_layout(emit: Emit) -> None:
    """48 keys cannot be spread over 256 threads, which matters only when they go through shared memory."""
    text = emit(attention(8, 256, 64, 192), "sm_80")
    space = AttentionSpace.read(text)
    derivable, every = (AttentionSpace.read(text, rules=rules) for rules in ((UNDERIVABLE,), ()))
    assert len(derivable.space) < len(every.space)
    table = frame(space.space)
    odd = table[(table["red_k2"] == 48) & (table["sg_m_cnt"] == 8) & (table["sg_n_cnt"] == 1)]
    assert len(odd) > 0
    assert set(odd["promote_k"]) == {0}


def test_what_has_no_instruction_or_no_tile_says_so(emit: Emit) -> None:
    with pytest.raises(NoCandidateError, match="no dispatch of this module is an attention"):
        AttentionSpace.read(emit(SMALL, "sm_80"))
    odd = AttentionSpace.read(emit(attention(8, 77, 64, 77), "sm_80"))
    with pytest.raises(NoCandidateError, match="no tile"):
        len(odd.space)
    space = AttentionSpace.read(emit(attention(8, 256, 64, 256), "sm_80"))
    with pytest.raises(UsageError, match="not a legal configuration"):
        space.compilation_info(Config.of({**space.space[0].as_dict(), "m_tile": 17}))


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("sm_80", Attention.parse(shape="1x8x256x256x64", dtype="bf16")),
        ("gfx950", Gemm.parse(shape="256x512x512", dtype="mxfp4")),
        ("mi355x", Gemm.parse(shape="16x256x256", dtype="mxfp8", epilogue="bias")),
        ("gfx950", Gemm.parse(shape="192x1000x256", dtype="mxfp8")),
        ("gfx942", Gemm.parse(shape="64x256x256", dtype="f8b128")),
        ("sm_89", Gemm.parse(shape="64x128x384", dtype="f8b128", out="bf16")),
        ("gfx942", ChannelsFirst.parse(shape="1x16x16x64", filter="3x3x64", pad="1x1", groups=2, out="f16")),
        ("gfx942", ChannelsFirst.parse(shape="1x14x14x64", filter="3x3x64", pad="1x1", groups=2, out="f16")),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_random_configurations_of_declared_spaces_build_and_apply(
    target: str, problem: Problem, builder: Builder, executor: Executor
) -> None:
    chip = Target.parse(target)
    plan = Plan.make(chip.prepare(problem), chip, BuildExecutor.on(executor, builder), timeout=120.0)
    assert plan.first[0] in plan.space
    wanted = [plan.first[0], plan.space[int(plan.space.sample(1, np.random.default_rng(1))[0])]]
    candidates = [plan.candidate(config, id=f"c{number}") for number, config in enumerate(wanted)]
    jobs = [plan.job(one, timeout=120.0) for one in candidates]
    assert all(read_spec(job.spec or "").entries for job in jobs), "it is vetted like a spec of somebody else's"
    for build in executor.map(builder.build, jobs):
        assert build.ok, build.stderr
        assert build.applied == 1


def test_a_row_of_numbers_with_scales_has_no_matrix_instructions(builder: Builder, executor: Executor) -> None:
    chip = Target.parse("gfx950")
    row = chip.prepare(Gemm.parse(shape="1x256x512", dtype="mxfp4"))
    plan = Plan.make(row, chip, BuildExecutor.on(executor, builder), timeout=120.0)
    assert not len(plan.space)
    assert plan.obstacle


def test_a_product_with_scales_is_for_chips_that_multiply_them() -> None:
    problem = Gemm.parse(shape="256x512x512", dtype="mxfp4")
    for target in ("gfx942", "sm_89"):
        with pytest.raises(UsageError, match=f"{target} cannot tune gemm of mxfp4"):
            Target.parse(target).prepare(problem)
    wrong: tuple[dict[str, Any], ...] = ({"shape": "256x512x48"}, {"layout": "nn"}, {"batch": 2})
    for words in wrong:
        with pytest.raises(UsageError):
            Gemm.parse(**{"shape": "256x512x512", "dtype": "mxfp4", **words})
    with pytest.raises(UsageError, match="N is 100"):
        Gemm.parse(shape="256x100x128", dtype="f8b128")
