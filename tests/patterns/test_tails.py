"""What follows a product or a convolution in a program, read as the epilogue of one problem."""

from __future__ import annotations

import pytest

from autotuner.patterns.operations import Operation, read_operations
from autotuner.problems import Conv, Gemm

EACH, COLUMN = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j)>"
PROGRAM = """
!t = tensor<8x16xf32>
func.func @main(%a: tensor<8x32xf32>, %b: tensor<32x16xf32>, %v: tensor<16xf32>, %r: !t) -> (!t, !t) {{
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : !t
  %f = linalg.fill ins({start} : f32) outs(%e : !t) -> !t
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf32>, tensor<32x16xf32>) outs(%f : !t) -> !t
{behind}
  return %last, {second} : !t, !t
}}
"""


def step(name: str, of: str, body: str, more: str = "", maps: str = EACH, types: str = "!t") -> str:
    """One linalg.generic behind the product: %x is what it takes, %y what comes to it."""
    ins = f"{of}, {more} : !t, {types}" if more else f"{of} : !t"
    arguments = "%x: f32, %y: f32, %o: f32" if more else "%x: f32, %o: f32"
    between = f"{maps}, " if more else ""
    kinds = f'indexing_maps = [{EACH}, {between}{EACH}], iterator_types = ["parallel", "parallel"]'
    return (
        f"  {name} = linalg.generic {{{kinds}}} ins({ins}) outs(%e : !t) {{\n"
        f"  ^bb0({arguments}):\n{body}\n    linalg.yield %s : f32\n  }} -> !t"
    )


def bias(name: str, of: str) -> str:
    return step(name, of, "    %s = arith.addf %x, %y : f32", "%v", COLUMN, "tensor<16xf32>")


def limited(limits: str) -> str:
    """As ONNX's Clip comes: limits are operands."""
    none = "affine_map<(i, j) -> ()>"
    kinds = f'indexing_maps = [{EACH}, {none}, {none}, {EACH}], iterator_types = ["parallel", "parallel"]'
    return (
        "  %low = arith.constant dense<0.0> : tensor<f32>\n  %high = arith.constant dense<6.0> : tensor<f32>\n"
        "  %given = tensor.empty() : tensor<f32>\n"
        f"  %last = linalg.generic {{{kinds}}} ins(%p, {limits} : !t, tensor<f32>, tensor<f32>) outs(%e : !t) {{\n"
        "  ^bb0(%x: f32, %l: f32, %h: f32, %o: f32):\n"
        "    %m = arith.maximumf %x, %l : f32\n    %s = arith.minimumf %m, %h : f32\n    linalg.yield %s : f32\n"
        "  } -> !t"
    )


def gelu(root: str, by: str = "divf") -> str:
    return (
        f"    %k = arith.constant {root} : f32\n    %d = arith.{by} %x, %k : f32\n    %e1 = math.erf %d : f32\n"
        "    %one1 = arith.constant 1.0 : f32\n    %half = arith.constant 0.5 : f32\n"
        "    %m = arith.addf %e1, %one1 : f32\n    %h = arith.mulf %x, %half : f32\n    %s = arith.mulf %h, %m : f32"
    )


def tanh_gelu(factor: str) -> str:
    return (
        "    %three = arith.constant 3 : i64\n    %q = math.fpowi %x, %three : f32, i64\n"
        f"    %k = arith.constant 0.044715 : f32\n    %f1 = arith.constant {factor} : f32\n"
        "    %c = arith.mulf %q, %k : f32\n    %d = arith.addf %x, %c : f32\n    %t = arith.mulf %d, %f1 : f32\n"
        "    %u = math.tanh %t : f32\n    %one1 = arith.constant 1.0 : f32\n    %half = arith.constant 0.5 : f32\n"
        "    %m = arith.addf %u, %one1 : f32\n    %h = arith.mulf %m, %half : f32\n    %s = arith.mulf %x, %h : f32"
    )


SIGMOID = (
    "    %one1 = arith.constant 1.0 : f32\n    %n = arith.negf %x : f32\n    %e1 = math.exp %n : f32\n"
    "    %d = arith.addf %e1, %one1 : f32\n    %s = arith.divf %one1, %d : f32"
)


