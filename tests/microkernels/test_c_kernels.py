"""The shipped kernels in C: right for every form of their problems, without IREE; and what a compiler makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner.build import Builder
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.devices.process import ProcessDevice
from autotuner.errors import ToolMissingError
from autotuner.iree.compile import Compile, inspect
from autotuner.iree.processor import executable_target
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.library import find
from autotuner.microkernels.providers.c import find_compiler
from autotuner.microkernels.variants import Variants
from autotuner.problems import Array, Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.epilogue import ACTIVATIONS
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.targets import Target
from tests.support.kernels import job_of
from tests.support.native import AVX512, HOST, flags_of, host_features, result_of, wrong

FOLDERS = [shipped_folder()]
CONV, SGEMM, SGEMV = (find(name, FOLDERS, OPERATIONS) for name in ("conv_c", "sgemm_c", "sgemv_c"))
LAST, FIRST = "nhwc-hwcf", "nchw-fchw"
ALL, HARD = "bias,residual,clip=-0.5:1.5", "bias,hardswish"
Setting = dict[str, int]


def conv(layout: str, **words: Any) -> Conv:
    return Conv.parse(dtype="f32", layout=layout, **words)


CONVOLUTIONS: dict[str, tuple[Conv, Setting]] = {
    "padded, with all behind it": (conv(LAST, shape="2x9x7x5", filter="3x3x19", pad="1x1", epilogue=ALL), {}),
    "strided, dilated, uneven": (
        conv(LAST, shape="1x11x12x8", filter="3x2x6", dilation="2x3", stride="3x2", pad="1x2", epilogue=HARD),
        {},
    ),
    "weights as they are": (conv(LAST, shape="1x6x8x24", filter="1x1x128", epilogue="relu"), {"packed": 0}),
    "more channels than the buffer takes": (conv(LAST, shape="1x14x14x200", filter="3x3x33", pad="1x1"), {}),
    "depthwise": (conv(LAST, shape="2x9x9x20", filter="5x5x20", pad="2x2", stride="2x2", groups=20, epilogue=ALL), {}),
    "first: padded, with all behind it": (
        conv(FIRST, shape="2x9x7x5", filter="3x3x19", pad="1x1", epilogue=ALL),
        {},
    ),
    "first: filters in the lanes": (
        conv(FIRST, shape="1x11x12x8", filter="3x2x6", dilation="2x3", stride="3x2", pad="1x2", epilogue=ALL),
        {"across": 2},
    ),
    "first: small, filters in the lanes by itself": (conv(FIRST, shape="1x7x7x200", filter="3x3x40", pad="1x1"), {}),
    "first: rows of seven, strided": (
        conv(FIRST, shape="2x14x14x60", filter="3x3x60", pad="1x1", stride="2x2", epilogue=ALL),
        {},
    ),
    "first: one by one, tiles": (
        conv(FIRST, shape="1x14x15x32", filter="1x1x40"),
        {"pixels_of_tile": 64, "filters_of_tile": 32},
    ),
    "first: rows that vectors go across, in more than one step": (
        conv(FIRST, shape="1x13x13x48", filter="3x3x20", pad="1x1", epilogue="bias,relu"),
        {},
    ),
    "first: all pixels in four vectors": (conv(FIRST, shape="1x7x7x130", filter="1x1x20", epilogue=ALL), {}),
    "first: steps wider than filters": (conv(FIRST, shape="1x17x19x6", filter="2x2x9", stride="3x4", pad="0x1"), {}),
    "first: one by one, strided, grouped, rows beside each other": (
        conv(FIRST, shape="2x31x27x12", filter="1x1x20", stride="3x2", groups=2, epilogue=ALL),
        {},
    ),
    "first: depthwise, other strides and dilations": (
        conv(
            FIRST,
            shape="1x11x14x10",
            filter="3x3x10",
            pad="2x1",
            stride="3x1",
            dilation="2x1",
            groups=10,
            epilogue=HARD,
        ),
        {},
    ),
    "first: grouped": (conv(FIRST, shape="2x7x9x16", filter="3x3x32", pad="1x1", groups=4, epilogue="bias,silu"), {}),
}


WIDE_HERE = {*AVX512} <= {*host_features()}


@pytest.mark.parametrize("emulated", [False, *([] if WIDE_HERE else [True])], ids=lambda it: "sixteen lanes" * it)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_right(name: str, emulated: bool, tmp_path: Path) -> None:
    """By what this processor has, and the code for AVX-512, on any; where it has that, both are the same."""
    problem, setting = CONVOLUTIONS[name]
    inputs, features = problem.inputs(3), () if emulated else host_features()
    for narrower in {features, NARROW, ()} if "with all behind it" in name and not emulated else {features}:
        found = result_of(CONV, problem, inputs, tmp_path, parameters=setting, features=narrower, emulated=emulated)
        assert not wrong(problem, inputs, found)


NARROW = () if HOST != "x86_64" else ("avx2", "fma")


PRODUCTS: dict[str, tuple[Gemm, Setting]] = {
    "nn, with all behind it": (Gemm.parse(shape="100x333x77", dtype="f32", epilogue=ALL), {}),
    "nt, batched": (
        Gemm.parse(shape="33x70x5", batch=3, dtype="f32", layout="nt", epilogue="bias,residual,gelu"),
        {"mr": 14, "vectors": 1},
    ),
    "tt": (Gemm.parse(shape="7x129x140", dtype="f32", layout="tt"), {"mr": 12, "nc": 128}),
    "packed": (Gemm.parse(shape="50x129x140", batch=2, dtype="f32", epilogue="bias,relu"), {"packed": 1, "nc": 128}),
    "one element": (Gemm.parse(shape="1x1x1", dtype="f32"), {}),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_right(name: str, tmp_path: Path) -> None:
    problem, setting = PRODUCTS[name]
    inputs = problem.inputs(3)
    for features in {host_features(), NARROW, ()} if name == "packed" else {host_features()}:
        found = result_of(SGEMM, problem, inputs, tmp_path, parameters=setting, features=features)
        assert not wrong(problem, inputs, found)


WIDE = np.concatenate(
    [
        np.linspace(-100, 100, 4003),
        np.linspace(-7, 7, 4001),
        *(sign * np.logspace(-45, 38, 700) for sign in (1, -1)),
        [0.0, -0.0, 88.72, 88.73, -88.72, -88.73, np.inf, -np.inf, np.nan],
    ]
).astype(np.float32)
"""Numbers of all sizes, the smallest of all and those that are none."""


def assert_activated(found: Array, name: str, features: object = None) -> None:
    """It is what the activation makes of WIDE, wherever that is a number."""
    activation = ACTIVATIONS[name]
    with np.errstate(all="ignore"):
        wanted = activation.function(WIDE.astype(np.float64))
    assert np.array_equal(np.isnan(found), np.isnan(wanted)), features
    sure = np.isfinite(wanted) & (np.abs(wanted) < np.finfo(np.float32).max)
    limit = activation.slack(WIDE[sure].astype(np.float64)) / 4 + 2.0**-126
    assert np.all(np.abs(found[sure] - wanted[sure]) <= limit), features
    ends = np.isinf(WIDE) & ~np.isnan(wanted)
    assert np.array_equal(found[ends], wanted[ends]), features


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_right_for_all_numbers(name: str, tmp_path: Path) -> None:
    """A product of one row with the number 1: nothing but the activation rounds."""
    problem = Gemm.parse(shape=f"1x{WIDE.size}x1", dtype="f32", epilogue=name)
    inputs = (np.ones((1, 1), np.float32), WIDE[None])
    for features in {host_features(), ()} if name in ("gelu", "silu") else {host_features()}:
        assert_activated(result_of(SGEMM, problem, inputs, tmp_path, features=features)[0], name, features)


@pytest.mark.parametrize(
    ("shape", "batch", "layout", "epilogue"),
    [
        ("1x300x70", 1, "nn", ALL),
        ("1x9x71", 2, "nt", "bias,importedgelu"),
        ("300x1x70", 1, "nn", ALL),
        ("9x1x71", 2, "tt", ALL),
    ],
)
def test_a_matrix_times_a_vector_is_right(shape: str, batch: int, layout: str, epilogue: str, tmp_path: Path) -> None:
    problem = Gemm.parse(shape=shape, batch=batch, dtype="f32", layout=layout, epilogue=epilogue)
    inputs = problem.inputs(3)
    assert not wrong(problem, inputs, result_of(SGEMV, problem, inputs, tmp_path, features=host_features()))


# --- What a compiler makes of them for aarch64 ----------------------------------------------------------------------


def hottest_loop(assembly: str) -> list[str]:
    """The instructions of the loop with the most products among them."""
    lines = [line.strip() for line in assembly.splitlines()]
    labels = {line[:-1]: number for number, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    loops = []
    for number, line in enumerate(lines):
        branch = re.match(r"(?:b\.?\w*|cbn?z|tbn?z)\s.*?(\.L\w+)$", line)
        if branch and labels.get(branch[1], number) < number:
            body = [x for x in lines[labels[branch[1]] : number + 1] if x and not x.startswith((".", "//"))]
            loops.append((sum(x.startswith("fmla") for x in body) / len(body), body))
    return max(loops)[1]


INNER: dict[str, tuple[Problem, Mapping[str, int]]] = {
    "sgemm_c": (Gemm.parse(shape="512x512x1024", dtype="f32"), {}),
    "sgemm_c, wider": (Gemm.parse(shape="512x512x1024", dtype="f32"), {"vectors": 3}),
    "conv_c, channels last": (conv(LAST, shape="1x56x56x64", filter="3x3x64", pad="1x1"), {}),
    "conv_c, channels first": (conv(FIRST, shape="1x56x56x64", filter="3x3x64", pad="1x1"), {}),
}


@pytest.mark.parametrize("name", INNER)
def test_on_aarch64_lanes_are_multiplied_and_nothing_is_broadcast_or_spilled(name: str, tmp_path: Path) -> None:
    try:
        compiler = find_compiler("aarch64")
    except ToolMissingError as missing:
        pytest.skip(f"{missing.message} {missing.remedy}")
    problem, setting = INNER[name]
    manifest = find(name.partition(",")[0], FOLDERS, OPERATIONS)
    flags = flags_of(manifest, problem, "aarch64", parameters=setting)
    assembly = tmp_path / "kernel.s"
    done = process.run([compiler.path, *flags, "-S", str(manifest.provider.source), "-o", assembly], timeout=120)
    assert done.ok, done.why()
    loop = hottest_loop(assembly.read_text())
    products = [line for line in loop if line.startswith("fmla")]
    assert products
    assert all(re.search(r"\.s\[\d\]$", line) for line in products)
    others = [line for line in loop if re.match(r"dup|ld1r|st[rpu]|mov\s+v|fm(ul|add)", line)]
    assert others == []
    assert len(products) / len(loop) >= 0.6


# --- Inside of IREE -------------------------------------------------------------------------------------------------


def test_constant_weights_are_packed_at_compile_time_and_the_call_is_right(
    builder: Builder, tools: Tools, tmp_path: Path
) -> None:
    problem = conv(FIRST, shape="1x14x14x16", filter="3x3x40", pad="1x1", epilogue="bias,relu")
    flags = Target.parse("cpu").compile_flags
    made_for = executable_target(builder.inspect(problem_mlir(problem), flags, timeout=120))
    variants = Variants.of(CONV, problem, HOST, workspace=tmp_path, executable_target=made_for)
    call = variants.call(variants.default())

    # With its operands as arguments the program packs, and computes the same.
    job = job_of(call, flags, made_for)
    build = builder.build(job)
    assert build.ok, build.stderr
    data = Data.write(problem, tmp_path / "data", seed=3)
    checked = Checker(ProcessDevice(tools, "local-task", data.folder), data, timeout=120).check(build.vmfb)
    assert checked.ok, checked.detail

    # With constant weights nothing of the packing is left in the program.
    (tmp_path / "spec.mlir").write_text(job.spec or "")
    weights = problem.operands[1].mlir
    values = f'"0x{problem.inputs(3)[1].tobytes().hex()}"'
    text = problem_mlir(problem).replace(f"%weights: {weights}, ", "", 1)
    text = text.replace(" {\n", f" {{\n  %weights = arith.constant dense<{values}> : {weights}\n", 1)
    job_flags = (*job.flags, f"{SPEC_FLAG}={tmp_path / 'spec.mlir'}")
    flow = inspect(Compile(text, job_flags, 120, stop="flow"), tools).text
    packed = call.instance.bindings[1].tensor.text
    assert f"__hoisted_tensor_{packed}" in flow
    assert flow.count(" = flow.dispatch ") == 1
