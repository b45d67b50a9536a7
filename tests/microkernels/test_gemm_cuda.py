"""The matrix product for Hopper in CUDA C++: its variants build, keep to what their launches say; IREE takes them."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import SPEC_FLAG, object_flags, spec_mlir
from autotuner.iree.objects import read_object
from autotuner.iree.tools import Tools
from autotuner.microkernels.check import check
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants, fits
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.cuda_kernel import needs_nvrtc
from tests.support.kernels import spec_flags

MANIFEST = load(shipped_folder() / "gemm_cuda" / FILE)


def f8(shape: str, **more: Any) -> Gemm:
    return Gemm.parse(shape=shape, dtype="f8", layout="nt", **more).allowing("f16")


def offers(problem: Gemm, workspace: Path, **first: int) -> Variants:
    return Variants.of(MANIFEST, problem, "sm_90", workspace=workspace, first=first or None)


@needs_nvrtc
@pytest.mark.parametrize(
    ("problem", "parameters"),
    [
        (Gemm.parse(shape="640x1920x2560", layout="nt"), {"bm": 64, "bn": 160}),
        (Gemm.parse(shape="1536x1536x2048", dtype="bf16", layout="nt"), {"bm": 128, "bn": 144, "both": 1}),
        (Gemm.parse(shape="1536x1536x2048", layout="tt"), {"bm": 192, "bn": 96}),
        (Gemm.parse(shape="2008x2040x1976"), {"bm": 128, "bn": 256, "both": 2}),
        (Gemm.parse(shape="4096x4096x4096", layout="tn"), {"bm": 256, "bn": 128, "both": 2}),
        (Gemm.parse(shape="384x512x32768", dtype="bf16", layout="nt"), {"bm": 128, "bn": 128, "fill": 1}),
        (Gemm.parse(shape="384x512x32768", dtype="bf16", out="bf16", layout="nt"), {"bm": 128, "bn": 128, "fill": 2}),
        (Gemm.parse(shape="16x4096x4096", layout="nt"), {"bm": 64, "bn": 16, "fill": 1, "turned": 1}),
        (Gemm.parse(shape="48x7168x4096", out="f16"), {"bm": 128, "bn": 48, "fill": 1, "turned": 1}),
        (Gemm.parse(shape="72x4096x4096", dtype="bf16", layout="tt"), {"bm": 128, "bn": 128, "turned": 1}),
        (
            Gemm.parse(shape="16x4096x4096", layout="nt", epilogue="bias,residual,gelu"),
            {"bm": 64, "bn": 16, "fill": 1, "turned": 1},
        ),
        (Gemm.parse(shape="48x4096x4096", out="f16", epilogue="silu,gated"), {"bm": 128, "bn": 48, "turned": 1}),
        (f8("4096x4096x4096", out="bf16"), {"bm": 128, "bn": 256, "both": 1}),
        (f8("16x4096x4096", epilogue="bias,relu"), {"bm": 64, "bn": 16, "fill": 1, "turned": 1}),
        (f8("384x512x32768"), {"fill": 2}),
        (Gemm.parse(shape="512x512x512", batch=16, epilogue="bias,residual,relu"), {}),
        (Gemm.parse(shape="1000x1280x1032", out="f16", layout="nt", epilogue="layer=1e-5,bias,gelu"), {"bn": 176}),
        (
            Gemm.parse(shape="1024x5632x1024", dtype="bf16", out="bf16", epilogue="rms=1e-6,silu,gated"),
            {"bm": 256, "bn": 128},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Gemm) else "",
)
def test_variants_build_without_spills_as_their_manifest_calls_them(
    problem: Gemm, parameters: dict[str, int], tmp_path: Path
) -> None:
    variants = offers(problem, tmp_path, **parameters)
    config = variants.space[0]
    assert parameters.items() <= dict(config.items).items()
    instance = variants.call(config).instance
    assert check(instance) == []
    assert instance.local_memory <= 227 * 1024
    (kernel,) = read_object(instance.objects[0]).kernels
    (threads, *_) = instance.workgroup_size
    assert kernel.registers is not None
    assert kernel.registers * threads <= 1 << 16


@needs_nvrtc
def test_a_descriptor_has_the_words_that_the_driver_gives_it(tmp_path: Path) -> None:
    """Of 640 rows of 2560 f16 in boxes of 64 by 64: `cuTensorMapEncodeTiled` by driver 580.159.04 on an NVIDIA H200."""
    variants = offers(Gemm.parse(shape="640x1920x2560", layout="nt"), tmp_path, bm=64, bn=160)
    (cubin,) = variants.call(variants.space[0]).instance.objects
    sizes = (0x9FF, 0x27F, 0xFFFFFFF, 0xFFFFFF, 0)
    words = (0, 0, 0x6330, 0x140, 1, 0x10000000, 0, 0, *sizes, 0x3F000000, 0x3F, *[0] * 17)
    assert struct.pack("<32I", *words) in cubin.read_bytes()


@pytest.mark.parametrize(
    "problem",
    [
        Gemm.parse(shape="65536x65536x65536"),
        Gemm.parse(shape="4096x4096x4096", batch=256),
        Gemm.parse(shape="8192x8192x1048576", layout="nt"),
    ],
)
def test_the_largest_products_are_estimated(problem: Gemm, tmp_path: Path) -> None:
    """No number on the way is too large for a manifest's; the estimate is in nanoseconds."""
    assert 4_000_000 < offers(problem, tmp_path).expected <= 1 << 31


