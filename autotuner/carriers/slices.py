"""A part of a program as a matcher has it: the operations between some inputs and a root, on their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import func

from autotuner.carriers.forms import Match, match_of
from autotuner.iree.mlir import walk


def read_slice(root: Any, inputs: Sequence[Any]) -> Match | None:
    """What computes the root's result from these values; None where no matcher can tell it from others.

    A matcher follows operands. It sees what a region takes from outside only if that is an operand elsewhere in the
    slice (a body's constants are its own once `prepare` is done), and it takes each input for one value.
    """
    if len(set(inputs)) < len(inputs):
        return None
    operations = _between(root, set(inputs))
    if operations is None:
        return None
    known = {*inputs, *(result for op in operations for result in op.results)}
    captured = [value for op in operations for inner in walk(op) for value in _from_outside(inner, op)]
    return None if any(value not in known for value in captured) else _copied(operations, inputs)


def _between(root: Any, inputs: set[Any]) -> list[Any] | None:
    """In the program's order; None where something else goes in, or weights, which no matcher spells out."""
    found: dict[Any, None] = {}
    todo = [root]
    while todo:
        op = todo.pop()
        if op in found:
            continue
        found[op] = None
        if op.name == "arith.constant" and _has_many_values(op):
            return None
        for value in op.operands:
            if value in inputs:
                continue
            if isinstance(value.owner, ir.Block):
                return None
            todo.append(value.owner.operation)
    ordered = [op.operation for block in _around(root) for op in block.operations if op.operation in found]
    return ordered if len(ordered) == len(found) else None


def _around(op: Any) -> list[Any]:
    """The blocks that it is in, the outermost first: in a loop's body, what comes before the loop is seen, too."""
    found: list[Any] = []
    while op.parent is not None:
        found.append(op.block)
        op = op.parent.operation
    return found[::-1]


def _has_many_values(constant: Any) -> bool:
    """It is a tensor that is not one number all over."""
    type, value = constant.results[0].type, constant.attributes["value"]
    if not isinstance(type, ir.ShapedType) or ir.ShapedType(type).rank == 0:
        return False
    return not (isinstance(value, ir.DenseElementsAttr) and ir.DenseElementsAttr(value).is_splat)


def _from_outside(inner: Any, op: Any) -> list[Any]:
    """The operands of an operation within `op` that are defined around it."""
    return [value for value in inner.operands if not _inside(value, op)]


def _inside(value: Any, op: Any) -> bool:
    owner = value.owner
    around = owner.owner if isinstance(owner, ir.Block) else owner.operation.parent
    while around is not None:
        if around.operation == op:
            return True
        around = around.operation.parent
    return False


def _copied(operations: Sequence[Any], inputs: Sequence[Any]) -> Match:
    """The operations in a function of their own, whose names do not depend on the program."""
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
                    for number, value in enumerate(list(inner.operands)):
                        if value in new:
                            inner.operands[number] = new[value]
                new |= dict(zip(op.results, copy.results, strict=True))
            func.ReturnOp([new[last.results[0]]])
        return match_of(block, list(block.arguments))
