"""A gate and what it is for as one product: what is joined, what is not, and that the numbers stay as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import spec_mlir
from autotuner.iree.tools import Tools
from autotuner.patterns import operations
from autotuner.patterns.operations import forms_of, read_joins
from autotuner.problems import Gemm
from autotuner.targets import Target
from tests.support.joined import hold_same_results, kernel_call, numbers, problems, read
from tests.support.kernels import spec_flags

FLAGS = Target.parse("gfx942").compile_flags
GATED = Gemm.parse(shape="16x64x8", out="f16", epilogue="silu,gated")
GATE = replace(GATED, n=32, epilogue=replace(GATED.epilogue, gated=False))

_MAP = "affine_map<(i, j, k) -> (i, j, k)>"
_EACH = 'iterator_types = ["parallel", "parallel", "parallel"]'
_LAYER = """\
  %weights_NAME = util.global.load @weights_NAME : tensor<32x8xf16>
  %turned_NAME = linalg.transpose ins(%weights_NAME : tensor<32x8xf16>) outs(%e832 : tensor<8x32xf16>)
      permutation = [1, 0]
  %copies_NAME = linalg.broadcast ins(%turned_NAME : tensor<8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>)
      dimensions = [0]
  %product_NAME = linalg.batch_matmul ins(%x, %copies_NAME : tensor<2x8x8xf16>, tensor<2x8x32xf16>)
      outs(%zeros : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %NAME = linalg.generic {indexing_maps = [MAP, MAP], EACH}
      ins(%product_NAME : tensor<2x8x32xf32>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x32xf16>
"""
_ENDS = """\
  %bent = linalg.generic {indexing_maps = [MAP, MAP], EACH}
      ins(%gate : tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %out: f16):
    %negative = arith.negf %in : f16
    %power = math.exp %negative : f16
    %more = arith.addf %power, %one : f16
    %share = arith.divf %one, %more : f16
    linalg.yield %share : f16
  } -> tensor<2x8x32xf16>
  %silu = linalg.generic {indexing_maps = [MAP, MAP, MAP], EACH}
      ins(%bent, %gate : tensor<2x8x32xf16>, tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %other: f16, %out: f16):
    %value = arith.mulf %in, %other : f16
    linalg.yield %value : f16
  } -> tensor<2x8x32xf16>
  %made = linalg.generic {indexing_maps = [MAP, MAP, MAP], EACH}
      ins(%silu, %up : tensor<2x8x32xf16>, tensor<2x8x32xf16>) outs(%e2832 : tensor<2x8x32xf16>) {
  ^bb0(%in: f16, %other: f16, %out: f16):
    %value = arith.mulf %in, %other : f16
    linalg.yield %value : f16
  } -> tensor<2x8x32xf16>
"""


def program() -> str:
    """As torch exports it: silu(gate(x)) * up(x)."""
    weights = "".join(
        f"util.global private @weights_{name} = dense<{numbers(32, 8, seed=seed)}> : tensor<32x8xf16>\n"
        for seed, name in enumerate(("gate", "up"))
    )
    start = (
        "func.func @main(%x: tensor<2x8x8xf16>) -> tensor<2x8x32xf16> {\n"
        "  %one = arith.constant 1.0 : f16\n"
        "  %nothing = arith.constant 0.0 : f32\n  %sums = tensor.empty() : tensor<2x8x32xf32>\n"
        "  %e832 = tensor.empty() : tensor<8x32xf16>\n  %e2832 = tensor.empty() : tensor<2x8x32xf16>\n"
        "  %zeros = linalg.fill ins(%nothing : f32) outs(%sums : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>\n"
    )
    body = "".join(_LAYER.replace("NAME", name) for name in ("gate", "up")) + _ENDS
    body = body.replace("MAP", _MAP).replace("EACH", _EACH)
    return f"{weights}{start}{body}  return %made : tensor<2x8x32xf16>\n}}\n"


def test_a_gate_and_what_it_is_for_are_one_product() -> None:
    assert problems(program()) == [GATED]


@pytest.mark.parametrize(
    "text",
    [
        program().replace("linalg.batch_matmul ins(%x, %copies_up", "linalg.batch_matmul ins(%y, %copies_up").replace(
            "%x: tensor<2x8x8xf16>", "%x: tensor<2x8x8xf16>, %y: tensor<2x8x8xf16>"
        ),
        program().replace("return %made", "return %made, %up").replace(
            "-> tensor<2x8x32xf16> {\n  %one", "-> (tensor<2x8x32xf16>, tensor<2x8x32xf16>) {\n  %one"
        ).replace("%up : tensor<2x8x32xf16>\n}", "%up : tensor<2x8x32xf16>, tensor<2x8x32xf16>\n}"),
        program().replace("%x: tensor<2x8x8xf16>", "%x: tensor<2x8x8xf16>, %weights_up: tensor<32x8xf16>").replace(
            "  %weights_up = util.global.load @weights_up : tensor<32x8xf16>\n", ""
        ),
        "arith.subf".join(program().rsplit("arith.mulf", 1)),
    ],
    ids=["of other rows", "one is a result, too", "weights that are given", "a difference"],
)  # fmt: skip
def test_other_layers_stay_as_they_are(text: str) -> None:
    assert read_joins(text) == ()
    found = problems(text)
    assert [problem.types for problem in found] == [("f16", "f32")] * 2
    assert GATE in found


def test_a_program_of_one_product_is_not_searched_for_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ResNet-50 has one, and the exponential of its softmax: to read it took four seconds more."""
    one = program().replace("linalg.batch_matmul", "linalg.other", 1)
    monkeypatch.setattr(operations, "parse", None)
    assert read_joins(one) == ()


def test_a_spec_joins_them_and_calls_its_kernel(tools: Tools, tmp_path: Path) -> None:
    (file := tmp_path / "program.mlir").write_text(program())
    (operation,) = read(preprocess(tools, file, FLAGS, timeout=120))
    assert operation.problems[0] == GATED
    calls = [kernel_call(GATED)]
    (spec := tmp_path / "spec.mlir").write_text(spec_mlir(calls, forms=[forms_of(operation.readings[:1])]))
    text = preprocess(tools, file, [*FLAGS, *spec_flags(spec, [calls[0].instance])], timeout=120)
    assert prove(text, kernel_calls(calls)).found == (1,)
    assert "matmul" not in text
    assert "math.exp" not in text


def test_a_joined_program_computes_the_same(tools: Tools, tmp_path: Path) -> None:
    hold_same_results(tools, program(), tmp_path)
