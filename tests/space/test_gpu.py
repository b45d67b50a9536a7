"""The search space of a dispatch: its knobs, the compiler's own choice in it, and the attributes it stands for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu  # noqa: F401  (importing registers the dialects)

from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import text_context
from autotuner.space import ABSENT, CompilationInfo, Config
from autotuner.space.dispatch import Batch, DispatchSpace, read_dispatch_space
from autotuner.space.gpu import GpuSpace
from autotuner.space.prune import RULES, SHARED_MEMORY, STRIDED, TORN_SCORES, WIDENED, Rule
from autotuner.targets.backends import CUDA, ROCM, Backend, backend_of
from benchmarks.success import inverted
from tests.support.frames import frame

Emit = Callable[..., str]

GEMM = ("gemm", 4096, 4096, 4096)
CONV = ("conv", 2, 32, 1280, 1280)
ATTENTION = ("attention", 20, 4096, 64, 1024)


def read(emit: Emit, target: str, problem: tuple[str, *tuple[int, ...]]) -> DispatchSpace:
    kind, *shape = problem
    return read_dispatch_space(emit(kind, target, *shape), backend=backend_of(target))


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
        ("sm_80", GEMM),
        ("gfx942", CONV),
        ("gfx950", ATTENTION),
        ("sm_80", ATTENTION),
    ],
)
def test_attributes_of_random_configurations_parse_and_are_distinct(
    emit: Emit, target: str, problem: tuple[str, *tuple[int, ...]]
) -> None:
    gpu = read(emit, target, problem)
    rows = gpu.space.sample(30, np.random.default_rng(0))
    texts = set()
    for row in rows:
        info = gpu.compilation_info(gpu.space[int(row)])
        texts.add((parse(info), info.decomposition_config))
    assert len(texts) == len(rows)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("gfx942", GEMM),
        ("gfx1100", GEMM),
        ("sm_80", GEMM),
        ("gfx942", CONV),
        ("gfx942", ATTENTION),
        ("sm_80", ATTENTION),
    ],
)
def test_default_is_exactly_what_the_compiler_chose(
    emit: Emit, target: str, problem: tuple[str, *tuple[int, ...]]
) -> None:
    kind, *shape = problem
    text = emit(kind, target, *shape)
    gpu = read(emit, target, problem)
    default = gpu.default()
    assert default is not None
    info = gpu.compilation_info(default)
    assert f"lowering_config = {info.lowering_config}" in text
    if info.decomposition_config is not None:
        assert f"decomposition_config = {info.decomposition_config}" in text
    elif target != "sm_80":
        assert f"translation_info = {info.translation_info}" in text


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
    legal = GpuSpace.read(emit(*GEMM[:1], "gfx942", *GEMM[1:]), backend=ROCM, rules=()).space
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
    plain = gpu.default()
    assert plain is not None
    assert "llvm_func_attrs" not in gpu.compilation_info(plain).translation_info


def test_gfx950_can_copy_operands_by_dma_as_the_compiler_does(emit: Emit) -> None:
    text = emit("gemm", "gfx950", 4096, 4096, 4096)
    gpu = read(emit, "gfx950", GEMM)
    default = gpu.default()
    assert default is not None
    assert default["operand_copies"] == "dma-swizzled"
    info = gpu.compilation_info(default)
    assert f"lowering_config = {info.lowering_config}" in text
    assert f"translation_info = {info.translation_info}" in text
    by_threads = gpu.compilation_info(Config.of({**default.as_dict(), "operand_copies": "threads"}))
    assert "promotion_types" not in by_threads.lowering_config
    plain = gpu.compilation_info(Config.of({**default.as_dict(), "operand_copies": "dma"}))
    assert "promotion_types = [#iree_gpu.use_global_load_dma, #iree_gpu.use_global" in plain.lowering_config
    table = frame(gpu.space)
    swizzled = table[table["operand_copies"] == "dma-swizzled"]
    assert set(swizzled["no_reduce_shared_memory_bank_conflicts"]) == {1}
    assert set(swizzled["mma"]) == {"MFMA_F32_16x16x32_F16", "MFMA_F32_32x32x16_F16"}


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_an_image_that_is_no_multiple_of_the_tile_is_padded_as_the_compiler_does(emit: Emit, target: str) -> None:
    text = emit("conv", target, 1, 56, 64, 64)
    gpu = read(emit, target, ("conv", 1, 56, 64, 64))
    assert gpu.space.knobs[0].values[:2] == ("TileAndFuse", "TileAndFuse/igemm")
    default = gpu.default()
    assert default is not None
    assert default["pipeline"] == "TileAndFuse/igemm"
    info = gpu.compilation_info(default)
    assert "padding_conv = [2, 64, " in info.lowering_config
    assert info.lowering_config in text
    # A direct convolution is padded as one; the product's padding would tear its window.
    direct = gpu.compilation_info(gpu.space[gpu.space.nearest({"pipeline": "TileAndFuse"})]).lowering_config
    assert "padding_conv = " in direct
    assert "padding = " not in direct
    assert "use_igemm_convolution = true" in info.translation_info


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_batched_attributes_have_a_loop_more(emit: Emit, target: str) -> None:
    gpu = GpuSpace.read(emit("gemm", target, 128, 256, 512), backend=backend_of(target), batch=Batch(1))
    for pipeline, parts in {
        "TileAndFuse": ("workgroup = [1, ", "reduction = [0, 0, 0, ", "subgroup = [0, "),
        "VectorDistribute": ("workgroup = [1, ", "reduction = [0, 0, 0, ", "subgroup_basis = [[1, ", "[0, 1, 2, 3]]"),
    }.items():
        info = gpu.compilation_info(gpu.space[gpu.space.nearest({"pipeline": pipeline})])
        parse(info)
        for part in parts:
            assert part in info.lowering_config


def test_a_convolution_with_strides_is_a_matrix_product_first(emit: Emit) -> None:
    gpu = read(emit, "gfx942", ("conv", 2, 16, 128, 128, 2))
    assert gpu.space.knobs[0].values == ("TileAndFuse/igemm",)
    assert rejects(emit("conv", "gfx942", 2, 16, 128, 128, 2), ROCM, STRIDED)
    default = gpu.default()
    assert default is not None
    assert gpu.compilation_info(default).lowering_config in emit("conv", "gfx942", 2, 16, 128, 128, 2)


@pytest.mark.parametrize("target", ["gfx1100", "sm_80"])
def test_instructions_add_up_in_the_operations_own_type(emit: Emit, target: str) -> None:
    """Others are among what the constraints allow, and none of them builds."""
    text, backend = emit("gemm", target, 128, 256, 512, 16), backend_of(target)
    halves = GpuSpace.read(text, backend=backend)
    assert rejects(text, backend, WIDENED)
    assert {"_F16_" in str(config["mma"]) for config in halves.space} == {True}
    assert not rejects(emit("gemm", target, 128, 256, 512), backend, WIDENED)


def test_groups_are_a_loop_in_the_middle_and_only_igemm_has_them(emit: Emit) -> None:
    text = emit("conv", "gfx942", 2, 32, 32, 32)
    gpu = GpuSpace.read(text, backend=ROCM, batch=Batch(1, at=3))
    assert gpu.space.knobs[0].values == ("TileAndFuse/igemm",)
    config = gpu.compilation_info(gpu.space[gpu.space.nearest({"wg_0": 1, "sg_0": 1})]).lowering_config
    parts = {name: config.split(f"{name} = [")[1].split("]")[0].split(", ") for name in ("workgroup", "subgroup")}
    assert [len(part) for part in parts.values()] == [6, 6]
    assert (parts["workgroup"][3], parts["subgroup"][3]) == ("1", "0")


def test_attention_leaves_out_what_cannot_be_built(emit: Emit) -> None:
    gpu = read(emit, "gfx942", ("attention", 8, 1024, 128, 1024))
    for rule in (TORN_SCORES, SHARED_MEMORY):
        assert rejects(emit("attention", "gfx942", 8, 1024, 128, 1024), ROCM, rule)
    table = frame(gpu.space)
    wide = table["qk_mma"].str.contains("32x32")
    assert set(table[wide]["red_k2"].astype(int) % 32) == {0}
    assert (table[~wide]["red_k2"].astype(int) % 32 > 0).any()


def test_without_rules_the_constraints_alone_decide(emit: Emit) -> None:
    text = emit("attention", "gfx942", 8, 1024, 128, 1024)
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
        GpuSpace.read(emit("attention", "sm_80", *ATTENTION[1:]), backend=CUDA)
