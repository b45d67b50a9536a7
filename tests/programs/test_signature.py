"""What a program's function takes and gives, and what is refused of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.programs.model import Model, check_call
from autotuner.programs.signature import signature_in

PROGRAM = """
util.func public @main(%a: tensor<8x8xf32>, %i: tensor<1x3x8x8xf32>, %f: tensor<4x3x3x3xf32>) -> tensor<8x8xf32> {{
  %zero = arith.constant 0.0 : f32
  %to = tensor.empty() : tensor<8x8xf32>
  %sums = linalg.fill ins(%zero : f32) outs(%to : tensor<8x8xf32>) -> tensor<8x8xf32>
  {body}
  util.return %sums : tensor<8x8xf32>
}}
"""
MATMUL = """%c = linalg.matmul ins(%a, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%sums : tensor<8x8xf32>)
    -> tensor<8x8xf32>"""


@pytest.mark.parametrize("dialect", ["flow", "stream"])
def test_parameters_are_known_as_iree_and_as_exporters_write_them(dialect: str) -> None:
    weights = f'util.global private @w = #{dialect}.parameter.named<"model"::"w"> : tensor<8x8xf32>\n'
    found = signature_in(weights + PROGRAM.format(body=MATMUL), function=None)
    assert (found.function, found.scopes) == ("main", ("model",))


def test_constants_of_complex_numbers_are_no_parameters_and_no_obstacle() -> None:
    twiddles = "util.global private @t = dense<[(1.0, 0.0), (0.0, 1.0)]> : tensor<2xcomplex<f32>>\n"
    assert signature_in(twiddles + PROGRAM.format(body=MATMUL), function=None).scopes == ()


def test_a_program_that_calls_another_module_is_refused_where_it_would_be_run() -> None:
    other = "util.func private @other.scale(tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    called = "%b = util.call @other.scale(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
    found = signature_in(other + PROGRAM.format(body=called), function=None)
    assert (found.function, found.imports) == ("main", ("other.scale",))
    with pytest.raises(UsageError, match=r"caller calls other\.scale, which is in another module\. Link the modules"):
        check_call(Model(Path("caller.mlir")), found)
    assert signature_in(PROGRAM.format(body=MATMUL), function=None).imports == ()


FENCED = """
util.func public @main(%x: !hal.buffer_view, %wait: !hal.fence, %signal: !hal.fence) -> !hal.buffer_view {
  %in = hal.tensor.import wait(%wait) => %x : !hal.buffer_view -> tensor<4xf32>
  %done = hal.tensor.barrier join(%in : tensor<4xf32>) => %signal : !hal.fence
  %out = hal.tensor.export %done : tensor<4xf32> -> !hal.buffer_view
  util.return %out : !hal.buffer_view
}
"""
LISTED = "util.func public @main(%l: !util.list<i32>, %b: !hal.buffer) -> !hal.buffer { util.return %b : !hal.buffer }"
TRANSIENT = """
util.func public @main(%x: !hal.buffer_view, %to: !hal.buffer_view, %on_the_way: !hal.buffer_view) -> !hal.buffer_view {
  %c4 = arith.constant 4 : index
  %in = hal.tensor.import %x : !hal.buffer_view -> tensor<?x4xf32>{%c4}
  %done = hal.tensor.alias %in : tensor<?x4xf32>{%c4} to %to : !hal.buffer_view
  %kept = hal.tensor.transients %done : tensor<?x4xf32>{%c4} from %on_the_way : !hal.buffer_view
  %out = hal.tensor.export %kept : tensor<?x4xf32>{%c4} -> !hal.buffer_view
  util.return %out : !hal.buffer_view
}
"""


@pytest.mark.parametrize(
    ("program", "foreign"),
    [
        (FENCED, ("!hal.fence",)),
        (LISTED, ("!util.list<i32>", "!hal.buffer")),
        (TRANSIENT, ("storage for a result", "storage for its transients")),
    ],
)
def test_what_cannot_be_given_is_refused_by_its_name(program: str, foreign: tuple[str, ...]) -> None:
    found = signature_in(program, function=None)
    assert found.foreign == foreign
    with pytest.raises(UsageError, match=r"main takes or gives .*, which cannot be made or read here\. Export it with"):
        check_call(Model(Path("other.mlir"), inputs=("4x4xf32",)), found)


def test_what_is_updated_in_place_is_an_input_like_others() -> None:
    """As torch exports a cache: it is read, and the new one is written into it."""
    updated = TRANSIENT.replace("%to : ", "%x : ").replace("from %on_the_way", "from %x")
    assert signature_in(updated, function=None).foreign == ()


def test_a_program_without_a_public_function_says_so() -> None:
    with pytest.raises(UsageError, match=r"no function that can be called\. Make one of them public\."):
        signature_in(PROGRAM.format(body=MATMUL).replace("public", "private"), function=None)
