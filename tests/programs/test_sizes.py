"""Numbers of a program that the shapes of its inputs tell, also within loops."""

from __future__ import annotations

from iree.compiler import ir

from autotuner.iree.mlir import walk
from autotuner.programs.flow import Sizes, Value

PROGRAM = """
util.func public @main(%x: !hal.buffer_view) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %rows = hal.buffer_view.dim<%x : !hal.buffer_view>[0] : index
  %columns = hal.buffer_view.dim<%x : !hal.buffer_view>[1] : index
  %ended = scf.for %i = %c1 to %rows step %c2 iter_args(%carried = %columns) -> index {
    %0 = arith.addi %i, %carried : index
    util.optimization_barrier %0 : index
    %waited = scf.while (%j = %rows) : (index) -> index {
      %more = arith.cmpi ult, %c0, %j : index
      scf.condition(%more) %j : index
    } do {
    ^bb0(%k: index):
      %1 = arith.subi %k, %c1 : index
      util.optimization_barrier %1 : index
      scf.yield %1 : index
    }
    scf.yield %waited : index
  }
  util.optimization_barrier %ended : index
  util.return
}
"""


def test_within_a_loop_numbers_are_those_of_its_first_round_and_rounds_are_counted() -> None:
    with ir.Context() as context:
        module = ir.Module.parse(PROGRAM, context=context)
        function = module.body.operations[0].operation
        seen = [op for op in walk(function) if op.name == "util.optimization_barrier"]
        sizes = Sizes(function, [(8, 5)])
        assert [sizes.of(op.operands[0]) for op in seen] == [1 + 5, 8 - 1, None]
        assert [sizes.rounds(op) for op in seen] == [4, 4, 1]
        unknown = Sizes(function, [None])
        assert [unknown.of(op.operands[0]) for op in seen] == [None] * 3
        assert [unknown.rounds(op) for op in seen] == [1, 1, 1]


def test_a_number_that_is_computed_on_the_way_may_be_any_but_a_size_must_be_told() -> None:
    assert (Value("i8").obstacle, Value("i8").number_text) == ("", "1")
    assert (Value("f32").obstacle, Value("f32").number_text) == ("", "0.5")
    assert (Value("index", number=7).obstacle, Value("index", number=7).number_text) == ("", "7")
    assert Value("index").obstacle == "it takes a size or position that the inputs do not tell"