def hard_swish(most: str) -> str:
    """As ONNX's HardSwish comes."""
    number = "    %k = arith.constant {} : f32\n"
    return "\n".join(
        (
            step("%one", "%p", number.format("3.0") + "    %s = arith.addf %x, %k : f32"),
            step("%two", "%one", RELU),
            step("%four", "%two", number.format(most) + "    %s = arith.minimumf %x, %k : f32"),
            step("%five", "%four", number.format("6.0") + "    %s = arith.divf %x, %k : f32"),
            step("%last", "%five", "    %s = arith.mulf %x, %y : f32", "%p"),
        )
    )


RELU = "    %c = arith.cmpf ugt, %x, %zero : f32\n    %s = arith.select %c, %x, %zero : f32"
SPELLINGS = {
    "one bias": (bias("%last", "%p"), "bias"),
    "a residual": (step("%last", "%p", "    %s = arith.addf %y, %x : f32", "%r"), "residual"),
    "a relu by comparison": (step("%last", "%p", RELU), "relu"),
    "a relu by the other comparison": (
        step("%last", "%p", "    %c = arith.cmpf olt, %x, %zero : f32\n    %s = arith.select %c, %zero, %x : f32"),
        "relu",
    ),
    "all of it in one": (
        step("%last", "%p", "    %m = arith.addf %x, %y : f32\n    %s = arith.maximumf %m, %zero : f32", "%r"),
        "residual,relu",
    ),
    "one after the other": ("\n".join((bias("%one", "%p"), step("%last", "%one", RELU))), "bias,relu"),
    # Nothing that follows operands leads to the constant 6: the body gets one of its own first.
    "a clip at a number that nothing else has": (
        step("%last", "%p", "    %s = arith.minimumf %x, %six : f32"),
        "clip=:6",
    ),
    "limits that are tensors without dimensions": (limited("%low, %high"), "clip=0:6"),
    "a limit that is not known": (limited("%low, %given"), ""),
    "a minimum where a relu would be": (
        step("%last", "%p", "    %c = arith.cmpf ugt, %x, %zero : f32\n    %s = arith.select %c, %zero, %x : f32"),
        "clip=:0",
    ),
    "two biases": ("\n".join((bias("%one", "%p"), bias("%last", "%one"))), "bias"),
    "a bias behind a relu": ("\n".join((step("%one", "%p", RELU), bias("%last", "%one"))), "relu"),
    "something else": (step("%last", "%p", "    %s = math.exp %x : f32"), ""),
    "a gelu in one": (step("%last", "%p", gelu("1.41421354")), "gelu"),
    "a gelu by a product": (step("%last", "%p", gelu("0.707106769", "mulf")), "gelu"),
    "a gelu with another constant": (step("%last", "%p", gelu("1.41421366")), ""),
    "a gelu by tanh": (step("%last", "%p", tanh_gelu("0.797884583")), "tanhgelu"),
    "a gelu by tanh as importers write it": (step("%last", "%p", tanh_gelu("0.797724")), "importedgelu"),
    "a gelu by tanh with another constant": (step("%last", "%p", tanh_gelu("0.7979")), ""),
    # The product has two users, one of which takes what the other gives.
    "a silu in two": (
        "\n".join((step("%one", "%p", SIGMOID), step("%last", "%p", "    %s = arith.mulf %x, %y : f32", "%one"))),
        "silu",
    ),
    "a sigmoid behind a bias": ("\n".join((bias("%one", "%p"), step("%last", "%one", SIGMOID))), "bias,sigmoid"),
    "a hardswish in five": (hard_swish("6.0"), "hardswish"),
    "a hardswish up to another number": (hard_swish("6.1"), ""),
    "a product with a residual": (step("%last", "%p", "    %s = arith.mulf %x, %y : f32", "%r"), ""),
}


def read(behind: str, *, second: str = "%last", start: str = "%zero") -> Operation:
    (operation,) = read_operations(PROGRAM.format(behind=behind, second=second, start=start))
    return operation


@pytest.mark.parametrize(("behind", "epilogue"), SPELLINGS.values(), ids=SPELLINGS)
def test_an_epilogue_is_known_however_it_is_spelt(behind: str, epilogue: str) -> None:
    readings = read(behind).readings
    first = readings[0].problem
    assert isinstance(first, Gemm)
    assert first.epilogue.text == epilogue
    assert readings[-1].problem == Gemm.parse(shape="8x16x32", dtype="f32")
    assert readings[-1].bare == readings[0].bare