def test_parts_of_the_depth_are_for_sums_alone(tmp_path: Path) -> None:
    def filled(shape: str = "384x512x32768", **more: Any) -> set[int]:
        problem = Gemm.parse(shape=shape, layout="nt", **more)
        return {int(dict(config.items)["fill"]) for config in offers(problem, tmp_path).ranked}

    assert filled() == filled(out="f16") == {0, 1, 2}
    assert filled(shape="16x4096x4096") == {0, 1, 3}
    assert filled(epilogue="bias") == filled(epilogue="clip=0:6") == filled(batch=2) == {0, 1}


def test_no_variant_of_any_problem_wants_more_than_an_sm_has(tmp_path: Path) -> None:
    for words in ("640x1920x2560", "2008x2040x1976", "192x256x8192", "8192x8192x8192", "48x8192x8192"):
        for layout, epilogue in product(("nn", "nt", "tt"), ("", "bias,residual,gelu")):
            problem = Gemm.parse(shape=words, layout=layout, epilogue=epilogue)
            variants = offers(problem, tmp_path)
            assert len(variants.space) >= 6
            given = MANIFEST.given(problem, "sm_90")
            for config in variants.ranked:
                numbers = MANIFEST.choose(given, {k: int(v) for k, v in config.items})
                ring = numbers["stages"] * (numbers["bm"] + numbers["bn"]) * 128
                assert numbers["kept"] + ring <= 227 * 1024
                assert numbers["tiles"] % (numbers["cm"] * numbers["cn"]) == 0
                assert numbers["cluster"] <= 8
                # Sums that go by way of shared memory take the place of the steps.
                assert not (numbers["staged"] and numbers["whole"]) or numbers["bm"] * (numbers["bn"] * 4 + 32) <= ring
                # A group has 232 registers for each thread, or 160, and wants some for itself.
                assert numbers["high"] * numbers["bn"] // 2 <= (128 if numbers["groups"] < 3 else 96)


