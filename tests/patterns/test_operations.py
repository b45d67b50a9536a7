"""The problems that are found in real programs, as the compiler has them after preprocessing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner import Gemm, Problem
from autotuner.carriers.adapters import adapters
from autotuner.carriers.calls import preprocess
from autotuner.iree.tools import Tools
from autotuner.patterns.operations import read_operations
from autotuner.problems import Attention, Conv
from autotuner.problems.render import problem_mlir
from tests.jobs.ab.conftest import CPU


def found(program: str, tools: Tools, folder: Path) -> list[tuple[Problem, ...]]:
    path = folder / "program.mlir"
    path.write_text(program)
    return [op.problems for op in read_operations(preprocess(tools, path, CPU.compile_flags, timeout=60))]


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
        replace(Attention.parse(shape="6x1x8x16x4", dtype="f16"), flat=True),
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
    flat = replace(Attention.parse(shape="6x1x8x16x4", dtype="f16"), flat=True)
    wide = problem_mlir(flat).replace("arith.constant 0.5 : f16", "arith.constant 0.5 : f32")
    wide = wide.replace("tensor<6x16x4xf16>, f16,", "tensor<6x16x4xf16>, f32,")
    assert found(wide, tools, tmp_path) == [(flat,)]
    assert found(wide.replace("constant 0.5", "constant 0.25"), tools, tmp_path) == [()]


def test_what_no_problem_has_is_listed_without_one(tools: Tools, tmp_path: Path) -> None:
    """A product whose sizes are not known."""
    dynamic = problem_mlir(Gemm.parse(shape="8x16x32", dtype="f32")).replace("tensor<8x", "tensor<?x")
    dynamic = dynamic.replace("tensor.empty()", "tensor.empty(%m)").replace(
        "%zero =", "%c0 = arith.constant 0 : index\n  %m = tensor.dim %lhs, %c0 : tensor<?x32xf32>\n  %zero ="
    )
    assert found(dynamic, tools, tmp_path) == [()]


TWINS = """
util.func public @main(%a: tensor<8x32xf32>, %v: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %one = arith.constant dense_resource<__elided__> : tensor<32x16xf32>
  %two = arith.constant dense_resource<__elided__> : tensor<32x16xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %b = linalg.broadcast ins(%v : tensor<16xf32>) outs(%e : tensor<8x16xf32>) dimensions = [0]
  %p = linalg.matmul ins(%a, %one : tensor<8x32xf32>, tensor<32x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  %q = linalg.matmul ins(%a, %two : tensor<8x32xf32>, tensor<32x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  util.return %p, %q : tensor<8x16xf32>, tensor<8x16xf32>
}
"""


def test_two_operations_that_differ_only_in_elided_weights_stay_two() -> None:
    """The branches of an inception block: an image, and two filters of one size."""
    first, second = read_operations(TWINS)
    assert first == second
    assert [reading.problem.name for reading in first.readings] == [
        "gemm_8x16x32_f32_f32_nn_bias",
        "gemm_8x16x32_f32_f32_nn",
    ]
    assert "number" not in str(first.readings[0].forms)


SCORES = """
util.func public @main(%q: tensor<2x8x4xf32>, %k: tensor<2x16x4xf32>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %s = linalg.generic {
    indexing_maps = [affine_map<(b, m, k, n) -> (b, m, k)>, affine_map<(b, m, k, n) -> (b, n, k)>,
                     affine_map<(b, m, k, n) -> (b, m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "parallel"]
  } ins(%q, %k : tensor<2x8x4xf32>, tensor<2x16x4xf32>) outs(%f : tensor<2x8x16xf32>) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %xy = arith.mulf %x, %y : f32
    %next = arith.addf %xy, %sum : f32
    linalg.yield %next : f32
  } -> tensor<2x8x16xf32>
  util.return %s : tensor<2x8x16xf32>
}
"""


def test_a_product_is_known_whatever_the_order_of_its_loops() -> None:
    """Queries times keys, as IREE decomposes an attention: no kernel was found for them."""
    (scores,) = read_operations(SCORES)
    assert scores.problems == (Gemm.parse(shape="8x16x4", dtype="f32", batch=2, layout="nt"),)
    assert scores.readings[0].forms is not None, "it is matched as the program has it"


GROUPED = """
util.func public @main(%x: tensor<1x8x9x9xf32>, %bias: tensor<6xf32>) -> tensor<1x6x7x7xf32> {
  %weights = arith.constant dense_resource<__elided__> : tensor<2x3x4x3x3xf32>
  %e = tensor.empty() : tensor<1x6x7x7xf32>
  %b = linalg.broadcast ins(%bias : tensor<6xf32>) outs(%e : tensor<1x6x7x7xf32>) dimensions = [0, 2, 3]
  %image = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [1, 2, 4, 9, 9]
    : tensor<1x8x9x9xf32> into tensor<1x2x4x9x9xf32>
  %start = tensor.expand_shape %b [[0], [1, 2], [3], [4]] output_shape [1, 2, 3, 7, 7]
    : tensor<1x6x7x7xf32> into tensor<1x2x3x7x7xf32>
  %sums = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%image, %weights : tensor<1x2x4x9x9xf32>, tensor<2x3x4x3x3xf32>)
    outs(%start : tensor<1x2x3x7x7xf32>) -> tensor<1x2x3x7x7xf32>
  %joined = tensor.collapse_shape %sums [[0], [1, 2], [3], [4]] : tensor<1x2x3x7x7xf32> into tensor<1x6x7x7xf32>
  util.return %joined : tensor<1x6x7x7xf32>
}
"""
"""As an importer of ONNX leaves it: weights are split already, and sums start from a bias."""


def test_a_grouped_convolution_is_one_problem_with_the_bias_that_it_starts_from() -> None:
    (operation,) = read_operations(GROUPED)
    (reading,) = operation.readings
    grouped = Conv.parse(shape="1x9x9x8", filter="3x3x6", groups=2, dtype="f32", layout="nchw-fchw", epilogue="bias")
    assert (reading.problem, reading.constant) == (grouped, True)
    assert reading.forms is not None
    (merging,) = adapters(grouped, reading.forms)
    assert merging.arguments == ("tensor<1x8x9x9xf32>", "tensor<2x3x4x3x3xf32>", "tensor<6xf32>")
    assert (merging.merged, merging.result) == ("[[0, 1], [2], [3], [4]]", "tensor<1x6x7x7xf32>")


def test_a_grouped_convolution_that_starts_from_something_else_is_none() -> None:
    """A residual, say: nothing takes it from there."""
    residual = GROUPED.replace("%bias: tensor<6xf32>", "%b: tensor<1x6x7x7xf32>")
    residual = "\n".join(line for line in residual.splitlines() if "linalg.broadcast" not in line)
    (operation,) = read_operations(residual)
    assert [reading.forms for reading in operation.readings] == [None]
