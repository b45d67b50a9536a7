"""What is recognised in programs: each example says what it is; where something else is done, it no longer is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner.carriers.calls import preprocess
from autotuner.iree.mlir import parse
from autotuner.iree.tools import Tools
from autotuner.patterns import operations
from autotuner.patterns.forms import TAKERS, apply_script, sink_constants, taking
from autotuner.patterns.operations import PATTERNS, Pattern, read_joins, read_operations
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.system.templates import render
from autotuner.targets import Target
from tests.support.patterns import FOLDER, example, names, read

CPU = Target.parse("cpu").compile_flags
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.mlir"))
FOUND = "// found:"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_what_it_says(name: str) -> None:
    text = example(name)
    said = [line.removeprefix(FOUND).split() for line in text.splitlines() if line.startswith(FOUND)]
    assert names(text) == said


@pytest.mark.parametrize("name", EXAMPLES)
def test_constants_are_sunk_where_a_spec_puts_them(name: str) -> None:
    every = taking({name for names in TAKERS for name in names})
    script = render("microkernel_prepared.mlir.j2", pads=(), detach="", sink=every)
    texts = []
    for number in range(2):
        with ir.Context() as context:
            module = parse(example(name), context)
            apply_script(module, script) if number else sink_constants(module)
            texts.append(str(module))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: type(pattern).__name__)
def test_every_pattern_has_an_example(pattern: Pattern, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "PATTERNS", (pattern,))
    read_operations.cache_clear()
    assert any(operation.readings for name in EXAMPLES for operation in read(example(name)))
    read_operations.cache_clear()


X, LAYER = "%x: tensor<2x8x8xf16>", ["gemm_16x12x8_f16_f32_f16_nn_bias"]
GATE = ["gemm_16x32x8_f16_f32_f16_nn_silu", "gemm_16x32x8_f16_f32_f16_nn"]
GATING = """ins(%silu, %up : tensor<2x8x32xf16>, tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %other: f16, %out: f16):
    %value = arith.mulf"""
PLAIN, BARE = ["gemm_16x32x8_f16_f32_f16_nn"], ["attention_6x1x8x16x4_f16_flat"]
OTHERS = {
    "queries_keys_values": {
        "of other rows": [("ins(%x, %copies_v", "ins(%other, %copies_v"), (X, f"{X}, %other: tensor<2x8x8xf16>")],
        "one is a result, too": [
            ("return %tokens :", "return %tokens, %layer_k : tensor<2x8x3x4xf16>, tensor<2x8x12xf16> //"),
            ("tensor<2x8x3x4xf16> {", "(tensor<2x8x3x4xf16>, tensor<2x8x12xf16>) {"),
        ],
        "weights that are given": [
            (X, f"{X}, %weights_v: tensor<12x8xf16>"),
            ("  %weights_v = util.global.load @weights_v : tensor<12x8xf16>\n", ""),
        ],
    },
    "gate": {
        "of other rows": [("ins(%x, %copies_up", "ins(%y, %copies_up"), (X, f"{X}, %y: tensor<2x8x8xf16>")],
        "one is a result, too": [
            ("return %made :", "return %made, %up : tensor<2x8x32xf16>, tensor<2x8x32xf16> //"),
            ("-> tensor<2x8x32xf16> {\n  %one", "-> (tensor<2x8x32xf16>, tensor<2x8x32xf16>) {\n  %one"),
        ],
        "weights that are given": [
            (X, f"{X}, %weights_up: tensor<32x8xf16>"),
            ("  %weights_up = util.global.load @weights_up : tensor<32x8xf16>\n", ""),
        ],
        "a difference": [(GATING, GATING.replace("mulf", "subf"))],
    },
    "heads": {
        "nothing is moved": [("%v2 = tensor.collapse_shape %v1", "%v2 = tensor.collapse_shape %many")],
        "not as they are": [("linalg.yield %in", "%more = arith.addf %in, %in : f16\n    linalg.yield %more")],
        "two users": [
            ("-> tensor<2x8x12xf16> {", "-> (tensor<2x8x12xf16>, tensor<6x8x4xf16>) {"),
            ("return %out :", "return %out, %made : tensor<2x8x12xf16>, tensor<6x8x4xf16> //"),
        ],
    },
    "unfused": {
        "another scale": [("dense<0.70710678>", "dense<0.75>")],
        "a maximum that may be too large": [("0xFF800000 : f32", "0.0 : f32")],
        "no exponential": [("math.exp %in", "math.exp2 %in")],
        "no sum": [("arith.addf %in, %out", "arith.mulf %in, %out")],
        "weights over queries": [("ins(%p, %t :", "ins(%d, %t :")],
        "without a maximum": [("arith.subf %in, %less", "arith.addf %in, %less")],
    },
}
"""What is done in an example so that it is something else."""
LEFT = {
    "queries_keys_values": [LAYER, LAYER, LAYER, ["attention_2x3x8x8x4_f16_bshd"]],
    "gate": [GATE, PLAIN],
    "heads": [BARE],
    "unfused": [["gemm_6x8x16x4_f16_f32_f16_nn"], ["gemm_6x8x4x16_f16_f32_f16_nn"]],
}
"""What is still there: the largest of each operation, or one of these."""


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param(name, changes, id=f"{name}: {what}")
        for name, cases in OTHERS.items()
        for what, changes in cases.items()
    ],
)
def test_what_is_something_else_stays_as_it_is(name: str, changes: list[tuple[str, str]]) -> None:
    text = example(name, *changes)
    assert read_joins(text) == ()
    found = [problems[0] for problems in names(text)]
    assert len(found) == len(LEFT[name])
    assert all(one in left for one, left in zip(found, LEFT[name], strict=True)), found


def test_an_attention_of_heads_that_are_moved_elsewhere_is_one_of_flat_operands() -> None:
    expand = "tensor.expand_shape {} [[0, 1], [2], [3]] output_shape [2, 3, {}, 4] : tensor<6x{}x4xf16> into"
    q, k = expand.format("%q", 8, 8), expand.format("%k", 16, 16)
    text = example(
        "unfused",
        ("%q: tensor<2x8x3x4xf16>, %k: tensor<2x16x3x4xf16>", "%q: tensor<6x8x4xf16>, %k: tensor<6x16x4xf16>"),
        ("linalg.transpose ins(%q : tensor<2x8x3x4xf16>) outs(%e_q :", f"{q} tensor<2x3x8x4xf16> //"),
        ("%k1 = linalg.transpose ins(%k : tensor<2x16x3x4xf16>)", f"%k0 = {k} tensor<2x3x16x4xf16>\n  %k1 ="),
        ("%k1 = outs", "%k1 = linalg.transpose ins(%k0 : tensor<2x3x16x4xf16>) outs"),
        ("permutation = [0, 2, 3, 1]", "permutation = [0, 1, 3, 2]"),
    )
    assert [problems[0] for problems in names(text)] == ["gemm_6x8x16x4_f16_f32_f16_nn", BARE[0]]


def test_a_program_of_one_product_is_not_searched_for_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ResNet-50 has one, and the exponential of its softmax: to read it took four seconds more."""
    one = example("gate").replace("linalg.batch_matmul", "linalg.other", 1)
    monkeypatch.setattr(operations, "parse", None)
    assert read_joins(one) == ()


