"""The shipped kernels for GPUs: what each takes and refuses, that its variants build, and that IREE calls them."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import spec_mlir
from autotuner.iree.hazards import hazards
from autotuner.iree.objects import read_object
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Call, shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.microkernels.providers.triton import plan
from autotuner.microkernels.variants import Variants, fits
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.cuda_kernel import needs_nvrtc
from tests.support.kernels import request, spec_flags

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
HOPPER, AMD = "sm_90", ("gfx942", "gfx950")
CAUSAL = Attention.parse(shape="1x32x1024x1024x128", causal=True)


def shipped(name: str) -> Manifest:
    return load(shipped_folder() / name / FILE, OPERATIONS)


def gemm(shape: str, **words: Any) -> Gemm:
    return Gemm.parse(shape=shape, **words)


def f8(shape: str, **more: Any) -> Gemm:
    return Gemm.parse(shape=shape, dtype="f8", layout="nt", **more).allowing("f16")


def conv(filter: str, **words: Any) -> Conv:
    return Conv.parse(shape=words.pop("shape", "2x16x16x1280"), filter=filter, **words)


def attention(shape: str, **words: Any) -> Attention:
    return Attention.parse(shape=shape, **words)


FIRST = "nchw-fchw"
DEEP = gemm("384x512x32768", dtype="bf16", layout="nt")

# --- What each is for -----------------------------------------------------------------------------------------------

TAKEN: list[tuple[str, str, Sequence[Problem], Sequence[Problem]]] = [
    *(
        (
            "gemm_triton",
            chip,
            [
                *map(
                    gemm, ("1x1x1", "32x128256x4096", "64x200000x512", "65x65x100000", "5000x5001x5003", "90000x16x8")
                ),
                gemm("70x33x50", batch=1000, layout="tt"),
            ],
            [gemm("64x64x64", dtype="f32")],
        )
        for chip in (HOPPER, *AMD)
    ),
    *(
        (
            "conv_triton",
            chip,
            [conv(f, shape=s) for f, s in product(("1x1x7", "3x3x130"), ("1x3x3x5", "1x224x224x3", "64x7x7x2048"))],
            [conv("3x3x16", shape="1x8x8x16", groups=2), conv("3x3x64", dtype="f32")],
        )
        for chip in (HOPPER, *AMD)
    ),
    ("conv_nchw_triton", HOPPER, [conv("3x3x130", shape="1x3x3x5", layout=FIRST)], [conv("3x3x64")]),
    ("attention_triton", "gfx942", [attention("2x16x2048x2048x128", causal=True)], [attention("1x2x64x64x512")]),
    (
        "attention_hopper",
        HOPPER,
        [attention("4x8x1024x1024x64", causal=True), *map(attention, ("1x32x1024x1088x128", "1x16x1024x1024x64"))],
        [
            *map(attention, ("1x32x1000x1024x128", "4x12x384x384x64", "1x32x1024x1024x96")),
            *(attention(shape, causal=True) for shape in ("1x32x1024x1088x128", "1x8x1024x1024x128")),
        ],
    ),
    ("attention_hopper", "sm_80", [], [attention("1x32x1024x1024x128")]),
    (
        "gemm_hopper",
        HOPPER,
        [gemm("1536x1536x2048", layout="tt"), gemm("512x512x512", batch=16)],
        [*map(gemm, ("2000x1000x3001", "64x4096x16384", "512x768x1024")), gemm("512x512x1000", batch=64)],
    ),
    (
        "gemm_cuda",
        HOPPER,
        [
            *map(gemm, ("512x768x1024", "128x4096x4096", "1x5120x5120", "1024x1024x1020")),
            gemm("16x4096x4096", epilogue="bias"),
            gemm("1024x1020x1024", layout="nt"),
            f8("1024x1024x1024"),
        ],
        [
            gemm("16x4096x4096", batch=2),
            gemm("1024x1020x1024", epilogue="bias"),
            gemm("512x512x1000", batch=64),
            f8("1024x1024x1016"),
            replace(f8("1024x1024x1024"), layout="nn"),
            replace(f8("1024x1024x1024"), allow=""),
        ],
    ),
    ("gemm_cuda", "sm_80", [], [gemm("512x768x1024")]),
]


@pytest.mark.parametrize(("name", "chip", "taken", "refused"), TAKEN)
def test_a_kernel_takes_what_it_is_for_and_nothing_else(
    name: str, chip: str, taken: Sequence[Problem], refused: Sequence[Problem]
) -> None:
    found = {problem.name: fits(shipped(name), problem, chip) for problem in (*taken, *refused)}
    assert found == {problem.name: problem in taken for problem in (*taken, *refused)}


def test_what_runs_on_a_later_gpu_too_is_told_how_to_name_it() -> None:
    with pytest.raises(DoesNotFitError) as refused:
        shipped("attention_hopper").fit(attention("1x32x1024x1024x128"), "sm_80")
    assert refused.value.remedy == "It is for: sm_90. --chip names the GPU that will run it."


SPREAD, FEW = conv("3x3x1280", pad="1x1", out="f16"), attention("1x32x1x8192x128")
CHOICES: list[tuple[str, Problem, str, str, set[int]]] = [
    # Workgroups share a sum, or keys, where there are too few tiles and all of them run at once.
    ("conv_triton", SPREAD, HOPPER, "split", {1, 2, 3, 4, 6, 8}),
    ("conv_triton", SPREAD, "gfx942", "split", {1}),
    ("conv_triton", conv("3x3x320", shape="2x64x64x320", pad="1x1"), HOPPER, "split", {1}),
    ("attention_triton", FEW, HOPPER, "split", {1, 4, 8, 16}),
    ("attention_triton", FEW, HOPPER, "bm", {16}),
    ("attention_triton", FEW, "gfx942", "split", {1}),
    # Filters that no power of two divides go in two blocks.
    ("conv_triton", conv("3x3x320", shape="2x64x64x320", pad="1x1"), HOPPER, "more", {0, 32, 64}),
    ("conv_triton", conv("3x3x256", shape="2x64x64x320", pad="1x1"), HOPPER, "more", {0}),
    # Parts of the depth are for sums alone.
    ("gemm_cuda", replace(DEEP, out="bf16"), HOPPER, "fill", {0, 1, 2}),
    ("gemm_cuda", gemm("16x4096x4096", layout="nt"), HOPPER, "fill", {0, 1, 3}),
]


@pytest.mark.parametrize(("name", "problem", "chip", "parameter", "values"), CHOICES)
def test_a_parameter_has_the_values_that_make_sense(
    name: str, problem: Problem, chip: str, parameter: str, values: set[int], tmp_path: Path
) -> None:
    space = Variants.of(shipped(name), problem, chip, workspace=tmp_path).space
    assert {space[i][parameter] for i in range(len(space))} == values


def test_no_variant_of_any_product_for_hopper_wants_more_than_an_sm_has(tmp_path: Path) -> None:
    manifest = shipped("gemm_cuda")
    shapes = ("640x1920x2560", "2008x2040x1976", "192x256x8192", "8192x8192x8192", "48x8192x8192")
    for shape, (layout, epilogue) in zip(
        cycle(shapes), product(("nn", "nt", "tt"), ("", "bias,residual,gelu")), strict=False
    ):
        problem = gemm(shape, layout=layout, epilogue=epilogue)
        variants = Variants.of(manifest, problem, HOPPER, workspace=tmp_path)
        assert len(variants.space) >= 6
        given = manifest.given(problem, HOPPER)
        for config in variants.ranked:
            numbers = manifest.choose(given, {k: int(v) for k, v in config.items})
            ring = numbers["stages"] * (numbers["bm"] + numbers["bn"]) * 128
            assert numbers["kept"] + ring <= 227 * 1024
            assert numbers["tiles"] % (numbers["cm"] * numbers["cn"]) == 0
            assert numbers["cluster"] <= 8
            # Sums that go by way of shared memory take the place of the steps.
            assert not (numbers["staged"] and numbers["whole"]) or numbers["bm"] * (numbers["bn"] * 4 + 32) <= ring
            # A group has 232 registers for each thread, or 160, and wants some for itself.
            assert numbers["high"] * numbers["bn"] // 2 <= (128 if numbers["groups"] < 3 else 96)


MINUTES = ((1 << 32) + 1, 1 << 48)
"""More than 32 bits have."""


@pytest.mark.parametrize(
    ("kernel", "problem", "chip", "expected"),
    [
        ("gemm_cuda", gemm("65536x65536x65536", layout="nt"), HOPPER, (4_000_001, 1 << 31)),
        ("sgemm_c", gemm("16384x16384x16384", dtype="f32"), "x86_64", MINUTES),
    ],
)
def test_the_largest_problems_are_estimated(
    kernel: str, problem: Problem, chip: str, expected: tuple[int, int], tmp_path: Path
) -> None:
    """In nanoseconds; no number on the way is too large for a manifest's."""
    least, most = expected
    assert least <= Variants.of(shipped(kernel), problem, chip, workspace=tmp_path).expected < most


