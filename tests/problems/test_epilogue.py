"""What is done with sums before they are stored: its words, its reference, its text, and how kernels are told."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.compiler import ir

from autotuner.errors import UsageError
from autotuner.iree.mlir import parse, walk
from autotuner.jobs.buckets import Family
from autotuner.microkernels.instance import search_folders, shipped_folder
from autotuner.microkernels.library import find
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import DoesNotFitError
from autotuner.patterns.forms import read_forms
from autotuner.problems import Gemm
from autotuner.problems.conv import Conv
from autotuner.problems.epilogue import Epilogue
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir

ALL = "bias,residual,clip=-0.5:6"


@pytest.mark.parametrize(
    "text",
    [
        *("", "bias", "relu", "bias,residual,relu", ALL, "clip=:6", "clip=0.1:", "bias,gelu", "silu,gated"),
    ],
)
def test_its_words_give_it_again(text: str) -> None:
    assert Epilogue.parse(text).text == text
    assert bool(Epilogue.parse(text)) == bool(text)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_limits_are_kept_to_the_last_bit(limit: float) -> None:
    epilogue = Epilogue.parse(f"clip={limit!r}:")
    assert Epilogue.parse(epilogue.text).low == limit
    assert struct.unpack("<f", struct.pack("<I", epilogue.numbers()["LOW_BITS"])) == (limit,)


@pytest.mark.parametrize(
    "text",
    [
        *("elu", "bias,bias", "relu,clip=0:6", "gelu,silu", "relu,silu", "clip=6:0", "clip=:", "clip=nan:1", "clip=1"),
        *(",", "gated", "relu,gated", "bias,silu,gated", "silu,gated,gated"),
    ],
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--epilogue"):
        Epilogue.parse(text)


def test_sums_that_are_no_floats_have_none() -> None:
    with pytest.raises(UsageError, match="sums in i32"):
        Gemm.parse(shape="4x4x4", dtype="i8", epilogue="relu")
    with pytest.raises(UsageError, match="--epilogue"):
        Family.parse(Gemm.parse(shape="4x4x4", epilogue="relu"), "4,any")


@pytest.mark.parametrize("layout", ["nhwc-hwcf", "nchw-fchw"])
def test_a_convolution_adds_a_bias_to_each_channel_then_the_residual_and_clips(layout: str) -> None:
    conv = Conv.parse(shape="2x3x4x5", filter="1x1x6", dtype="f32", layout=layout, epilogue=ALL)
    assert conv.operand_names == ("image", "weights", "bias", "residual", "out")
    image, weights, bias, residual = conv.inputs(0)
    plain = Conv.parse(shape="2x3x4x5", filter="1x1x6", dtype="f32", layout=layout).reference((image, weights))
    axes = (0, 1, 2, 3) if conv.channels_last else (0, 2, 3, 1)
    sums = plain.transpose(axes) + bias + residual.transpose(axes)
    assert np.allclose(conv.reference(conv.inputs(0)).transpose(axes), np.minimum(np.maximum(sums, -0.5), 6))
    assert conv.name.endswith("_bias_residual_clipm0p5to6")
    assert "--epilogue" in conv.arguments()


def test_gates_let_as_much_through_as_they_are_for() -> None:
    """Eight columns of gates, then eight that they are for."""
    gemm = Gemm.parse(shape="3x32x5", batch=2, dtype="f32", epilogue="silu,gated")
    inputs = gemm.inputs(0)
    sums = inputs[0].astype(float) @ inputs[1]
    gates = np.concatenate([sums[..., :8], sums[..., 16:24]], axis=-1)
    others = np.concatenate([sums[..., 8:16], sums[..., 24:]], axis=-1)
    reference = gemm.reference(inputs)
    assert reference.shape == gemm.output.shape == (2, 3, 16)
    assert np.allclose(reference, gates / (1 + np.exp(-gates)) * others)
    bound = gemm.bound(inputs, reference)
    limit = bound.worst_of(reference.size) * bound.deviation + bound.slack
    single = (gates / (1 + np.exp(-gates))).astype(np.float32) * others.astype(np.float32)
    assert (np.abs(single - reference) <= limit).all()
    assert (np.abs(gates * others - reference) > limit).any()
    assert (np.abs(single * 1.001 - reference) > limit).any()
    with pytest.raises(UsageError, match="24 columns have no gates"):
        Gemm.parse(shape="3x24x5", epilogue="silu,gated")
    with pytest.raises(UsageError, match="is for products"):
        Conv.parse(shape="1x4x4x2", filter="1x1x16", epilogue="silu,gated")


def test_what_is_added_to_a_rounded_product_has_its_narrow_type() -> None:
    gemm = Gemm.parse(shape="3x4x5", out="bf16", epilogue=ALL)
    assert [operand.text for operand in gemm.operands[2:]] == ["4xbf16", "3x4xbf16", "3x4xbf16"]
    text = problem_mlir(gemm)
    assert text.count("arith.extf") == 2
    assert text.index("arith.minimumf") < text.index("arith.truncf")
    with pytest.raises(DoesNotFitError, match="bias as f32, not f16"):
        # A kernel in C that writes f32 reads f32: it would read beyond the end.
        find("sgemm_c", search_folders(Path()), OPERATIONS).bind(
            Gemm.parse(shape="16x16x16", dtype="f32", out="f16", epilogue="bias"), "x86_64"
        )


def test_a_result_that_forgets_the_bias_is_beyond_the_bound() -> None:
    gemm = Gemm.parse(shape="8x8x16", dtype="f32", epilogue="bias,relu")
    inputs = gemm.inputs(0)
    reference = gemm.reference(inputs)
    bound = gemm.bound(inputs, reference)
    off = np.abs(np.maximum(inputs[0] @ inputs[1], 0) - reference)
    assert (off > bound.worst_of(off.size) * bound.deviation + bound.slack).any()
    right = np.abs(np.maximum(inputs[0] @ inputs[1] + inputs[2], 0) - reference)
    assert (right <= bound.worst_of(off.size) * bound.deviation + bound.slack).all()


@pytest.mark.parametrize(
    "problem",
    [
        Gemm.parse(shape="4x5x6", dtype="f32", epilogue=ALL),
        Gemm.parse(shape="4x5x6", out="f16", epilogue=ALL),
        Gemm.parse(shape="4x16x6", out="f16", epilogue="gelu,gated"),
        Conv.parse(shape="1x4x4x2", filter="3x3x4", pad="1x1", dtype="f32", epilogue=ALL),
        Conv.parse(shape="1x4x4x2", filter="3x3x4", dtype="f32", layout="nchw-fchw", epilogue="bias,relu"),
    ],
    ids=lambda problem: problem.name,
)
def test_its_text_is_one_operation_behind_the_main_one_and_takes_all_operands(problem: Gemm | Conv) -> None:
    with ir.Context() as context:
        module = parse(problem_mlir(problem), context)
        after = [op for op in walk(module.operation) if op.name == "linalg.generic"]
        assert len(after) == 1
    for match in read_forms(problem).matches:
        assert [type_ for _, type_ in match.arguments] == [operand.mlir for operand in problem.operands[:-1]]


SGEMM = shipped_folder() / "sgemm_c" / FILE


def test_a_kernel_is_bound_to_the_operands_that_the_problem_has(tmp_path: Path) -> None:
    (made := tmp_path / "made.o").touch()
    for epilogue, operands in (("bias,relu", [0, 1, 2, 3]), ("clip=0:6", [0, 1, 2])):
        problem = Gemm.parse(shape="4x20x6", dtype="f32", epilogue=epilogue)
        instance = load(SGEMM, OPERATIONS).bind(problem, "x86_64", objects=(made,), features=("avx2", "fma"))
        assert [binding.operand for binding in instance.bindings] == operands


def test_a_kernel_without_that_ending_does_not_fit() -> None:
    manifest = replace(load(SGEMM, OPERATIONS), epilogues=("bias", "clip"))
    with pytest.raises(DoesNotFitError, match="does not end with residual"):
        manifest.fit(Gemm.parse(shape="4x4x4", dtype="f32", epilogue="residual"), "x86_64")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('epilogues = ["bias", ', 'epilogues = ["gelu", ', "gelu"),
        ('operand = "bias"', 'operand = "shift"', "shift"),
        ('panelled = "n"', 'panelled = "m"', "panelled"),
        ('kind = "c"\nsource = "sgemm.c"', 'kind = "prebuilt"', "prebuilt"),
    ],
)
def test_a_manifest_that_says_it_wrongly_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    folder = shutil.copytree(SGEMM.parent, tmp_path / "mine")
    assert old in SGEMM.read_text()
    (folder / FILE).write_text(SGEMM.read_text().replace(old, new))
    with pytest.raises(UsageError, match=says):
        load(folder / FILE, OPERATIONS)
