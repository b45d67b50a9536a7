"""Sizes that are known only when a program runs, worked out for the inputs that it will be called with.

Within a loop they are those of its first round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: a // b,
    "arith.divui": lambda a, b: a // b,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.remsi": lambda a, b: a % b,
    "arith.remui": lambda a, b: a % b,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.maxui": max,
}
_PASSED_ON = ("arith.index_cast", "arith.index_castui", "util.assume.int", "util.optimization_barrier")
_DEEPEST = 64


class Sizes:
    """Follows a number back to the shapes of the function's inputs."""

    def __init__(self, function: Any, shapes: Sequence[tuple[int, ...] | None]) -> None:
        self._arguments = list(function.regions[0].blocks[0].arguments)
        # A caller gives tensors and numbers; fences stand between them.
        given = [i for i, argument in enumerate(self._arguments) if str(argument.type) != "!hal.fence"]
        self._shapes = dict(zip(given, shapes, strict=False))

    def of(self, value: Any) -> int | None:
        """The number that a value will have; None when the inputs do not tell it."""
        return self._of(value, 0)

    def rounds(self, op: Any) -> int:
        """How often an operation runs in one call: the rounds of the counted loops around it, as far as known."""
        count, parent = 1, op.parent
        while parent is not None:
            inner = parent.operation
            if inner.name == "scf.for":
                low, high, step = (self.of(value) for value in list(inner.operands)[:3])
                if low is not None and high is not None and step:
                    count *= max(-(-(high - low) // step), 1)
            parent = inner.parent
        return count

    def _of(self, value: Any, depth: int) -> int | None:
        owner = value.owner
        if depth > _DEEPEST:
            return None
        if isinstance(owner, ir.Block):
            start = _first_round(owner, ir.BlockArgument(value).arg_number)
            return None if start is None else self._of(start, depth + 1)
        op = owner.operation if hasattr(owner, "operation") else owner
        if op.name == "arith.constant":
            attribute = op.attributes["value"]
            return int(ir.IntegerAttr(attribute).value) if isinstance(attribute, ir.IntegerAttr) else None
        if op.name == "hal.buffer_view.dim":
            return self._dimension(op)
        if op.name in _PASSED_ON:
            number = next((i for i, result in enumerate(op.results) if result == value), 0)
            return self._of(op.operands[number], depth + 1)
        if op.name in _ARITHMETIC:
            left, right = (self._of(operand, depth + 1) for operand in op.operands)
            if left is None or right is None:
                return None
            try:
                return _ARITHMETIC[op.name](left, right)
            except ZeroDivisionError:
                return None
        return None

    def _dimension(self, op: Any) -> int | None:
        index = next((i for i, argument in enumerate(self._arguments) if argument == op.operands[0]), -1)
        shape = self._shapes.get(index)
        axis = int(ir.IntegerAttr(op.attributes["index"]).value)
        return shape[axis] if shape is not None and axis < len(shape) else None


def _first_round(block: Any, number: int) -> Any:
    """What an argument of a loop's block is when the loop begins; None of a block that is no loop's."""
    loop = block.owner.operation
    if loop.name == "scf.for":  # its bounds and step come first, the induction variable is the lower bound
        return loop.operands[0 if number == 0 else number + 2]
    if loop.name == "scf.while":
        before = loop.regions[0].blocks[0]
        if block == before:
            return loop.operands[number]
        return list(before.operations)[-1].operands[number + 1]  # behind the condition
    return None