LARGE: dict[str, Problem] = {
    "gemm_triton": gemm("384x512x32768", layout="nt"),
    "gemv_triton": gemm("1x4096x11008", layout="nt"),
    "conv_triton": conv("3x3x1280", pad="1x1"),
    "conv_nchw_triton": conv("3x3x192", shape="1x56x56x64", pad="1x1", layout=FIRST),
    "attention_triton": attention("1x32x2048x2048x128"),
}


@pytest.mark.parametrize("name", LARGE)
def test_spaces_are_those_of_a_chips_compute_units(name: str, tmp_path: Path) -> None:
    """Workgroups wait for one another only where all of them run at once; a source in Triton takes every variant."""
    manifest = shipped(name)
    assert manifest.provider.source is not None
    for chip, units in ((HOPPER, 132), *zip(AMD, (304, 256), strict=True)):
        variants = Variants.of(manifest, LARGE[name], chip, workspace=tmp_path)
        assert 2 <= len(variants.space) <= 64
        for config in variants.ranked:
            wanted = request(manifest, LARGE[name], chip, {key: int(value) for key, value in config.items})
            plan(wanted, manifest.provider.source.read_text())
            assert wanted.numbers["units"] == units
            if wanted.numbers.get("split", 1) > 1 and chip != HOPPER:
                assert wanted.numbers["tiles"] * wanted.numbers["split"] <= wanted.numbers["fill"] * units


