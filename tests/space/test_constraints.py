"""What the engine calls legal is what the compiler's constraints say, no more and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen

from autotuner.errors import EnvironmentFailure
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.space.constraints import ConstraintsError, Node, apply, constraint_operations, read_program
from autotuner.space.solver import legal
from tests.space.conftest import Emit, attention

Operations = Callable[[str], list[Any]]


@pytest.fixture
def operations() -> Iterator[Operations]:
    """operations(text): the constraints ops of a module, which lives as long as the test."""
    alive = []

    def parse(text: str) -> list[Any]:
        alive.append(ir.Module.parse(text))
        return list(constraint_operations(alive[-1].operation))

    with ir.Context():
        yield parse


def rows(columns: dict[str, Any]) -> set[tuple[tuple[str, int], ...]]:
    names = sorted(columns)
    table = np.stack([columns[name] for name in names], axis=1)
    return {tuple(zip(names, row, strict=True)) for row in table.tolist()}


@pytest.mark.parametrize(
    ("problem", "target"),
    [
        (Gemm.parse(shape="32x16x16"), "gfx942"),
        (Gemm.parse(shape="24x32x24"), "sm_80"),
        (attention(2, 64, 32, 32), "gfx942"),
    ],
    ids=str,
)
def test_small_problems_have_exactly_the_assignments_of_brute_force(
    emit: Emit, oracle: Any, operations: Operations, problem: Problem, target: str
) -> None:
    found = 0
    for operation in operations(emit(problem, target)):
        columns = legal(read_program(operation))
        reference = oracle(iree_codegen.convert_constraints_op_to_smtlib(operation))
        # No tile exceeds a loop rounded up to the instruction; a workgroup has at most 1,024 threads.
        ranges = {knob: range(65) for knob in columns} | {"wg_size_x": range(0, 1025, 32)}
        assert rows(columns) == reference.enumerate(ranges)
        found += len(rows(columns))
    assert found > 0


@pytest.mark.parametrize(
    ("problem", "target"),
    [
        (Gemm.parse(shape="4096x4096x4096"), "gfx950"),
        (Conv.parse(shape="2x30x30x72", filter="3x3x100"), "sm_80"),
        (attention(20, 4096, 64, 1024), "gfx1100"),
    ],
    ids=str,
)
def test_every_sampled_row_is_legal_and_every_sampled_change_agrees_with_the_oracle(
    emit: Emit, oracle: Any, operations: Operations, problem: Problem, target: str
) -> None:
    rng = np.random.default_rng(0)
    for operation in operations(emit(problem, target)):
        columns = legal(read_program(operation))
        reference = oracle(iree_codegen.convert_constraints_op_to_smtlib(operation))
        table = rows(columns)
        total = len(next(iter(columns.values())))
        assert len(table) == total
        for index in rng.choice(total, size=min(40, total), replace=False):
            row = {knob: int(column[index]) for knob, column in columns.items()}
            assert reference.holds(row)
            # Two knobs move to values that are legal elsewhere: most such rows are illegal, some are not.
            for _ in range(4):
                changed = dict(row)
                for knob in rng.choice(sorted(columns), size=2, replace=False):
                    changed[knob] = int(rng.choice(columns[knob]))
                assert reference.holds(changed) == (tuple(sorted(changed.items())) in table)


CONSTRAINTS = """
func.func @f() {{
  %c8 = arith.constant 8 : index
  iree_codegen.smt.constraints target = <set = 0>, pipeline = #iree_gpu.pipeline<TileAndFuse>,
   knobs = {{a = #iree_codegen.smt.int_knob<"a">}} dims(%c8) {{
  ^bb0(%d: !smt.int):
    %k8 = smt.int.constant 8
    %pin = smt.eq %d, %k8 : !smt.int
    iree_codegen.smt.assert %pin, "dim" : !smt.bool
    %zero = smt.int.constant 0
    %two = smt.int.constant 2
    %a = iree_codegen.smt.knob "a" : !smt.int
    %limit = smt.int.cmp le %a, %d
    iree_codegen.smt.assert %limit, "a <= dim" : !smt.bool
    {body}
  }}
  return
}}
"""


def solve(operations: Operations, body: str) -> dict[str, list[int]]:
    (operation,) = operations(CONSTRAINTS.format(body=body))
    return {knob: sorted(column.tolist()) for knob, column in legal(read_program(operation)).items()}


def test_lookup_without_an_entry_makes_the_row_illegal(operations: Operations) -> None:
    body = """%v = iree_codegen.smt.lookup %a [1, 5, 7] -> [10, 0, 30] : !smt.int
    %ok = smt.int.cmp ge %v, %two
    iree_codegen.smt.assert %ok, "found" : !smt.bool"""
    assert solve(operations, body) == {"a": [1, 7]}


def test_a_branch_that_is_not_taken_may_be_undefined(operations: Operations) -> None:
    body = """%v = iree_codegen.smt.lookup %a [5, 6] -> [10, 1] : !smt.int
    %small = smt.int.cmp lt %a, %two
    %w = smt.ite %small, %two, %v : !smt.int
    %ok = smt.int.cmp ge %w, %two
    iree_codegen.smt.assert %ok, "ite" : !smt.bool"""
    assert solve(operations, body) == {"a": [0, 1, 5]}


def test_connectives_and_boolean_knobs(operations: Operations) -> None:
    body = """%b = smt.declare_fun "b" : !smt.bool
    %even = smt.int.mod %a, %two
    %is_even = smt.eq %even, %zero : !smt.int
    %either = smt.or %b, %is_even
    %large = smt.int.cmp gt %a, %two
    %small = smt.int.cmp lt %a, %d
    %all = smt.and %either, %large, %small
    iree_codegen.smt.assert %all, "all" : !smt.bool"""
    (operation,) = operations(CONSTRAINTS.format(body=body))
    columns = legal(read_program(operation))
    assert set(zip(columns["a"].tolist(), columns["b"].tolist(), strict=True)) == {
        (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (4, 0), (6, 0),
    }  # fmt: skip


def test_an_or_that_is_settled_by_one_side_ignores_a_division_by_zero_on_the_other(operations: Operations) -> None:
    body = """%rest = smt.int.mod %d, %a
    %divides = smt.eq %rest, %zero : !smt.int
    %none = smt.eq %a, %zero : !smt.int
    %ok = smt.or %none, %divides
    iree_codegen.smt.assert %ok, "or" : !smt.bool"""
    assert solve(operations, body) == {"a": [0, 1, 2, 4, 8]}


@pytest.mark.parametrize(("dividend", "divisor"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, -3)])
def test_division_is_that_of_smt_lib(dividend: int, divisor: int) -> None:
    arguments = [(np.array([dividend]), None), (np.array([divisor]), None)]
    quotient = int(apply(Node("div", (0, 1)), arguments)[0][0])
    remainder = int(apply(Node("mod", (0, 1)), arguments)[0][0])
    assert dividend == divisor * quotient + remainder
    assert 0 <= remainder < abs(divisor)


def test_an_unknown_operation_is_named_and_never_skipped(operations: Operations) -> None:
    body = """%bits = smt.bv.constant #smt.bv<5> : !smt.bv<8>
    %int = smt.bv2int %bits : !smt.bv<8>"""
    (operation,) = operations(CONSTRAINTS.format(body=body))
    with pytest.raises(ConstraintsError, match=r"IREE 3\..*smt\.bv\.constant") as caught:
        read_program(operation)
    assert isinstance(caught.value, EnvironmentFailure)


def test_a_knob_without_an_upper_bound_is_an_error_and_not_a_guess(operations: Operations) -> None:
    (operation,) = operations(CONSTRAINTS.format(body='%n = smt.declare_fun "n" : !smt.int'))
    with pytest.raises(ConstraintsError, match="'n' without a usable bound"):
        legal(read_program(operation))


def test_contradictory_constraints_have_no_rows(operations: Operations) -> None:
    body = """%no = smt.int.cmp gt %a, %d
    iree_codegen.smt.assert %no, "never" : !smt.bool"""
    assert solve(operations, body) == {"a": []}
