"""Queries on a program for recognisers: producers and users of values, shapes, constants, maps, bodies."""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from autotuner.iree.mlir import affine_maps, maker, positions
from autotuner.patterns.ops import CONSTANT, GENERIC

EMPTY, FILL, YIELD = "tensor.empty", "linalg.fill", "linalg.yield"
BROADCAST, TRANSPOSE = "linalg.broadcast", "linalg.transpose"
EXPAND, COLLAPSE = "tensor.expand_shape", "tensor.collapse_shape"
SLICE, INSERTION = "tensor.extract_slice", "tensor.insert_slice"
SUM, DIFFERENCE, PRODUCT, QUOTIENT = "arith.addf", "arith.subf", "arith.mulf", "arith.divf"
_KNOWN = (CONSTANT, "util.global.load", "flow.tensor.constant", EMPTY)


def shape(value: Any) -> list[int]:
    return list(ir.ShapedType(value.type).shape)


def rank(value: Any) -> int:
    return int(ir.ShapedType(value.type).rank)


def element(value: Any) -> str:
    """The type of a tensor's elements."""
    return str(ir.ShapedType(value.type).element_type)


def is_tensor(value: Any) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def users(op: Any) -> set[Any]:
    """The operations that take its result."""
    return {use.owner.operation for use in op.results[0].uses}


def only_user(op: Any, *names: str) -> Any:
    """The operation that takes the result of this one; None where there are others, or it has none of these names."""
    takers = [use.owner.operation for use in op.results[0].uses]
    return takers[0] if len(takers) == 1 and (not names or takers[0].name in names) else None


def _order(one: Any, other: Any) -> int:
    return -1 if one.is_before_in_block(other) else 1


by_place = cmp_to_key(_order)
"""Sorts operations of a block as they stand in it."""


def loops(op: Any) -> list[list[int | None]]:
    """For each operand, the loop of each dimension; None where it is not a plain loop."""
    return [positions(one) for one in affine_maps(op)]


def reductions(op: Any) -> list[bool]:
    """For each loop, whether it is a reduction."""
    return ["parallel" not in str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]


def body(op: Any) -> tuple[list[Any], list[Any]]:
    """The arguments of an operation's region, and the operations in it."""
    block = op.regions[0].blocks[0]
    return list(block.arguments), [child.operation for child in block.operations]


def integers(op: Any, *names: str) -> tuple[list[int], ...]:
    """Attributes that are lists of numbers."""
    return tuple([int(number) for number in op.attributes[name]] for name in names)


def number(value: Any) -> Any:
    """The number of a constant or of a splat tensor; None: it is something else."""
    constant = maker(value, CONSTANT)
    if constant is None:
        return None
    attribute = constant.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not ir.DenseElementsAttr(attribute).is_splat:
            return None
        attribute = ir.DenseElementsAttr(attribute).get_splat_value()
    return attribute.value if isinstance(attribute, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr)) else None


def is_constant(value: Any) -> bool:
    """Whether a value depends on the program's constants alone."""
    waiting, seen = [value], set()
    while waiting:  # a network may be thousands of operations deep
        op = maker(waiting.pop())
        if op is None or (op.name not in _KNOWN and not len(op.operands)):
            return False
        if op.name not in _KNOWN and op not in seen:
            seen.add(op)
            waiting.extend(op.operands)
    return True


def is_zeros(value: Any) -> bool:
    """Whether a value is filled with zeros, or a constant of zeros."""
    fill = maker(value, FILL)
    zero = number(value if fill is None else fill.operands[0])
    return isinstance(zero, float) and zero == 0.0


def is_float(op: Any) -> bool:
    """Whether all operands are floats; types do not tell signed integers from unsigned ones, the template's form
    does."""
    return all(isinstance(ir.ShapedType(value.type).element_type, ir.FloatType) for value in op.operands)


def before_pad(image: Any) -> Any:
    """The value before padding, where a pad is written as an insertion into zeros."""
    insertion = maker(image, INSERTION)
    return insertion.operands[0] if insertion is not None and is_zeros(insertion.operands[1]) else None


def permutation(op: Any) -> list[int]:
    """The order in which an operation has its operand's dimensions, where it does nothing else; empty: it does."""
    if op.name == TRANSPOSE:
        return integers(op, "permutation")[0]
    if op.name != GENERIC or len(op.operands) != 2 or not is_copy(op):
        return []
    given, made = loops(op)
    return [given.index(d) for d in made] if None not in given and set(given) == set(made) else []


def is_copy(generic: Any) -> bool:
    """Whether its result is a copy of its first operand."""
    arguments, operations = body(generic)
    return bool(operations[0].name == YIELD and operations[0].operands[0] == arguments[0])


def shared_matrix(op: Any) -> Any:
    """The matrix that the second factor of a batched product repeats, as exporters write a linear layer."""
    if not linalg.isa_contraction_op(op) or any(rank(value) != 3 for value in op.operands):
        return None
    copied, merges = op.operands[1], maker(op.operands[1], COLLAPSE)
    if merges is not None and splits_first(merges.operands[0], merges):
        copied = merges.operands[0]
    made = maker(copied, BROADCAST, GENERIC)
    if made is None:
        return None
    *added, row, column = range(rank(copied))
    if made.name == BROADCAST:
        return made.operands[0] if integers(made, "dimensions") == (added,) else None
    copies = len(made.operands) == 2 and is_copy(made) and loops(made) == [[row, column], [*added, row, column]]
    return made.operands[0] if copies else None


def splits_first(split: Any, op: Any) -> bool:
    """Whether this reshape keeps all dimensions but the first, which is several in the value `split`."""
    whole = op.results[0] if op.operands[0] == split else op.operands[0]
    kept = shape(whole)[1:]
    return rank(split) > rank(whole) and shape(split)[-len(kept) :] == kept


def merged(sizes: list[int], rank: int) -> list[int]:
    """Sizes with the first dimensions merged so far: the rows of a batch become those of one matrix."""
    many = len(sizes) - rank + 1
    return [math.prod(sizes[:many]), *sizes[many:]] if many > 1 else sizes
