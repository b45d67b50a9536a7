"""Products of many rows that a program has as a batch: one matrix multiplies every entry of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from autotuner.carriers.forms import GENERIC, Forms, Match
from autotuner.iree.context import text_context
from autotuner.iree.mlir import positions
from autotuner.problems import Gemm, Operand, Problem

BROADCAST, YIELD = "linalg.broadcast", "linalg.yield"
_RANK = 3


def shared_matrix(op: Any) -> Any:
    """The matrix of which the second factor of a batched product has copies, as exporters write a linear layer."""
    if not linalg.isa_contraction_op(op) or any(ir.ShapedType(value.type).rank != _RANK for value in op.operands):
        return None
    owner = op.operands[1].owner
    if isinstance(owner, ir.Block):
        return None
    made = owner.operation
    if made.name == BROADCAST:
        return made.operands[0] if [int(d) for d in made.attributes["dimensions"]] == [0] else None
    if made.name != GENERIC or len(made.operands) != 2:
        return None
    maps = [positions(ir.AffineMapAttr(entry).value) for entry in ir.ArrayAttr(made.attributes["indexing_maps"])]
    block = made.regions[0].blocks[0]
    body = [child.operation for child in block.operations]
    copies = body[0].name == YIELD and body[0].operands[0] == block.arguments[0]
    return made.operands[0] if copies and maps == [[1, 2], [0, 1, 2]] else None


def is_or_becomes(type: Any, operand: Operand) -> bool:
    """A tensor of this type is the operand, or is it once its first two dimensions are one."""
    shape, element = list(ir.RankedTensorType(type).shape), str(ir.RankedTensorType(type).element_type)
    merged = [shape[0] * shape[1], *shape[2:]] if len(shape) == _RANK else shape
    return element == operand.element.mlir and list(operand.shape) in (shape, merged)


@dataclass(frozen=True, slots=True)
class Flattening:
    """The function that takes what one form has, with a batch, and calls the function around the kernel without."""

    match: int
    """Which of the kernel's forms it is for."""
    arguments: tuple[str, ...]
    """Types."""
    result: str
    shape: tuple[int, ...]


def flattenings(problem: Problem, forms: Forms) -> tuple[Flattening, ...]:
    """One for each form with a batch that the problem has not."""
    if not isinstance(problem, Gemm):
        return ()
    return tuple(_flattening(n, match, problem) for n, match in enumerate(forms.matches) if match.flat)


def _flattening(number: int, match: Match, problem: Gemm) -> Flattening:
    types = tuple(type for _, type in match.arguments)
    with text_context():
        batch, rows, _ = ir.RankedTensorType(ir.Type.parse(types[0])).shape
    shape = (batch, rows, problem.n)
    result = f"tensor<{batch}x{rows}x{problem.n}x{problem.output.element.mlir}>"
    return Flattening(number, types, result, shape)