def test_what_somebody_else_reads_too_is_not_taken_away() -> None:
    """The product itself is a result of the program: with its bias it is computed, but not in its place."""
    assert [r.problem.name for r in read(bias("%last", "%p"), second="%p").readings] == ["gemm_8x16x32_f32_f32_nn"]


def test_a_product_that_starts_from_ones_is_no_problem_with_a_form_of_its_own() -> None:
    (reading,) = read(bias("%last", "%p"), start="%six").readings
    assert reading.forms is None


def test_inputs_come_in_the_order_of_the_problems_operands() -> None:
    """The program adds the residual first, and the sum's operands are the other way round."""
    behind = "\n".join((step("%one", "%p", "    %s = arith.addf %y, %x : f32", "%r"), bias("%last", "%one")))
    reading = read(behind).readings[0]
    assert reading.problem.name.endswith("_bias_residual")
    assert reading.forms is not None
    (match,) = reading.forms.matches
    assert [type for _, type in match.arguments] == [operand.mlir for operand in reading.problem.operands[:-1]]


def test_a_convolution_that_starts_from_its_bias_has_it_as_an_epilogue() -> None:
    """As PyTorch and ONNX write it: the padding before, the bias as the beginning, the relu by comparison behind."""
    program = """
    util.func public @main(%x: tensor<1x4x8x8xf32>) -> tensor<1x6x8x8xf32> {
      %zero = arith.constant 0.0 : f32
      %w = arith.constant dense_resource<w> : tensor<6x4x3x3xf32>
      %v = arith.constant dense_resource<v> : tensor<6xf32>
      %pad = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
      ^bb0(%i: index, %j: index, %k: index, %l: index):
        tensor.yield %zero : f32
      } : tensor<1x4x8x8xf32> to tensor<1x4x10x10xf32>
      %e = tensor.empty() : tensor<1x6x8x8xf32>
      %start = linalg.broadcast ins(%v : tensor<6xf32>) outs(%e : tensor<1x6x8x8xf32>) dimensions = [0, 2, 3]
      %c = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
        ins(%pad, %w : tensor<1x4x10x10xf32>, tensor<6x4x3x3xf32>) outs(%start : tensor<1x6x8x8xf32>)
        -> tensor<1x6x8x8xf32>
      %relu = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
        affine_map<(a, b, c, d) -> (a, b, c, d)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%c : tensor<1x6x8x8xf32>) outs(%e : tensor<1x6x8x8xf32>) {
      ^bb0(%in: f32, %out: f32):
        %more = arith.cmpf ugt, %in, %zero : f32
        %s = arith.select %more, %in, %zero : f32
        linalg.yield %s : f32
      } -> tensor<1x6x8x8xf32>
      util.return %relu : tensor<1x6x8x8xf32>
    }
    """
    (operation,) = read_operations(program)
    reading = operation.readings[0]
    wanted = Conv.parse(
        shape="1x8x8x4", filter="3x3x6", pad="1x1", dtype="f32", layout="nchw-fchw", epilogue="bias,relu"
    )
    assert reading.problem == wanted
    assert reading.constant
    assert reading.forms is not None
    assert reading.forms.detached
    assert len(reading.forms.pads) == 1
    assert [r.problem.name for r in operation.readings][-1] == "conv_1x10x10x4_3x3x6_f32_nchw"