# --- What is made of them -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A variant that is built: of those with these values the one that is expected to be fastest."""

    kernel: str
    problem: Problem
    parameters: Mapping[str, int] = field(default_factory=dict)
    chip: str = HOPPER
    called: bool = False
    """IREE is asked whether it calls it."""

    def call(self, workspace: Path) -> Call:
        """Built, and held against its manifest."""
        first = dict(self.parameters) if self.parameters else None
        variants = Variants.of(shipped(self.kernel), self.problem, self.chip, workspace=workspace, first=first)
        config = variants.space[0] if first else variants.default()
        assert self.parameters.items() <= dict(config.items).items()
        return variants.call(config)


ENDED = "bias,residual,clip=0:6"
SMALL: dict[str, Problem] = {
    # Large tiles take Triton many times as long.
    "gemm_triton": gemm("72x88x120", epilogue="bias,gelu"),
    "gemv_triton": gemm("1x512x256", layout="nt"),
    "conv_triton": conv("3x3x32", shape="1x8x8x32", pad="1x1", out="bf16", dtype="bf16"),
    "conv_nchw_triton": conv("3x3x32", shape="1x8x8x32", pad="1x1", layout=FIRST, epilogue="bias,silu"),
    "attention_triton": attention("1x2x10x60x40", causal=True),
}
IN_TRITON = [
    *(Case(name, problem, chip=AMD[i % 2], called=True) for i, (name, problem) in enumerate(SMALL.items())),
    Case("gemm_triton", gemm("4096x4096x64", out="f16"), {"workers": 132, "tma": 1}),
    Case("attention_hopper", replace(CAUSAL, layout="bs3hd")),
    Case("gemm_hopper", gemm("1000x1200x1024", out="f16", epilogue="silu,gated"), {"more": 64}),
]
LONG_IN_TRITON = [
    Case(
        "conv_triton", conv("3x3x48", shape="2x9x7x40", pad="1x1", stride="2x1", epilogue=ENDED), {"bm": 64, "bn": 32}
    ),
    Case("conv_nchw_triton", conv("3x3x40", shape="1x8x8x24", out="f16", epilogue="bias,relu", layout=FIRST)),
    Case("gemv_triton", gemm("1x100x4096", dtype="bf16", epilogue="bias,clip=:6"), {"fill": 4}),
    Case("attention_triton", attention("1x2x3x1000x64"), {"bm": 16, "split": 4}),
    Case("conv_triton", conv("3x3x1280", pad="1x1", epilogue="hardswish"), {"split": 3}),
    Case("gemm_triton", gemm("130x200x70", batch=3, dtype="bf16", layout="tt"), {"bm": 64, "tma": 0}),
    Case("gemm_triton", gemm("8x1024x8192", epilogue="bias,residual,relu"), {"bm": 16, "bn": 64, "fill": 1}),
    Case("gemm_hopper", gemm("1000x1280x8192", layout="nt", epilogue="bias,residual,tanhgelu"), {"bn": 256, "fill": 1}),
]
"""Of kernels of which other variants are built above."""
TURNED = {"bm": 64, "bn": 16, "fill": 1, "turned": 1}
IN_CUDA = [
    Case("gemm_cuda", gemm("1536x1536x2048", dtype="bf16", layout="nt"), {"bm": 128, "bn": 144, "both": 1}),
    Case("gemm_cuda", gemm("2008x2040x1976"), {"both": 1}, called=True),
    Case("gemm_cuda", gemm("333x777x1111"), called=True),
    Case("gemm_cuda", DEEP, {"bm": 128, "bn": 128, "fill": 1}, called=True),
    Case("gemm_cuda", replace(DEEP, out="bf16"), {"fill": 2}, called=True),
    Case("gemm_cuda", gemm("16x4096x4096", layout="nt", epilogue="bias,residual,gelu"), TURNED),
    Case("gemm_cuda", gemm("48x4096x4096", out="f16", epilogue="silu,gated"), {"bm": 128, "bn": 48, "turned": 1}),
    Case("gemm_cuda", f8("16x4096x4096", epilogue="bias,relu"), TURNED, called=True),
    Case("gemm_cuda", gemm("512x512x512", batch=16, layout="tt", epilogue="bias,residual,gelu"), called=True),
    Case("gemm_cuda", gemm("1000x1280x1032", out="f16", layout="nt", epilogue="bias,gelu"), {"bn": 176}),
    Case("gemm_cuda", gemm("1024x5632x1024", out="f16", layout="nt", epilogue="silu,gated"), called=True),
]


