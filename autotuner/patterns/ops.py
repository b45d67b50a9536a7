"""The main operations of a program, and their names."""

from __future__ import annotations

from typing import Any

from iree.compiler.dialects import linalg

from autotuner.iree.mlir import maker

CONSTANT, GENERIC, PAD, ATTENTION = "arith.constant", "linalg.generic", "tensor.pad", "iree_linalg_ext.attention"


def is_main(op: Any) -> bool:
    """Whether an operation is a contraction, a convolution or an attention."""
    if op.name == ATTENTION:
        return True
    return bool(op.name.startswith("linalg.") and (linalg.isa_contraction_op(op) or linalg.isa_convolution_op(op)))


def start_of(op: Any) -> Any:
    """The initial value of an operation's result."""
    return op.operands[len(op.operands) - 1]


def described(op: Any) -> str:
    """An operation in words: its types, and its initial value."""
    types = ", ".join(str(value.type) for value in op.operands)
    start = maker(start_of(op))
    maps = f" {op.attributes['indexing_maps']}" if "indexing_maps" in op.attributes else ""
    result = ", ".join(str(value.type) for value in op.results)
    return f"{op.name}({types}) -> {result}, which starts from {'an argument' if start is None else start.name}{maps}"