ROUNDED = """
util.func public @main(%x: tensor<1x8x8x4xf16>, %w: tensor<3x3x4x6xf16>, %v: tensor<6xf32>) -> tensor<1x8x8x6xf16> {{
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.0 : f16
  %pad = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %half : f16
  }} : tensor<1x8x8x4xf16> to tensor<1x10x10x4xf16>
  %e = tensor.empty() : tensor<1x8x8x6xf32>
  %n = tensor.empty() : tensor<1x8x8x6xf16>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x6xf32>) -> tensor<1x8x8x6xf32>
  %c = linalg.conv_2d_nhwc_hwcf {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
    ins(%pad, %w : tensor<1x10x10x4xf16>, tensor<3x3x4x6xf16>) outs(%f : tensor<1x8x8x6xf32>) -> tensor<1x8x8x6xf32>
  %r = linalg.generic {{indexing_maps = [{each}, affine_map<(a, b, c, d) -> (d)>, {each}], iterator_types = [{kinds}]}}
    ins(%c, %v : tensor<1x8x8x6xf32>, tensor<6xf32>) outs(%n : tensor<1x8x8x6xf16>) {{
  ^bb0(%in: f32, %b: f32, %out: f16):
    %s = arith.addf %in, %b : f32
    %t = arith.truncf %s : f32 to f16
    linalg.yield %t : f16
  }} -> tensor<1x8x8x6xf16>
  %relu = linalg.generic {{indexing_maps = [{each}, {each}], iterator_types = [{kinds}]}}
    ins(%r : tensor<1x8x8x6xf16>) outs(%n : tensor<1x8x8x6xf16>) {{
  ^bb0(%in: f16, %out: f16):
    %m = arith.maximumf %in, %half : f16
    linalg.yield %m : f16
  }} -> tensor<1x8x8x6xf16>
  util.return %relu : tensor<1x8x8x6xf16>
}}
"""


def test_a_clip_behind_the_rounding_of_a_convolution_goes_with_it() -> None:
    """The limit has the narrow type: clipped before or after, the result is the same."""
    kinds = ", ".join(['"parallel"'] * 4)
    program = ROUNDED.format(each="affine_map<(a, b, c, d) -> (a, b, c, d)>", kinds=kinds)
    (operation,) = read_operations(program)
    names = [problem.name for problem in operation.problems]
    assert names[:3] == [
        f"conv_1x8x8x4_3x3x6_p1x1_f16{end}" for end in ("_f16_nhwc_bias_relu", "_f16_nhwc_bias", "_nhwc")
    ]


TORCH = """
!wide = tensor<8x16xf32>
!t = tensor<8x16xf16>
func.func @main(%a: tensor<8x32xf16>, %b: tensor<32x16xf16>, %v: tensor<16x{bias}>, %r: !t) -> !t {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !wide
  %f = linalg.fill ins(%zero : f32) outs(%e : !wide) -> !wide
  %p = linalg.matmul ins(%a, %b : tensor<8x32xf16>, tensor<32x16xf16>) outs(%f : !wide) -> !wide
  %n = tensor.empty() : !t
  %rounded = linalg.generic {{indexing_maps = [{each}, {each}], iterator_types = [{kinds}]}}
    ins(%p : !wide) outs(%n : !t) {{
  ^bb0(%x: f32, %o: f16):
    %s = arith.truncf %x : f32 to f16
    linalg.yield %s : f16
  }} -> !t
  %biased = linalg.generic {{indexing_maps = [{each}, {column}, {each}], iterator_types = [{kinds}]}}
    ins(%rounded, %v : !t, tensor<16x{bias}>) outs(%n : !t) {{
  ^bb0(%x: f16, %y: {bias}, %o: f16):
{added}
    linalg.yield %s : f16
  }} -> !t
  %last = linalg.generic {{indexing_maps = [{each}, {each}, {each}], iterator_types = [{kinds}]}}
    ins(%biased, %r : !t, !t) outs(%n : !t) {{
  ^bb0(%x: f16, %y: f16, %o: f16):
    %s = arith.addf %y, %x : f16
    linalg.yield %s : f16
  }} -> !t
  return %last : !t
}}
"""


def test_what_is_added_behind_the_rounding_of_a_product_goes_with_it() -> None:
    """A layer as torch has it in f16: the product is rounded, then bias and residual are added."""
    words = {"each": EACH, "column": COLUMN, "kinds": '"parallel", "parallel"'}
    program = TORCH.format(**words, bias="f16", added="    %s = arith.addf %x, %y : f16")
    (operation,) = read_operations(program)
    ends = ["_f16_nn_bias_residual", "_f16_nn_bias", "_f16_nn", "_nn"]
    assert [problem.name for problem in operation.problems] == [f"gemm_8x16x32_f16_f32{end}" for end in ends]
    other = TORCH.format(**words, bias="bf16", added="    %s = arith.addf %x, %x : f16")
    (operation,) = read_operations(other)
    assert [problem.name for problem in operation.problems] == [f"gemm_8x16x32_f16_f32{end}" for end in ends[2:]]