def listed() -> list[ParameterSet]:
    long = [needs_triton, pytest.mark.long]
    groups = [(IN_TRITON, [needs_triton]), (LONG_IN_TRITON, long), (IN_CUDA, [needs_nvrtc])]
    named = [
        (f"{case.kernel}-{case.problem.name}-{case.chip}", case, marks) for cases, marks in groups for case in cases
    ]
    return [pytest.param(case, marks=marks, id=name) for name, case, marks in named]


@pytest.mark.parametrize("case", listed())
def test_a_variant_builds_keeps_to_its_manifest_and_is_called(case: Case, tools: Tools, tmp_path: Path) -> None:
    call = case.call(tmp_path)
    assert call.instance.local_memory <= 227 * 1024
    assert hazards(call.instance.objects[0]) == [], "`ab` takes its spec like a stranger's"
    made = read_object(call.instance.objects[0])
    assert made.kind != "ptx" or made.version == "8.6", "for drivers that are older than Triton"
    (kernel,) = made.kernels
    assert (kernel.registers or 0) * call.instance.workgroup_size[0] <= 1 << 16, "nothing is spilled"
    if case.called:
        source, spec = tmp_path / "problem.mlir", tmp_path / "spec.mlir"
        source.write_text(problem_mlir(case.problem))
        spec.write_text(spec_mlir([call]))
        compiled_for = case.chip if case.chip != HOPPER else "sm_89" if case.problem.types[0] == "f8" else "sm_80"
        flags = [*Target.parse(compiled_for).compile_flags, *spec_flags(spec, [call.instance])]
        kernels = kernel_calls([call])
        assert prove(preprocess(tools, source, flags, timeout=120), kernels).found == (1,)


def test_every_shipped_kernel_for_gpus_is_among_the_cases() -> None:
    manifests = [load(path, OPERATIONS) for path in sorted(shipped_folder().glob(f"*/{FILE}"))]
    built = {one.name for one in manifests if one.provider.kind in ("triton", "cuda")}
    assert built == {case.kernel for case in (*IN_TRITON, *IN_CUDA)}
    assert {one.name for one in manifests if one.provider.kind == "triton" and {*AMD} <= {*one.chips}} == SMALL.keys()


@needs_nvrtc
def test_a_descriptor_has_the_words_that_the_driver_gives_it(tmp_path: Path) -> None:
    """Of 640 rows of 2560 f16 in boxes of 64 by 64: `cuTensorMapEncodeTiled` by driver 580.159.04 on an NVIDIA H200."""
    call = Case("gemm_cuda", gemm("640x1920x2560", layout="nt"), {"bm": 64, "bn": 160}).call(tmp_path)
    sizes = (0x9FF, 0x27F, 0xFFFFFFF, 0xFFFFFF, 0)
    words = (0, 0, 0x6330, 0x140, 1, 0x10000000, 0, 0, *sizes, 0x3F000000, 0x3F, *[0] * 17)
    assert struct.pack("<32I", *words) in call.instance.objects[0].read_bytes()