def found(program: str, tools: Tools, folder: Path) -> list[tuple[Problem, ...]]:
    path = folder / "program.mlir"
    path.write_text(program)
    return [op.problems for op in read_operations(preprocess(tools, path, CPU, timeout=60))]


FLAT = replace(Attention.parse(shape="6x1x8x16x4", dtype="f16"), flat=True)


@pytest.mark.parametrize(
    "problem",
    [
        Gemm.parse(shape="8x16x32", dtype="f16", layout="nt"),
        Gemm.parse(shape="8x16x32", dtype="i8", batch=3, layout="tn"),
        Conv.parse(shape="2x9x8x4", filter="1x3x8", dilation="1x2", dtype="f16", layout="nchw-fchw"),
        Conv.parse(shape="1x8x8x4", filter="3x3x4", groups=4, dtype="f32"),
        Conv.parse(shape="1x8x8x4", filter="3x3x8", groups=2, dtype="f32", layout="nchw-fchw"),
        Conv.parse(shape="1x8x8x4", filter="3x3x8", groups=2, dtype="f32"),
        Attention.parse(shape="1x2x8x16x4", dtype="f16"),
        Attention.parse(shape="1x2x8x16x4", dtype="f32", causal=True),
        FLAT,
    ],
    ids=lambda problem: problem.name,
)
def test_a_problem_is_found_in_its_own_program(problem: Problem, tools: Tools, tmp_path: Path) -> None:
    assert found(problem_mlir(problem), tools, tmp_path) == [(problem,)]


