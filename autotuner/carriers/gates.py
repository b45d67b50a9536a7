"""Gates: a product whose activated results are multiplied with those of another one of the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from autotuner.carriers.forms import GENERIC
from autotuner.carriers.grouped import COLLAPSE, EXPAND
from autotuner.carriers.heads import SLICE
from autotuner.carriers.tails import PRODUCT, YIELD, Tail, read_tails
from autotuner.iree.mlir import only_user, positions
from autotuner.problems.epilogue import TURN


@dataclass(frozen=True)
class Gate:
    """What becomes of a gate."""

    activation: str
    other: Any
    """The value that it is for."""
    root: Any
    """The operation that multiplies both, or merges the rows of what they are."""
    rounded: str = ""
    """The type of both, where sums were rounded."""


def read_gate(op: Any) -> Gate | None:
    """The results of an operation as gates; None where they are none, or something else, too."""
    channel = int(ir.ShapedType(op.results[0].type).rank) - 1
    for tail in read_tails(Tail(op), channel=channel):
        if tail.activation and tail.bare and not tail.rounded:
            root = only_user(tail.root, GENERIC)
            other = None if root is None else _multiplied(root, tail.root.results[0])
            return None if other is None else Gate(tail.activation, other, root)
    return None


def read_gated(op: Any) -> Gate | None:
    """The sums of a product, of which `TURN` columns are gates and as many are what these are for, in turns."""
    for tail in read_tails(Tail(op), channel=1):
        turns = only_user(tail.root, EXPAND)
        if turns is not None and tail.bare and not tail.activation:
            return _of_turns(turns, tail.rounded)
    return None


def _of_turns(turns: Any, rounded: str) -> Gate | None:
    rows, columns = ir.ShapedType(turns.operands[0].type).shape
    if list(ir.ShapedType(turns.results[0].type).shape) != [rows, columns // (2 * TURN), 2, TURN]:
        return None
    parts: dict[int, Any] = {}
    for use in turns.results[0].uses:
        number, part = _part(use.owner.operation)
        if part is None or number in parts:
            return None
        parts[number] = part
    gate = read_gate(parts[0]) if len(parts) == 2 else None
    if gate is None or gate.other != parts[1].results[0]:
        return None
    # The rows of a batch are those of one product.
    root = gate.root if ir.ShapedType(gate.root.results[0].type).rank == 2 else only_user(gate.root, COLLAPSE)
    if root is None or list(ir.ShapedType(root.results[0].type).shape) != [rows, columns // 2]:
        return None
    return Gate(gate.activation, gate.other, root, rounded)


def _part(op: Any) -> tuple[int, Any]:
    """Which of the turns a slice has, and the operation that gives it as one matrix, or as a batch of its rows."""
    if op.name != SLICE or len(op.operands) != 1:
        return 0, None
    offsets = list(op.attributes["static_offsets"])
    sizes = list(ir.ShapedType(op.operands[0].type).shape)
    if offsets[:2] != [0, 0] or offsets[3] or list(op.attributes["static_sizes"]) != [*sizes[:2], 1, sizes[3]]:
        return 0, None
    merged = only_user(op, COLLAPSE)
    if merged is None or list(ir.ShapedType(merged.results[0].type).shape) != [sizes[0], sizes[1] * sizes[3]]:
        return 0, None
    split = only_user(merged, EXPAND)
    if split is None:
        return offsets[2], merged
    *_, columns = ir.ShapedType(split.results[0].type).shape
    return offsets[2], split if columns == sizes[1] * sizes[3] else None


def _multiplied(generic: Any, value: Any) -> Any:
    """What this operation multiplies the value with, element by element; None: it does something else."""
    block = generic.regions[0].blocks[0]
    body = [child.operation for child in block.operations]
    maps = [positions(ir.AffineMapAttr(entry).value) for entry in ir.ArrayAttr(generic.attributes["indexing_maps"])]
    whole = list(range(int(ir.ShapedType(generic.results[0].type).rank)))
    if [op.name for op in body] != [PRODUCT, YIELD] or maps != [whole] * 3 or len(generic.operands) != len(maps):
        return None
    if set(body[0].operands) != set(list(block.arguments)[:2]) or body[1].operands[0] != body[0].results[0]:
        return None
    first, second, _ = generic.operands
    return second if first == value else first
