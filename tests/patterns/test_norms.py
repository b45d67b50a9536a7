"""The norm of a product's rows as a part of the product: what is read so, what is not, and that the numbers stay."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import SPEC_FLAG, function_name, spec_mlir
from autotuner.iree.tools import Tools
from autotuner.patterns.operations import forms_of
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.joined import computed, kernel_call, numbers, problems, read
from tests.support.kernels import spec_flags

FLAGS = Target.parse("gfx942").compile_flags
_START = """\
util.global private @weights = dense<WEIGHTS> : tensor<8x32xf16>
util.global private @scale = dense<SCALE> : tensor<8xf16>
util.global private @shift = dense<SHIFT> : tensor<8xf16>
func.func @main(%x: tensor<2x8x8xf16>) -> tensor<2x8x32xf16> {
  %zero = arith.constant 0.0 : f16
  %nothing = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f16
  %eight32 = arith.constant 8.0 : f32
  %two = arith.constant 2.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %scale = util.global.load @scale : tensor<8xf16>
  %shift = util.global.load @shift : tensor<8xf16>
  %weights = util.global.load @weights : tensor<8x32xf16>
  %wide = tensor.empty() : tensor<2x8x8xf16>
  %wide32 = tensor.empty() : tensor<2x8x8xf32>
  %one = tensor.empty() : tensor<2x8x1xf16>
  %one32 = tensor.empty() : tensor<2x8x1xf32>
  %none = linalg.fill ins(%zero : f16) outs(%one : tensor<2x8x1xf16>) -> tensor<2x8x1xf16>
  %none32 = linalg.fill ins(%nothing : f32) outs(%one32 : tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
"""
_PRODUCT = """\
  %columns = tensor.empty() : tensor<2x8x32xf16>
  %more = tensor.empty() : tensor<2x8x32xf16>
  %copies = linalg.broadcast ins(%weights : tensor<8x32xf16>) outs(%more : tensor<2x8x32xf16>) dimensions = [0]
  %sums = tensor.empty() : tensor<2x8x32xf32>
  %zeros = linalg.fill ins(%nothing : f32) outs(%sums : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %product = linalg.batch_matmul ins(%y, %copies : tensor<2x8x8xf16>, tensor<2x8x32xf16>)
      outs(%zeros : tensor<2x8x32xf32>) -> tensor<2x8x32xf32>
  %made = linalg.generic {indexing_maps = [ALL, ALL], EACH}
      ins(%product : tensor<2x8x32xf32>) outs(%columns : tensor<2x8x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %v = arith.truncf %in : f32 to f16
    linalg.yield %v : f16
  } -> tensor<2x8x32xf16>
  return %made : tensor<2x8x32xf16>
}
"""


def step(name: str, given: str, body: str, *, of: str = "", out: str = "wide") -> str:
    """An operation on each element; `given` are values, each with its kind: a whole one, one for each row (`:1`) or
    one for each column (`:c`)."""
    words = [word.partition(":") for word in given.split()]
    shapes = {"": "2x8x8", "1": "2x8x1", "c": "8"}
    wide = {name: element for name, _, element in (one.partition("=") for one in of.split())}
    maps = {"": "ALL", "1": "ROW", "c": "COLUMN"}
    element = "f32" if out.endswith("32") else "f16"
    shape = "2x8x1" if out.startswith("one") else "2x8x8"
    # One element for each row stands at the place of its own.
    kinds = ["" if kind == "1" and shape == "2x8x1" else kind for _, _, kind in words]
    types = [f"tensor<{shapes[kind]}x{wide.get(value, 'f16')}>" for value, _, kind in words]
    arguments = ", ".join(f"%{'abc'[n]}: {wide.get(value, 'f16')}" for n, (value, _, _) in enumerate(words))
    return (
        f"  %{name} = linalg.generic {{indexing_maps = [{', '.join(maps[k] for k in kinds)}, ALL], EACH}}\n"
        f"      ins({', '.join('%' + value for value, _, _ in words)} : {', '.join(types)})"
        f" outs(%{out} : tensor<{shape}x{element}>) {{\n"
        f"  ^bb0({arguments}, %out: {element}):\n    {body}\n    linalg.yield %v : {element}\n"
        f"  }} -> tensor<{shape}x{element}>\n"
    )


def total(name: str, value: str, *, start: str = "none") -> str:
    element = "f32" if start.endswith("32") else "f16"
    return (
        f"  %{name} = linalg.generic {{indexing_maps = [ALL, ROW],"
        ' iterator_types = ["parallel", "parallel", "reduction"]}\n'
        f"      ins(%{value} : tensor<2x8x8x{element}>) outs(%{start} : tensor<2x8x1x{element}>) {{\n"
        f"  ^bb0(%in: {element}, %out: {element}):\n    %v = arith.addf %in, %out : {element}\n"
        f"    linalg.yield %v : {element}\n  }} -> tensor<2x8x1x{element}>\n"
    )


_MEAN = "%v = arith.divf %a, %eight : f16"
_ROOT = "%e = arith.truncf %eps : f32 to f16\n    %p = arith.addf %a, %e : f16\n    %v = math.rsqrt %p : f16"
_TIMES, _PLUS, _LESS = (f"%v = arith.{name} %a, %b : f16" for name in ("mulf", "addf", "subf"))
TORCH_RMS = (
    step("squares", "x x", _TIMES)
    + total("sum", "squares")
    + step("mean", "sum:1", _MEAN, out="one")
    + step("root", "mean:1", _ROOT, out="one")
    + step("normed", "x root:1", _TIMES)
    + step("y", "normed scale:c", _TIMES)
)
TORCH_LAYER = (
    total("all", "x")
    + step("middle", "all:1", _MEAN, out="one")
    + step("off", "x middle:1", _LESS)
    + step("squares", "off off", _TIMES)
    + total("sum", "squares")
    + step("mean", "sum:1", _MEAN, out="one")
    + step("root", "mean:1", _ROOT, out="one")
    + step("normed", "off root:1", _TIMES)
    + step("scaled", "normed scale:c", _TIMES)
    + step("y", "scaled shift:c", _PLUS)
)
_WIDE = {"of": "x32=f32 squares=f32 sum=f32 mean=f32 root=f32 normed=f32"}
ONNX_RMS = (
    step("x32", "x", "%v = arith.extf %a : f16 to f32", out="wide32")
    + step("squares", "x32", "%v = math.powf %a, %two : f32", out="wide32", **_WIDE)
    + total("sum", "squares", start="none32")
    + step("mean", "sum:1", "%v = arith.divf %a, %eight32 : f32", out="one32", **_WIDE)
    + step("root", "mean:1", "%p = arith.addf %a, %eps : f32\n    %v = math.sqrt %p : f32", out="one32", **_WIDE)
    + step("normed", "x32 root:1", "%v = arith.divf %a, %b : f32", out="wide32", **_WIDE)
    + step("narrow", "normed", "%v = arith.truncf %a : f32 to f16", **_WIDE)
    + step("y", "scale:c narrow", _TIMES)
)


def program(norm: str) -> str:
    start = _START.replace("WEIGHTS", numbers(8, 32, seed=0)).replace("SCALE", numbers(8, seed=1))
    text = start.replace("SHIFT", numbers(8, seed=2)) + norm + _PRODUCT
    maps = {"ALL": "(i, j, k)", "ROW": "(i, j, 0)", "COLUMN": "(k)"}
    for name, places in maps.items():
        text = text.replace(name, f"affine_map<(i, j, k) -> {places}>")
    return text.replace("EACH", 'iterator_types = ["parallel", "parallel", "parallel"]')


def product(epilogue: str) -> Gemm:
    return Gemm.parse(shape="16x32x8", out="f16", epilogue=epilogue)


PLAIN = product("")
F16_EPS = "1.001358e-05"
CASES = {
    "torch rms": (TORCH_RMS, product(f"rms={F16_EPS}")),
    "torch layer": (TORCH_LAYER, product(f"layer={F16_EPS},bias")),
    "onnx rms": (ONNX_RMS, product("rms=1e-5")),
}


@pytest.mark.parametrize(("norm", "wanted"), CASES.values(), ids=CASES)
def test_a_norm_is_a_part_of_the_product_behind_it(norm: str, wanted: Gemm) -> None:
    (operation,) = read(program(norm))
    assert operation.problems[0].name == wanted.name
    assert PLAIN in operation.problems


_RESULT = (
    "return %made : tensor<2x8x32xf16>",
    "return %made, %y : tensor<2x8x32xf16>, tensor<2x8x8xf16>",
    "-> tensor<2x8x32xf16> {\n  %zero",
    "-> (tensor<2x8x32xf16>, tensor<2x8x8xf16>) {\n  %zero",
)


@pytest.mark.parametrize(
    "text",
    [
        program(TORCH_RMS).replace(*_RESULT[:2]).replace(*_RESULT[2:]),
        program(TORCH_RMS)
        .replace("%x: tensor<2x8x8xf16>", "%x: tensor<2x8x8xf16>, %weights: tensor<8x32xf16>")
        .replace("  %weights = util.global.load @weights : tensor<8x32xf16>\n", ""),
        program(TORCH_RMS)
        .replace("%x: tensor<2x8x8xf16>", "%x: tensor<2x8x8xf16>, %scale: tensor<8xf16>")
        .replace("  %scale = util.global.load @scale : tensor<8xf16>\n", ""),
        program(TORCH_RMS).replace("arith.constant 8.0 : f16", "arith.constant 9.0 : f16"),
        program(TORCH_RMS).replace("math.rsqrt", "math.sqrt"),
        program(
            TORCH_RMS.replace("normed scale:c", "normed scale:c").replace("arith.mulf %a, %b", "arith.addf %a, %b")
        ),
    ],
    ids=["it is a result, too", "weights that are given", "a scale that is given", "no mean", "a product", "a sum"],
)
def test_other_norms_stay_as_they_are(text: str) -> None:
    assert problems(text) == [PLAIN]


@pytest.mark.parametrize(("norm", "wanted"), CASES.values(), ids=CASES)
def test_a_spec_calls_one_kernel_for_both_and_the_numbers_stay(
    norm: str, wanted: Gemm, tools: Tools, tmp_path: Path
) -> None:
    (file := tmp_path / "program.mlir").write_text(program(norm))
    (operation,) = read(preprocess(tools, file, FLAGS, timeout=120))
    problem = operation.problems[0]
    assert isinstance(problem, Gemm)
    assert problem.name == wanted.name
    calls = [kernel_call(problem)]
    text = spec_mlir(calls, forms=[forms_of(operation.readings[:1])])
    (spec := tmp_path / "spec.mlir").write_text(text)
    after = preprocess(tools, file, [*FLAGS, *spec_flags(spec, [calls[0].instance])], timeout=120)
    assert prove(after, kernel_calls(calls)).found == (1,)
    assert not re.search(r"matmul|sqrt|powf", after)
    spec.write_text(computing_itself(text, problem))
    cpu = Target.parse("cpu").compile_flags
    x = np.random.default_rng(3).standard_normal((2, 8, 8)).astype(np.float16)
    plain, folded = (computed(tools, file, [*cpu, *more], x) for more in ((), (f"{SPEC_FLAG}={spec}",)))
    assert np.abs(plain).max() > 0.5
    np.testing.assert_allclose(folded, plain, rtol=5e-3, atol=5e-3)


def computing_itself(spec: str, problem: Gemm) -> str:
    """The spec with the problem's own operations in the place of its kernel."""
    own = problem_mlir(problem)
    head, body = own[own.index("func.func") :].split("{\n", 1)
    inputs = re.findall(r"(%\w+: tensor<[^>]*>)(?=, )", head)
    function = f"util.func private @{function_name(0)}({', '.join(inputs)}) -> {problem.output.mlir} {{\n"
    function += body.rstrip().removesuffix("}").replace("  return ", "  util.return ") + "  }\n"
    there = re.compile(rf"  util\.func private @{function_name(0)}\(.*?\n  }}\n", re.S)
    replaced, count = there.subn(lambda _: function, spec, count=1)
    assert count == 1
    return own[: own.index("func.func")] + replaced
