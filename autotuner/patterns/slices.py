"""A slice of a program as a form: the operations that compute a result from some values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import func

from autotuner.iree.mlir import maker, walk
from autotuner.patterns.forms import Match, match_of
from autotuner.patterns.graph import number, rank
from autotuner.patterns.ops import CONSTANT


def read_slice(root: Any, inputs: Sequence[Any]) -> Match | None:
    """The operations that compute the root's result from these values; None where no matcher can tell them from others.

    A matcher follows operands. It sees what a region takes from outside only if that is an operand elsewhere in the
    slice (a body's constants are its own once `prepare` is done), and it takes each input for one value.
    """
    operations = _between(root, set(inputs)) if len(set(inputs)) == len(inputs) else None
    if operations is None:
        return None
    known = {*inputs, *(result for op in operations for result in op.results)}
    return None if any(_taken_from_outside(op) - known for op in operations) else _copied(operations, inputs)


def _between(root: Any, inputs: set[Any]) -> list[Any] | None:
    """The operations in program order; None where another value or weights go in, which no matcher can spell out."""
    found: dict[Any, None] = {}
    todo = [root]
    while todo:
        op = todo.pop()
        if op in found:
            continue
        found[op] = None
        if op.name == CONSTANT and _has_many_values(op):
            return None
        for value in op.operands:
            if value in inputs:
                continue
            if maker(value) is None:
                return None
            todo.append(maker(value))
    ordered = [op.operation for block in _around(root) for op in block.operations if op.operation in found]
    return ordered if len(ordered) == len(found) else None


def _around(op: Any) -> list[Any]:
    """The enclosing blocks, the outermost first: a loop's body sees what comes before the loop."""
    found: list[Any] = []
    while op.parent is not None:
        found.append(op.block)
        op = op.parent.operation
    return found[::-1]


def _has_many_values(constant: Any) -> bool:
    """Whether a constant is a tensor that is no splat."""
    value = constant.results[0]
    return isinstance(value.type, ir.ShapedType) and rank(value) > 0 and number(value) is None


def _taken_from_outside(op: Any) -> set[Any]:
    """The outside values that an operation's regions use."""
    inside = list(walk(op))
    blocks = [block for one in (op, *inside) for region in one.regions for block in region.blocks]
    own = {result for inner in inside for result in inner.results} | {a for block in blocks for a in block.arguments}
    return {value for inner in inside for value in inner.operands} - own


def _copied(operations: Sequence[Any], inputs: Sequence[Any]) -> Match:
    """The operations copied into a function, with names that do not depend on the program."""
    last = operations[-1]
    with ir.Location.unknown(last.context):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("match", ([value.type for value in inputs], [last.results[0].type]))
        block = function.add_entry_block()
        new = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for op in operations:
                copy = op.clone()
                for inner in (copy, *walk(copy)):
                    for place, value in enumerate(list(inner.operands)):
                        if value in new:
                            inner.operands[place] = new[value]
                new |= dict(zip(op.results, copy.results, strict=True))
            func.ReturnOp([new[last.results[0]]])
        return match_of(block, list(block.arguments))
