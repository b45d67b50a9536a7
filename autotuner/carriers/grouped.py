"""Grouped convolutions as importers write them: the channels are split into groups before one, and joined behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from autotuner.carriers.tails import BROADCAST, SUM, Tail
from autotuner.iree.mlir import maker, only_user

EXPAND, COLLAPSE = "tensor.expand_shape", "tensor.collapse_shape"
_RANK = 5
"""Of an image whose channels are split."""


@dataclass(frozen=True)
class Grouped:
    """What a grouped convolution is between: images without groups."""

    image: Any
    """Padded, perhaps."""
    expansion: Any
    """The operation that splits its channels."""
    weights: Any
    """Without groups, or with them: of constants the compiler has made others already."""
    tail: Tail
    """The sums, joined; with a bias, where they start from one."""


def read_grouped(op: Any, *, channel: int) -> Grouped | None:
    """None where it is not grouped, or its operands come from elsewhere. `channel` is that of the joined sums."""
    if ir.ShapedType(op.operands[0].type).rank != _RANK:
        return None
    expansion, joined = maker(op.operands[0], EXPAND), only_user(op, COLLAPSE)
    if expansion is None or joined is None:
        return None
    split = maker(op.operands[1], EXPAND)
    weights = op.operands[1] if split is None else split.operands[0]
    bias = _bias(op.operands[2], channel)
    added = () if bias is None else ((SUM, bias),)
    return Grouped(expansion.operands[0], expansion, weights, Tail(joined, added))


def _bias(start: Any, channel: int) -> Any:
    """The numbers, one for each channel, that sums start from; None where they start from something else."""
    split = maker(start, EXPAND)
    copies = None if split is None else maker(split.operands[0], BROADCAST)
    if copies is None:
        return None
    others = [axis for axis in range(_RANK - 1) if axis != channel]
    fitting = sorted(int(axis) for axis in copies.attributes["dimensions"]) == others
    return copies.operands[0] if fitting else None
