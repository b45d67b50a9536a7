"""Where the operands of an operation come from."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from autotuner.carriers.forms import CONSTANT

_KNOWN = (CONSTANT, "util.global.load", "flow.tensor.constant", "tensor.empty")
FILL, INSERTION = "linalg.fill", "tensor.insert_slice"


def start_of(op: Any) -> Any:
    """What computes the value that an operation starts from."""
    owner = op.operands[len(op.operands) - 1].owner
    return None if isinstance(owner, ir.Block) else owner.operation


def starts_from_zero(op: Any) -> bool:
    return is_zeros(op.operands[len(op.operands) - 1])


def is_zeros(value: Any) -> bool:
    """It is filled with a constant zero."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != FILL:
        return False
    number = owner.operation.operands[0].owner
    if isinstance(number, ir.Block) or number.operation.name != CONSTANT:
        return False
    attribute = number.operation.attributes["value"]
    return isinstance(attribute, ir.FloatAttr) and ir.FloatAttr(attribute).value == 0.0


def is_constant(value: Any) -> bool:
    """It is made from nothing but the program's own constants."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    op = owner.operation
    return op.name in _KNOWN or (bool(len(op.operands)) and all(map(is_constant, op.operands)))


def is_float(op: Any) -> bool:
    """Whole numbers may be meant with a sign or without, which types do not tell; the template's form does."""
    return all(isinstance(ir.ShapedType(value.type).element_type, ir.FloatType) for value in op.operands)


def before_pad(image: Any) -> Any:
    """What is surrounded by zeros, where a pad is spelt out as an insertion into them."""
    owner = image.owner
    if isinstance(owner, ir.Block) or owner.operation.name != INSERTION or not is_zeros(owner.operation.operands[1]):
        return None
    return owner.operation.operands[0]
