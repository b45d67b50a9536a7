"""What a program has with more dimensions than the problem: rows in a batch that one matrix multiplies, weights split
into groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from autotuner.carriers.forms import GENERIC, Forms, Match
from autotuner.iree.context import text_context
from autotuner.iree.mlir import maker, positions
from autotuner.problems import Conv, Gemm, Operand, Problem

BROADCAST, YIELD = "linalg.broadcast", "linalg.yield"
ROWS, GROUPS = "[[0, 1], [2]]", "[[0, 1], [2], [3], [4]]"
_RANK = 3


def shared_matrix(op: Any) -> Any:
    """The matrix of which the second factor of a batched product has copies, as exporters write a linear layer."""
    if not linalg.isa_contraction_op(op) or any(ir.ShapedType(value.type).rank != _RANK for value in op.operands):
        return None
    made = maker(op.operands[1], BROADCAST, GENERIC)
    if made is None:
        return None
    if made.name == BROADCAST:
        return made.operands[0] if [int(d) for d in made.attributes["dimensions"]] == [0] else None
    if len(made.operands) != 2:
        return None
    maps = [positions(ir.AffineMapAttr(entry).value) for entry in ir.ArrayAttr(made.attributes["indexing_maps"])]
    return made.operands[0] if is_copy(made) and maps == [[1, 2], [0, 1, 2]] else None


def is_copy(generic: Any) -> bool:
    """Its elements are those of its first operand, as they are."""
    block = generic.regions[0].blocks[0]
    body = [child.operation for child in block.operations]
    return bool(body[0].name == YIELD and body[0].operands[0] == block.arguments[0])


def is_or_becomes(type: Any, operand: Operand) -> bool:
    """A tensor of this type is the operand, or is it once its first two dimensions are one."""
    shape, element = list(ir.RankedTensorType(type).shape), str(ir.RankedTensorType(type).element_type)
    merged = [shape[0] * shape[1], *shape[2:]] if len(shape) == _RANK else shape
    return element == operand.element.mlir and list(operand.shape) in (shape, merged)


@dataclass(frozen=True, slots=True)
class Flattening:
    """The function that takes what one form has, and calls the function around the kernel with fewer dimensions."""

    match: int
    """Which of the kernel's forms it is for."""
    arguments: tuple[str, ...]
    """Types."""
    merged: str
    """The dimensions of an argument that become one, where it has more than the kernel's."""
    result: str
    shape: tuple[int, ...]


def flattenings(problem: Problem, forms: Forms) -> tuple[Flattening, ...]:
    """One for each form with dimensions that the problem has not; what is folded is merged where it is folded."""
    flat = [(number, match) for number, match in enumerate(forms.matches) if match.flat and not match.channelwise]
    if isinstance(problem, Conv):
        out = problem.output
        return tuple(Flattening(number, _types(match), GROUPS, out.mlir, out.shape) for number, match in flat)
    return tuple(_flattening(number, match, problem) for number, match in flat) if isinstance(problem, Gemm) else ()


def _flattening(number: int, match: Match, problem: Gemm) -> Flattening:
    types = _types(match)
    with text_context():
        batch, rows, _ = ir.RankedTensorType(ir.Type.parse(types[0])).shape
    shape = (batch, rows, problem.n)
    result = f"tensor<{batch}x{rows}x{problem.n}x{problem.output.element.mlir}>"
    return Flattening(number, types, ROWS, result, shape)


def _types(match: Match) -> tuple[str, ...]:
    return tuple(type for _, type in match.arguments)
