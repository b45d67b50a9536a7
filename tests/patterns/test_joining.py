"""Queries, keys and values as one product: what is joined, what is not, and that the numbers stay as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import spec_mlir
from autotuner.iree.tools import Tools
from autotuner.patterns.operations import forms_of
from autotuner.problems import Attention, Gemm
from autotuner.targets import Target
from tests.support.joined import hold_same_results, kernel_call, numbers, problems, read
from tests.support.kernels import spec_flags

FLAGS = Target.parse("gfx942").compile_flags
PRODUCT = Gemm.parse(shape="16x36x8", out="f16", epilogue="bias")
PACKED = replace(Attention.parse(shape="2x3x8x8x4"), layout="bs3hd")
MOVED = replace(PACKED, layout="bshd")

_MAPS = "affine_map<(i, j, k) -> (i, j, k)>"
_LAYER = """\
  %weights_NAME = util.global.load @weights_NAME : tensor<12x8xf16>
  %turned_NAME = linalg.transpose ins(%weights_NAME : tensor<12x8xf16>) outs(%e812 : tensor<8x12xf16>)
      permutation = [1, 0]
  %copies_NAME = linalg.broadcast ins(%turned_NAME : tensor<8x12xf16>) outs(%e2812 : tensor<2x8x12xf16>)
      dimensions = [0]
  %product_NAME = linalg.batch_matmul ins(%x, %copies_NAME : tensor<2x8x8xf16>, tensor<2x8x12xf16>)
      outs(%zeros : tensor<2x8x12xf32>) -> tensor<2x8x12xf32>
  %rounded_NAME = linalg.generic {indexing_maps = [MAP, MAP], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%product_NAME : tensor<2x8x12xf32>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f32, %out: f16):
    %narrow = arith.truncf %in : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<2x8x12xf16>
  %layer_NAME = linalg.generic {
      indexing_maps = [MAP, affine_map<(i, j, k) -> (k)>, MAP], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%rounded_NAME, %bias_NAME : tensor<2x8x12xf16>, tensor<12xf16>) outs(%e2812 : tensor<2x8x12xf16>) {
  ^bb0(%in: f16, %bias: f16, %out: f16):
    %sum = arith.addf %in, %bias : f16
    linalg.yield %sum : f16
  } -> tensor<2x8x12xf16>
  %split_NAME = tensor.expand_shape %layer_NAME [[0], [1], [2, 3]] output_shape [2, 8, 3, 4]
      : tensor<2x8x12xf16> into tensor<2x8x3x4xf16>
  %NAME4 = linalg.transpose ins(%split_NAME : tensor<2x8x3x4xf16>) outs(%e2384 : tensor<2x3x8x4xf16>)
      permutation = [0, 2, 1, 3]
  %NAME = tensor.collapse_shape %NAME4 [[0, 1], [2], [3]] : tensor<2x3x8x4xf16> into tensor<6x8x4xf16>
"""
_ATTENTION = """\
  %scale = arith.constant 0.5 : f32
  %made = "iree_linalg_ext.attention"(%q, %k, %v, %scale, %e684) <{indexing_maps = [
    affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
    affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
    affine_map<(b, m, n, k1, k2) -> (b, m, n)>]}> ({
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }) : (tensor<6x8x4xf16>, tensor<6x8x4xf16>, tensor<6x8x4xf16>, f32, tensor<6x8x4xf16>) -> tensor<6x8x4xf16>
  %heads = tensor.expand_shape %made [[0, 1], [2], [3]] output_shape [2, 3, 8, 4]
      : tensor<6x8x4xf16> into tensor<2x3x8x4xf16>
  %tokens = linalg.transpose ins(%heads : tensor<2x3x8x4xf16>) outs(%e2834 : tensor<2x8x3x4xf16>)
      permutation = [0, 2, 1, 3]
