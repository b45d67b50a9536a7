"""Where the operands of an operation come from."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from autotuner.carriers.forms import CONSTANT
from autotuner.iree.mlir import maker

_KNOWN = (CONSTANT, "util.global.load", "flow.tensor.constant", "tensor.empty")
FILL, INSERTION = "linalg.fill", "tensor.insert_slice"


def start_of(op: Any) -> Any:
    """What computes the value that an operation starts from."""
    return maker(op.operands[len(op.operands) - 1])


def starts_from_zero(op: Any) -> bool:
    return is_zeros(op.operands[len(op.operands) - 1])


def is_zeros(value: Any) -> bool:
    """It is filled with a constant zero."""
    fill = maker(value, FILL)
    number = None if fill is None else maker(fill.operands[0], CONSTANT)
    if number is None:
        return False
    attribute = number.attributes["value"]
    return isinstance(attribute, ir.FloatAttr) and ir.FloatAttr(attribute).value == 0.0


def is_constant(value: Any) -> bool:
    """It is made from nothing but the program's own constants."""
    op = maker(value)
    if op is None:
        return False
    return op.name in _KNOWN or (bool(len(op.operands)) and all(map(is_constant, op.operands)))


def is_float(op: Any) -> bool:
    """Whole numbers may be meant with a sign or without, which types do not tell; the template's form does."""
    return all(isinstance(ir.ShapedType(value.type).element_type, ir.FloatType) for value in op.operands)


def before_pad(image: Any) -> Any:
    """What is surrounded by zeros, where a pad is spelt out as an insertion into them."""
    insertion = maker(image, INSERTION)
    return insertion.operands[0] if insertion is not None and is_zeros(insertion.operands[1]) else None
