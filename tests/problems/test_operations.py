"""What every operation promises: commands, workload files, manifests and names know no more of it than it says."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from autotuner.cli import operations as commands
from autotuner.errors import OutOfTimeError, UsageError
from autotuner.problems import Gemm, Operation
from autotuner.problems.attention import Attention
from autotuner.problems.conv import LAYOUTS as CONV_LAYOUTS
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.problems.gemm import LAYOUTS
from autotuner.problems.operations import OPERATIONS, problem_named
from autotuner.system import process
from tests.support.arguments import parse_arguments

PROBLEMS: list[Operation] = [
    *(Gemm.parse(shape="5x6x7", acc="f16", layout=layout, batch=b) for layout, b in itertools.product(LAYOUTS, (1, 3))),
    Gemm.parse(shape="5x6x7", batch=3, dtype="f32", layout="nt", epilogue="bias,clip=-1.5:6"),
    Gemm.parse(shape="5x6x7", dtype="bf16", out="bf16", epilogue="bias,residual,relu"),
    Gemm.parse(shape="5x16x7", out="f16", epilogue="silu,gated"),
    Gemm.parse(shape="5x6x7", dtype="i8"),
    Gemm.parse(shape="5x6x7", dtype="f8"),
    *(Gemm.parse(shape="5x128x128", dtype=dtype) for dtype in ("mxfp4", "mxfp8", "f8b128", "f8row", "bf8", "f8xbf8")),
    ConvNd.parse(shape="2x9x8x6", filter="3x3x4"),
    ConvNd.parse(shape="1x6x7x5x4", filter="2x3x3x8", direction="data", pad="1x0x1", stride="1x2x1", out="f16"),
    ConvNd.parse(shape="3x20x8", filter="3x4", direction="weight", groups=2, dilation="2", dtype="i8"),
    Conv.parse(shape="1x8x8x16", filter="3x3x32", groups=4, dtype="f32", stride="2x2", pad="1x1", dilation="2x1"),
    Conv.parse(shape="1x8x8x16", filter="3x3x32", layout="nchw-fchw", out="f16", epilogue="bias,relu"),
    *(Conv.parse(shape="2x7x8x4", filter="3x2x4", groups=4, dtype="bf16", layout=layout) for layout in CONV_LAYOUTS),
    Attention.parse(shape="2x8x256x512x64", dtype="f8"),
    Attention.parse(shape="1x2x3x4x5", causal=True),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_its_arguments_and_its_name_give_the_same_problem_again(problem: Operation) -> None:
    assert problem.arguments()[0] == problem.op
    assert parse_arguments(problem.arguments()) == problem
    assert problem_named(problem.name) == problem


def test_names_of_what_models_have_give_it_again() -> None:
    for more in ({"flat": True}, {"layout": "bshd"}, {"layout": "bs3hd"}):
        problem = replace(Attention.parse(shape="1x2x4x4x5", causal=True), **more)
        assert problem_named(problem.name) == problem


@pytest.mark.parametrize(
    "name",
    [
        *("", "gemm", "gemm_", "gemm_1x2x3", "gemm_axbxc_f32_f32_nn", "gemm_1x2x3_f32_f32_nn_cosh", "conv_x", "bert"),
        *("contraction_4x4", "gemm_1x2x3_f32_f32_nn_", "gemm_01x2x3_f32_f32_nn", "attention_1x2x3x4x5_f16_flat_causal"),
    ],
)
def test_what_is_no_problems_name_gives_none(name: str) -> None:
    assert problem_named(name) is None


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.op)
def test_its_command_takes_each_of_its_options(operation: type[Operation]) -> None:
    words = inspect.signature(commands.COMMANDS[operation.op]).parameters
    assert {"shape", *operation.options()} <= {*words}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.op)
def test_its_operands_have_a_letter_for_each_dimension(operation: type[Operation]) -> None:
    problem = operation.smallest()
    assert {*problem.operand_names} <= {*operation.letters}
    for name, operand in zip(problem.operand_names, problem.operands, strict=True):
        assert len(problem.dimensions(name)) == len(operand.shape)
        assert {*problem.dimensions(name)} <= {*operation.letters[name]}
        assert problem.permutation(name, problem.dimensions(name)) == tuple(range(len(operand.shape)))


def test_text_becomes_values_of_the_options_types() -> None:
    assert Gemm.from_words({"shape": "2x3x4", "batch": "5", "layout": "NT"}) == Gemm(2, 3, 4, batch=5, layout="nt")
    assert Attention.from_words({"shape": "1x2x3x4x5", "causal": "yes"}) == Attention(1, 2, 3, 4, 5, causal=True)
    with pytest.raises(UsageError, match="conv needs a filter"):
        Conv.from_words({"shape": "1x8x8x4"})
    with pytest.raises(UsageError, match="groups 'many' is not a positive whole number"):
        Conv.from_words({"shape": "1x8x8x4", "filter": "3x3x4", "groups": "many"})


@pytest.mark.parametrize(
    ("problem", "pieces"),
    [
        (Gemm.parse(shape="23x16x8", dtype="f32", batch=2, layout="tn"), [1, 2_000]),
        *(
            (Conv.parse(shape="2x7x8x4", filter="3x2x6", dtype="f32", **more), [1, 12_000, 60_000])
            for more in ({"stride": "2x1", "pad": "1x1"}, {"groups": 2})
        ),
        (Attention.parse(shape="2x3x5x7x4", dtype="f32", causal=True), [1, 9_000]),
    ],
    ids=["gemm", "strided", "grouped", "attention"],
)
def test_a_large_reference_is_computed_in_pieces_that_look_at_the_clock(
    problem: Gemm | Conv | Attention, pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = problem.inputs(1)
    whole = problem.reference(inputs)
    for piece in pieces:
        monkeypatch.setattr(f"autotuner.problems.{problem.op}.PIECE", piece)
        np.testing.assert_allclose(problem.reference(inputs), whole, rtol=1e-12, atol=1e-12)
    with process.until(0.0), pytest.raises(OutOfTimeError):
        problem.reference(inputs)


CONV = {"shape": "1x8x8x4", "filter": "3x3x8"}


@pytest.mark.parametrize(
    ("operation", "words", "says", "remedy"),
    [
        *(
            (Gemm, {"shape": shape}, says, "Give MxNxK, such as 512x512x512.")
            for shape, says in {
                "0x4x4": "M is '0', not a positive whole number",
                "1_0x2x3": "M is '1_0'",
                "1xx3": "N is ''",
                "2x٣x3": "N is '٣'",
            }.items()
        ),
        *((Gemm, {"shape": shape}, "is not MxNxK", "Give 3 sizes, such as 512x512x512.") for shape in ("", "4x4")),
        *(
            (Gemm, {"shape": shape}, "is larger than 1048576", "Give a smaller shape.")
            for shape in ("1x1x1048577", f"1x{'9' * 5000}x1")
        ),
        (Gemm, {"shape": "1048576x1048576x1048576"}, "GiB for its tensors", "The limit is 64 GiB"),
        *((Gemm, {"shape": "4x4x4", "batch": batch}, "--batch", "Give") for batch in (0, 1 << 21)),
        *(
            (Gemm, {"shape": "4x4x4", "dtype": dtype}, "unknown dtype", "Choose one of: f32, f16, bf16, i8, f8")
            for dtype in ("f64", "f33")
        ),
        *(
            (Gemm, {"shape": "4x4x4", "layout": layout}, "unknown layout", "Choose one of: nn, nt, tn, tt.")
            for layout in ("xy", "NN")
        ),
        *(
            (Gemm, {"shape": "4x4x4", "dtype": dtype, "acc": acc}, f"{dtype} does not accumulate in '{acc}'", remedy)
            for dtype, acc, remedy in (
                ("f32", "f16", "Choose --acc f32."),
                ("f16", "i32", "Choose --acc f32 or f16."),
                ("i8", "f32", "Choose --acc i32."),
            )
        ),
        (Conv, {"shape": "1x8x8"}, "is not NxHxWxC", "Give 4 sizes, such as 2x32x32x1280."),
        (Conv, {"filter": "3x3"}, "--filter '3x3' is not KHxKWxF", "Give 3 sizes, such as 3x3x1280."),
        (Conv, {"stride": "0x1"}, "--stride '0x1': SH is '0'", "Give SHxSW"),
        (Conv, {"dilation": "1"}, "--dilation '1' is not DHxDW", "Give 2 sizes"),
        (Conv, {"pad": "-1x0"}, "--pad '-1x0': PH is '-1', not a whole number", "Give PHxPW"),
        (Conv, {"groups": 3}, "--groups 3 does not divide 4 input and 8 output channels", "divides both"),
        (Conv, {"layout": "nhwc"}, "unknown layout 'nhwc'", "nhwc-hwcf, nchw-fchw"),
        (Conv, {"filter": "9x3x8"}, "9x3 filter .* is larger than the 8x8 image", "more padding"),
        (Conv, {"dtype": "i8", "out": "f16"}, "accumulated in i32 is not stored as 'f16'", "Choose --out i32."),
        (Attention, {"shape": "1x8x256x64"}, "is not BxHxSQxSKVxD", "Give 5 sizes"),
    ],
)
def test_what_cannot_be_one_is_refused_by_its_option(
    operation: type[Operation], words: Mapping[str, object], says: str, remedy: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        operation.parse(**{**(CONV if operation is Conv else {}), **words})
    assert remedy in caught.value.remedy