@pytest.mark.parametrize(
    ("problem", "taken"),
    [
        (Gemm.parse(shape="512x768x1024"), True),
        (Gemm.parse(shape="128x4096x4096"), True),
        (Gemm.parse(shape="1x5120x5120"), True),
        (Gemm.parse(shape="16x4096x4096", batch=2), False),
        (Gemm.parse(shape="16x4096x4096", epilogue="bias"), True),
        (Gemm.parse(shape="16x4096x4096", epilogue="rms=1e-5"), False),
        (Gemm.parse(shape="12x4096x4096", layout="tn"), False),
        (Gemm.parse(shape="1024x1020x1024", layout="nt"), False),
        (Gemm.parse(shape="1024x1024x1020"), False),
        (Gemm.parse(shape="512x512x1000", batch=64), False),
        (Gemm.parse(shape="1024x3072x1024", epilogue="rms=1e-5"), True),
        (f8("1024x1024x1024"), True),
        (f8("1024x1024x1016"), False),
        (replace(f8("1024x1024x1024"), layout="nn"), False),
        (replace(f8("1024x1024x1024"), allow=""), False),
    ],
    ids=lambda value: value.name if isinstance(value, Gemm) else "",
)
def test_rows_are_whole_pieces_and_products_are_not_thin(problem: Gemm, taken: bool) -> None:
    assert fits(MANIFEST, problem, "sm_90") == taken
    assert not fits(MANIFEST, problem, "sm_80")


@needs_nvrtc
@pytest.mark.parametrize(
    ("problem", "parameters"),
    [
        (Gemm.parse(shape="2008x2040x1976"), {"both": 1}),
        (Gemm.parse(shape="384x512x32768", out="f16", layout="nt"), {"fill": 2}),
    ],
    ids=["cluster", "parts"],
)
def test_iree_takes_a_cluster_or_parts(
    problem: Gemm, parameters: dict[str, int], builder: Builder, tmp_path: Path
) -> None:
    target = Target.parse("sm_80")
    variants = offers(problem, tmp_path, **parameters)
    call = variants.call(variants.space[0])
    job = BuildJob(
        problem_mlir(problem),
        (*target.compile_flags, *object_flags(call.instance.objects)),
        timeout=120,
        spec=spec_mlir([call]),
        spec_flag=SPEC_FLAG,
        kernels=kernel_calls([call]),
        figures="code",
    )
    build = builder.build(job)
    assert build.ok, build.stderr
    assert call.instance.objects[0].read_bytes() in build.vmfb.read_bytes()
    assert build.isa.threads == 384


PROBLEMS = [
    Gemm.parse(shape="1536x1536x2048", dtype="bf16", layout="nt"),
    Gemm.parse(shape="1024x5632x1024", out="f16", layout="nt", epilogue="rms=1e-5,silu,gated"),
    Gemm.parse(shape="512x512x512", batch=16, layout="tt", epilogue="bias,residual,gelu"),
    Gemm.parse(shape="384x512x32768", dtype="bf16", out="bf16", layout="nt", epilogue="bias,relu"),
    Gemm.parse(shape="384x512x32768", dtype="bf16", layout="nt"),
    Gemm.parse(shape="1x5120x5120"),
    Gemm.parse(shape="2008x2040x1976", layout="tn", epilogue="clip=0:6"),
    f8("2048x2048x2048", out="bf16", epilogue="bias"),
]


@needs_nvrtc
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_the_product_for_hopper_builds_and_iree_calls_it(problem: Gemm, tools: Tools, tmp_path: Path) -> None:
    """By what its manifest expects to be fastest; IREE compiles for an earlier chip."""
    variants = offers(problem, tmp_path)
    call = variants.call(variants.default())
    source, spec = tmp_path / "problem.mlir", tmp_path / "spec.mlir"
    source.write_text(problem_mlir(problem))
    spec.write_text(spec_mlir([call]))
    target = Target.parse("sm_89" if problem.dtype == "f8" else "sm_80")
    flags = [*target.compile_flags, *spec_flags(spec, [call.instance])]
    kernels = kernel_calls([call])
    assert prove(preprocess(tools, source, flags, timeout=120), kernels).reason(kernels, expected=[1]) == ""


@needs_nvrtc
@pytest.mark.long
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_what_a_search_begins_with_builds(problem: Gemm, tmp_path: Path) -> None:
    variants = offers(problem, tmp_path)
    for config in variants.leading():
        assert variants.call(config).instance.objects
