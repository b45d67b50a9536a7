"""What exporters write around an attention: heads are moved before the tokens, and behind them again in its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from autotuner.carriers.flat import is_copy
from autotuner.carriers.forms import GENERIC
from autotuner.carriers.grouped import COLLAPSE, EXPAND
from autotuner.iree.mlir import maker, only_user, positions
from autotuner.problems import Attention
from autotuner.problems.attention import PACKED, TOKENS_FIRST

_TURN = [0, 2, 1, 3]
"""From heads before tokens to tokens before heads, and back."""
_RANK = 4
SLICE, _TRANSPOSE = "tensor.extract_slice", "linalg.transpose"


@dataclass(frozen=True)
class Around:
    """An attention with what moves its heads."""

    problem: Attention
    root: Any
    """The operation whose result it is."""
    inputs: tuple[Any, ...]
    """Values of the program, in the order of the problem's operands."""


def read_around(op: Any, problem: Attention) -> Iterator[Around]:
    """The attention as wider problems, the widest first; `problem` is what it is by itself."""
    sources = [_before(value) for value in list(op.operands)[:3]]
    root = _behind(op)
    if root is None or any(source is None for source in sources):
        return
    batch, queries, heads, width = ir.ShapedType(root.results[0].type).shape
    if (batch * heads, queries, width) != (problem.batch * problem.heads, problem.queries, problem.width):
        return
    whole = replace(problem, batch=batch, heads=heads, flat=False, layout=TOKENS_FIRST)
    if not _are(sources, whole):
        return
    packed = _packed(sources)
    if packed is not None and _are([packed], replace(whole, layout=PACKED)):
        yield Around(replace(whole, layout=PACKED), root, (packed,))
    yield Around(whole, root, tuple(sources))


def _are(values: Sequence[Any], problem: Attention) -> bool:
    """Are they of the types of the problem's inputs?"""
    return [str(value.type) for value in values] == [operand.mlir for operand in problem.operands[:-1]]


def _before(value: Any) -> Any:
    """What has the tokens first, of which this has the heads first; None: nothing has."""
    merged = maker(value, COLLAPSE) if ir.ShapedType(value.type).rank < _RANK else None
    turned = maker(value if merged is None else merged.operands[0])
    if turned is None or not _turns(turned):
        return None
    # A reshape keeps the order of all elements: what it merges is told by the sizes.
    return turned.operands[0] if merged is None or _merges_heads(merged.operands[0], value) else None


def _behind(op: Any) -> Any:
    """The operation that moves the heads of the result behind the tokens, if nobody else takes it."""
    user = only_user(op)
    if user is not None and user.name == EXPAND:
        user = only_user(user) if _merges_heads(user.results[0], op.results[0]) else None
    return user if user is not None and _turns(user) else None


def _merges_heads(split: Any, merged: Any) -> bool:
    sizes = list(ir.ShapedType(split.type).shape)
    return len(sizes) == _RANK and [sizes[0] * sizes[1], *sizes[2:]] == list(ir.ShapedType(merged.type).shape)


def _turns(op: Any) -> bool:
    """It exchanges heads and tokens, and does no more."""
    if op.name == _TRANSPOSE:
        return [int(axis) for axis in op.attributes["permutation"]] == _TURN
    if op.name != GENERIC or len(op.operands) != 2 or not is_copy(op):
        return False
    given, made = (positions(ir.AffineMapAttr(entry).value) for entry in ir.ArrayAttr(op.attributes["indexing_maps"]))
    return sorted(made, key=str) == sorted(_TURN) == sorted(given, key=str) and [made.index(d) for d in given] == _TURN


def _packed(sources: Sequence[Any]) -> Any:
    """The one tensor that has all three, one beside the other in each row; None: they come from elsewhere."""
    slices = [maker(source, SLICE) for source in sources]
    if any(made is None or made.operands[0] != slices[0].operands[0] for made in slices):
        return None
    packed = slices[0].operands[0]
    sizes = list(ir.ShapedType(packed.type).shape)
    for number, made in enumerate(slices):
        offsets, lengths, steps = (
            list(made.attributes[name]) for name in ("static_offsets", "static_sizes", "static_strides")
        )
        if (len(made.operands), offsets, lengths, steps) != (
            1,
            [0, 0, number, 0, 0],
            [*sizes[:2], 1, *sizes[3:]],
            [1] * len(sizes),
        ):
            return None
    return packed
