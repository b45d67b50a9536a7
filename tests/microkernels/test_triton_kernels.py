"""The shipped convolutions and attention in Triton: what they are for, what they refuse, and that they build."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import spec_mlir
from autotuner.iree.tools import Tools
from autotuner.microkernels.check import check
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.microkernels.variants import Variants, fits
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.kernels import bound, request, spec_flags

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

CAUSAL = Attention.parse(shape="1x32x1024x1024x128", causal=True)


def shipped(name: str) -> Manifest:
    return load(shipped_folder() / name / FILE)


def values(name: str, problem: Problem, chip: str, parameter: str) -> set[int]:
    """What this parameter can be for the problem."""
    manifest, found = shipped(name), set()
    for setting in manifest.settings():
        try:
            manifest.fit(problem, chip, parameters=setting)
        except DoesNotFitError:
            continue
        found.add(setting[parameter])
    return found


def conv(filter: str, **words: str) -> Conv:
    return Conv.parse(shape=words.pop("shape", "2x16x16x1280"), filter=filter, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "problem", "why"),
    [
        ("conv_triton", Conv.parse(shape="1x8x8x16", filter="3x3x16", groups=2), "groups == 1"),
        ("conv_triton", conv("3x3x64", dtype="f32"), "does not compute f32"),
        ("conv_nchw_triton", conv("3x3x64"), "does not take layout nhwc-hwcf"),
        ("attention_triton", Attention.parse(shape="1x2x64x64x512"), "width <= 256"),
    ],
)
@pytest.mark.parametrize("chip", ["sm_90", "gfx942"])
def test_what_a_kernel_does_not_compute_is_refused(name: str, problem: Problem, why: str, chip: str) -> None:
    with pytest.raises(DoesNotFitError, match=why):
        shipped(name).fit(problem, chip, parameters={"num_stages": 3 if chip == "sm_90" else 2})


def test_workgroups_share_a_sum_where_there_are_too_few_tiles() -> None:
    assert values("conv_triton", conv("3x3x1280", pad="1x1", out="f16"), "sm_90", "split") == {1, 2, 3, 4}
    assert values("conv_triton", conv("3x3x1280", pad="1x1", out="f16"), "gfx942", "split") == {1}
    assert values("conv_triton", conv("3x3x320", shape="2x64x64x320", pad="1x1"), "sm_90", "split") == {1}


def test_filters_that_no_power_of_two_divides_go_in_two_blocks() -> None:
    assert values("conv_triton", conv("3x3x320", shape="2x64x64x320", pad="1x1"), "sm_90", "more") == {0, 32, 64}
    assert values("conv_triton", conv("3x3x256", shape="2x64x64x320", pad="1x1"), "sm_90", "more") == {0}


@pytest.mark.parametrize("shape", ["1x3x3x5", "1x9x9x24", "1x224x224x3", "64x7x7x2048"])
@pytest.mark.parametrize("chip", ["sm_90", "gfx942"])
def test_every_convolution_has_a_variant(shape: str, chip: str) -> None:
    for filter in ("1x1x7", "3x3x130"):
        assert fits(shipped("conv_triton"), conv(filter, shape=shape), chip)
        assert fits(shipped("conv_nchw_triton"), conv(filter, shape=shape, layout="nchw-fchw"), chip)


def test_a_few_queries_share_their_keys_among_workgroups() -> None:
    decode = Attention.parse(shape="1x32x1x8192x128")
    assert values("attention_triton", decode, "sm_90", "split") == {1, 4, 8, 16}
    assert values("attention_triton", decode, "sm_90", "bm") == {16}
    assert values("attention_triton", decode, "gfx942", "split") == {1}
    assert values("attention_triton", Attention.parse(shape="1x32x512x512x128"), "sm_90", "split") == {1}


def test_hoppers_own_kernels_are_for_whole_tiles_and_for_its_chips_only() -> None:
    for shape, causal, taken in (
        ("1x32x1024x1024x128", False, True),
        ("4x8x1024x1024x64", True, True),
        ("1x32x1024x1088x128", False, True),
        ("1x32x1024x1088x128", True, False),
        ("1x32x1000x1024x128", False, False),
        ("4x12x384x384x64", False, False),
        ("1x32x1024x1024x96", False, False),
        ("1x16x1024x1024x64", False, True),
        ("1x8x1024x1024x128", True, False),
    ):
        assert fits(shipped("attention_hopper"), Attention.parse(shape=shape, causal=causal), "sm_90") == taken, shape
    for problem, taken in (
        (Gemm.parse(shape="1536x1536x2048", layout="tt"), True),
        (Gemm.parse(shape="2000x1000x3001"), False),
        (Gemm.parse(shape="64x4096x16384"), False),
        (Gemm.parse(shape="512x768x1024"), False),
        (Gemm.parse(shape="512x512x512", batch=16), True),
        (Gemm.parse(shape="512x512x1000", batch=64), False),
    ):
        assert fits(shipped("gemm_hopper"), problem, "sm_90") == taken, problem.name
    for chip in ("sm_80", "gfx942"):
        assert not fits(shipped("attention_hopper"), Attention.parse(shape="1x32x1024x1024x128"), chip)
        assert not fits(shipped("gemm_hopper"), Gemm.parse(shape="1536x1536x2048"), chip)


def test_what_runs_on_a_later_gpu_too_is_told_how_to_name_it() -> None:
    problem = Attention.parse(shape="1x32x1024x1024x128")
    with pytest.raises(DoesNotFitError) as refused:
        shipped("attention_hopper").fit(problem, "sm_80")
    assert "--chip sm_90" in refused.value.remedy
    with pytest.raises(DoesNotFitError) as refused:
        shipped("attention_hopper").fit(problem, "gfx942")
    assert refused.value.remedy == "It is for: sm_90."


@pytest.mark.parametrize(
    ("problem", "wanted"),
    [
        # 120 tiles of 160 columns, 128 of 96, where 192 leave a quarter of the SMs without work.
        (Gemm.parse(shape="1536x1536x2048", dtype="bf16", layout="nt"), {"bm": 128, "bn": 128, "more": 32}),
        (Gemm.parse(shape="1536x1536x2048", dtype="bf16", layout="nt"), {"bm": 192, "bn": 64, "more": 32}),
        (Gemm.parse(shape="640x1920x2560", layout="nt"), {"bm": 64, "bn": 128, "more": 32}),
        (Gemm.parse(shape="384x512x32768", dtype="bf16", layout="nt"), {"bm": 128, "bn": 128, "bk": 128, "fill": 1}),
        (Gemm.parse(shape="2008x2040x1976"), {"bm": 128, "bn": 256, "lines": 1}),
    ],
)
def test_tiles_that_fill_the_chip_once_are_among_the_first_that_are_tried(
    problem: Problem, wanted: dict[str, int], tmp_path: Path
) -> None:
    leading = Variants.of(shipped("gemm_hopper"), problem, "sm_90", workspace=tmp_path).leading()
    assert any(wanted.items() <= dict(config.items).items() for config in leading), leading


@needs_triton
@pytest.mark.parametrize(
    ("name", "problem", "chip", "parameters"),
    [
        (
            "conv_triton",
            conv("1x1x320", shape="1x64x64x64"),
            "sm_90",
            {"bm": 64, "bn": 256, "more": 64, "num_stages": 3},
        ),
        ("conv_triton", conv("3x3x1280", pad="1x1", epilogue="hardswish"), "sm_90", {"split": 3}),
        ("attention_triton", Attention.parse(shape="1x2x3x1000x64"), "sm_90", {"bm": 16, "split": 4}),
        ("attention_hopper", replace(CAUSAL, layout="bs3hd"), "sm_90", {}),
        pytest.param("attention_hopper", CAUSAL, "sm_90", {}, marks=pytest.mark.long),
        pytest.param("attention_hopper", replace(CAUSAL, layout="bshd"), "sm_90", {}, marks=pytest.mark.long),
        (
            "gemm_hopper",
            Gemm.parse(shape="1000x1280x8192", dtype="bf16", layout="nt", epilogue="bias,residual,tanhgelu"),
            "sm_90",
            {"bn": 256, "fill": 1},
        ),
        ("gemm_hopper", Gemm.parse(shape="1000x1200x1024", out="f16", epilogue="silu,gated"), "sm_90", {"more": 64}),
        pytest.param(
            *("gemm_hopper", Gemm.parse(shape="1024x5632x1024", epilogue="gelu,gated"), "sm_90", {"bn": 256}),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "gemm_hopper",
            Gemm.parse(shape="1024x1024x1024", out="f16", epilogue="silu,gated"),
            "sm_90",
            {"bn": 128, "lines": 1},
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("gemm_hopper", Gemm.parse(shape="1536x1536x2048", layout="tt"), "sm_90", {"bm": 192}),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "gemm_hopper",
            Gemm.parse(shape="1536x1536x2048", epilogue="bias,relu"),
            "sm_90",
            {"bm": 192, "bn": 64, "more": 32, "lines": 1},
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("gemm_hopper", Gemm.parse(shape="2008x2040x1976"), "sm_90", {"bn": 256, "lines": 1}),
            marks=pytest.mark.long,
        ),
    ],
)
def test_kernels_build_and_fit_their_manifests(
    name: str, problem: Problem, chip: str, parameters: dict[str, int], tmp_path: Path
) -> None:
    instance = bound(request(shipped(name), problem, chip, parameters, workspace=tmp_path))
    assert check(instance) == []
    assert instance.local_memory <= 227 * 1024


AMD: dict[str, tuple[Problem, str]] = {
    # Small: large tiles take Triton many times as long.
    "gemm_triton": (Gemm.parse(shape="72x88x120", epilogue="bias,gelu"), "gfx950"),
    "gemv_triton": (Gemm.parse(shape="1x512x256", layout="nt"), "gfx942"),
    "conv_triton": (conv("3x3x32", shape="1x8x8x32", pad="1x1", out="bf16", dtype="bf16"), "gfx942"),
    "conv_nchw_triton": (
        conv("3x3x32", shape="1x8x8x32", pad="1x1", layout="nchw-fchw", epilogue="bias,silu"),
        "gfx950",
    ),
    "attention_triton": (Attention.parse(shape="1x2x10x60x40", causal=True), "gfx942"),
}
"""A problem of each kernel, and the chip that it is built for in short."""
AMD_CHIPS = ("gfx942", "gfx950")


def test_every_kernel_for_amd_is_built_for_both_chips_by_the_next_test() -> None:
    shipped_ones = [load(path) for path in sorted(shipped_folder().glob(f"*/{FILE}"))]
    claiming = {one.name for one in shipped_ones if one.provider.kind == "triton" and "gfx942" in one.chips}
    assert claiming == AMD.keys()
    assert claiming == {one.name for one in shipped_ones if "gfx950" in one.chips}


@pytest.mark.parametrize("name", AMD)
def test_spaces_on_amds_chips_are_those_of_their_compute_units(name: str, tmp_path: Path) -> None:
    """Workgroups wait for one another only where all of them run at once."""
    large: dict[str, Problem] = {
        "gemm_triton": Gemm.parse(shape="384x512x32768", layout="nt"),
        "gemv_triton": Gemm.parse(shape="1x4096x11008", layout="nt"),
        "conv_triton": conv("3x3x1280", pad="1x1"),
        "conv_nchw_triton": conv("3x3x192", shape="1x56x56x64", pad="1x1", layout="nchw-fchw"),
        "attention_triton": Attention.parse(shape="1x32x2048x2048x128"),
    }
    manifest = shipped(name)
    for chip, units in zip(AMD_CHIPS, (304, 256), strict=True):
        variants = Variants.of(manifest, large[name], chip, workspace=tmp_path)
        assert len(variants.space) >= 2
        for config in variants.ranked:
            numbers = manifest.fit(large[name], chip, parameters={key: int(value) for key, value in config.items})
            assert numbers["units"] == units
            assert numbers["subgroup"] == 64
            if numbers.get("split", 1) > 1:
                assert numbers["tiles"] * numbers["split"] <= numbers["fill"] * units


@needs_triton
@pytest.mark.parametrize(
    ("name", "problem", "chip"),
    [
        pytest.param(name, problem, chip, marks=() if chip == short else pytest.mark.long)
        for name, (problem, short) in AMD.items()
        for chip in AMD_CHIPS
    ],
)
def test_every_kernel_builds_for_amds_chips_and_iree_calls_it(
    name: str, problem: Problem, chip: str, tools: Tools, tmp_path: Path
) -> None:
    """By its default, which the call of its problem is proven to be."""
    variants = Variants.of(shipped(name), problem, chip, workspace=tmp_path)
    call = variants.call(variants.default())
    source, spec = tmp_path / "problem.mlir", tmp_path / "spec.mlir"
    source.write_text(problem_mlir(problem))
    spec.write_text(spec_mlir([call]))
    flags = [*Target.parse(chip).compile_flags, *spec_flags(spec, [call.instance])]
    kernels = kernel_calls([call])
    assert check(call.instance) == []
    assert prove(preprocess(tools, source, flags, timeout=120), kernels).reason(kernels, expected=[1]) == ""