"""
_EMPTY = {"812": "8x12", "2812": "2x8x12", "2384": "2x3x8x4", "684": "6x8x4", "2834": "2x8x3x4"}


def program() -> str:
    """As torch exports it: three linear layers of the same tokens, and an attention of what they give."""
    weights = "".join(
        f"util.global private @weights_{name} = dense<{numbers(12, 8, seed=seed)}> : tensor<12x8xf16>\n"
        for seed, name in enumerate("qkv")
    )
    biases = "".join(
        f"  %bias_{name} = arith.constant dense<{numbers(12, seed=seed + 5)}> : tensor<12xf16>\n"
        for seed, name in enumerate("qkv")
    )
    empty = "".join(f"  %e{name} = tensor.empty() : tensor<{shape}xf16>\n" for name, shape in _EMPTY.items())
    start = (
        "func.func @main(%x: tensor<2x8x8xf16>) -> tensor<2x8x3x4xf16> {\n"
        "  %nothing = arith.constant 0.0 : f32\n  %sums = tensor.empty() : tensor<2x8x12xf32>\n"
        "  %zeros = linalg.fill ins(%nothing : f32) outs(%sums : tensor<2x8x12xf32>) -> tensor<2x8x12xf32>\n"
    )
    layers = "".join(_LAYER.replace("NAME", name).replace("MAP", _MAPS) for name in "qkv")
    return f"{weights}{start}{empty}{biases}{layers}{_ATTENTION}  return %tokens : tensor<2x8x3x4xf16>\n}}\n"


def test_three_layers_before_an_attention_are_one_product() -> None:
    assert problems(program()) == [PRODUCT, PACKED]


LAYER = replace(PRODUCT, n=12)


@pytest.mark.parametrize(
    "text",
    [
        program().replace("linalg.batch_matmul ins(%x, %copies_v", "linalg.batch_matmul ins(%other, %copies_v").replace(
            "%x: tensor<2x8x8xf16>", "%x: tensor<2x8x8xf16>, %other: tensor<2x8x8xf16>"
        ),
        program().replace("return %tokens", "return %tokens, %layer_k").replace(
            "tensor<2x8x3x4xf16> {", "(tensor<2x8x3x4xf16>, tensor<2x8x12xf16>) {"
        ).replace("%layer_k : tensor<2x8x3x4xf16>", "%layer_k : tensor<2x8x3x4xf16>, tensor<2x8x12xf16>"),
        program().replace("%x: tensor<2x8x8xf16>", "%x: tensor<2x8x8xf16>, %weights_v: tensor<12x8xf16>").replace(
            "  %weights_v = util.global.load @weights_v : tensor<12x8xf16>\n", ""
        ),
    ],
    ids=["of other rows", "one is a result, too", "weights that are given"],
)  # fmt: skip
def test_other_layers_stay_as_they_are(text: str) -> None:
    assert problems(text) == [LAYER, LAYER, LAYER, MOVED]


def test_a_spec_joins_them_and_calls_its_kernels(tools: Tools, tmp_path: Path) -> None:
    (file := tmp_path / "program.mlir").write_text(program())
    operations = read(preprocess(tools, file, FLAGS, timeout=120))
    calls, forms = [], []
    for operation, problem in zip(operations, (PRODUCT, PACKED), strict=True):
        assert operation.problems[0] == problem
        calls.append(kernel_call(problem))
        forms.append(forms_of(operation.readings[:1]))
    spec = tmp_path / "spec.mlir"
    for some in (slice(0, 2), slice(0, 1), slice(1, 2)):
        spec.write_text(spec_mlir(calls[some], forms=forms[some]))
        flags = [*FLAGS, *spec_flags(spec, [call.instance for call in calls[some]])]
        text = preprocess(tools, file, flags, timeout=120)
        assert set(prove(text, kernel_calls(calls[some])).found) == {1}
        assert "batch_matmul" not in text


def test_a_joined_program_computes_the_same(tools: Tools, tmp_path: Path) -> None:
    hold_same_results(tools, program(), tmp_path)