def test_a_padded_convolution_can_be_taken_with_its_padding_and_without(tools: Tools, tmp_path: Path) -> None:
    padded = Conv.parse(shape="2x8x8x4", filter="3x3x8", pad="1x1", stride="2x2", dtype="f32")
    bare = Conv.parse(shape="2x10x10x4", filter="3x3x8", stride="2x2", dtype="f32")
    assert found(problem_mlir(padded), tools, tmp_path) == [(padded, bare)]


def test_an_attention_is_known_whatever_type_its_scale_has(tools: Tools, tmp_path: Path) -> None:
    """Torch has heads and batch in one dimension and the scale in f32. Another scale is another problem."""
    wide = problem_mlir(FLAT).replace("arith.constant 0.5 : f16", "arith.constant 0.5 : f32")
    wide = wide.replace("tensor<6x16x4xf16>, f16,", "tensor<6x16x4xf16>, f32,")
    assert found(wide, tools, tmp_path) == [(FLAT,)]
    assert found(wide.replace("constant 0.5", "constant 0.25"), tools, tmp_path) == [()]


def test_what_no_problem_has_is_listed_without_one(tools: Tools, tmp_path: Path) -> None:
    """A product whose sizes are not known."""
    dynamic = problem_mlir(Gemm.parse(shape="8x16x32", dtype="f32")).replace("tensor<8x", "tensor<?x")
    dynamic = dynamic.replace("tensor.empty()", "tensor.empty(%m)").replace(
        "%zero =", "%c0 = arith.constant 0 : index\n  %m = tensor.dim %lhs, %c0 : tensor<?x32xf32>\n  %zero ="
    )
    assert found(dynamic, tools, tmp_path) == [()]


def test_two_operations_that_differ_only_in_elided_weights_stay_two() -> None:
    first, second = read(example("twins"))
    assert first == second
    assert "number" not in str(first.readings[0].forms)


def test_a_form_is_the_programs_own_where_the_template_has_another() -> None:
    (scores,) = read(example("scores"))
    assert scores.readings[0].forms is not None
    started = dict(zip(example("epilogues").split("func.func @")[1:], read(example("epilogues")), strict=True))
    (reading,) = next(one for text, one in started.items() if text.startswith("a_product_that_starts")).readings
    assert reading.forms is None, "a product that starts from sixes is none with a form of its own"


def test_a_grouped_convolution_is_one_problem_with_the_bias_that_it_starts_from() -> None:
    (operation,) = read(example("grouped"))
    (reading,) = operation.readings
    assert reading.constant
    assert reading.forms is not None
    (match,) = reading.forms.matches
    assert match.types == ("tensor<1x8x9x9xf32>", "tensor<2x3x4x3x3xf32>", "tensor<6xf32>")
    assert (match.function, match.result[1]) == ("flat", "tensor<1x6x7x7xf32>")
    text = example("grouped", ("%bias: tensor<6xf32>", "%b: tensor<1x6x7x7xf32>"))
    residual = "\n".join(line for line in text.splitlines() if "linalg.broadcast" not in line)
    (operation,) = read_operations(residual)
    assert [one.forms for one in operation.readings] == [None], "nothing takes a residual that it starts from"


def test_inputs_come_in_the_order_of_the_problems_operands() -> None:
    """The program adds the residual first, and the sum's operands are the other way round."""
    reading = read(example("epilogues"))[-1].readings[0]
    assert reading.problem.name.endswith("_bias_residual")
    assert reading.forms is not None
    (match,) = reading.forms.matches
    assert list(match.types) == [operand.mlir for operand in reading.problem.operands[:-1]]


def test_a_convolution_that_starts_from_its_bias_has_it_as_an_epilogue() -> None:
    (operation,) = read(example("convolution_from_bias"))
    reading = operation.readings[0]
    assert reading.constant
    assert reading.forms is not None
    assert reading.forms.detached
    assert len(reading.forms.pads) == 1
