"""The attentions of a program: with the masks that make them causal, and with what exporters write around them, where
heads are moved before the tokens, and behind them again in the result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotuner.errors import AutotuneError
from autotuner.iree.mlir import maker
from autotuner.patterns.evaluate import known_values
from autotuner.patterns.graph import (
    COLLAPSE,
    CONSTANT,
    EXPAND,
    GENERIC,
    SLICE,
    TRANSPOSE,
    affine_maps,
    body,
    element,
    integers,
    is_copy,
    loops,
    number,
    only_user,
    rank,
    shape,
)
from autotuner.problems import Attention
from autotuner.problems.attention import PACKED, TOKENS_FIRST
from autotuner.problems.dtypes import ACCUMULATORS

_FLAT_RANK, _RANK = 3, 4
_SCALES = {"f32": 1e-6, "f16": 1e-3, "bf16": 1e-2}
"""How well a type has the scale of an attention."""
_SCALE, _MASK = 3, 4
"""Places among the operands: query, key, value, scale, perhaps a mask, and the result."""
_TURN = [0, 2, 1, 3]
"""From heads before tokens to tokens before heads, and back."""


@dataclass(frozen=True)
class Around:
    """An attention with what moves its heads."""

    problem: Attention
    root: Any
    """The operation whose result it is."""
    inputs: tuple[Any, ...]
    """Values of the program, in the order of the problem's operands."""


class Masks:
    """Those of one program. Layers share a mask: it is computed once."""

    def __init__(self) -> None:
        self._causal: dict[tuple[Any, str, int], bool] = {}

    def is_causal(self, op: Any, *, lead: int) -> bool:
        """Query i sees keys 0 to i and no more, whatever head it is of. `lead` loops are those of batch and heads."""
        about = (op.operands[_MASK], str(affine_maps(op)[_MASK]), lead)
        if about not in self._causal:
            self._causal[about] = _is_causal(op.operands[_MASK], loops(op)[_MASK], lead)
        return self._causal[about]


def _is_causal(mask: Any, axes: list[int | None], lead: int) -> bool:
    """A mask of numbers is added to the scores. Only -inf hides a key from every query: what is finite, -1e4 or the
    lowest number of the type, is not far below all scores that a program may have."""
    query, key = lead, lead + 3  # of the loops: batch and heads, queries, width of values, width of keys, keys
    if not {query, key} <= set(axes) <= {*range(lead), query, key}:
        return False
    values = known_values(mask)
    if values is None:
        return False
    places = axes.index(query), axes.index(key)
    values, sizes = np.moveaxis(values, places, (-2, -1)), [shape(mask)[place] for place in places]
    seen = np.tri(*sizes, dtype=np.bool_)
    if values.dtype == np.bool_:
        return bool((values == seen).all())
    return bool(((values == 0) == seen).all() and ((values == -np.inf) != seen).all())


def read_attention(op: Any, dtype: str, masks: Masks) -> Iterator[Attention]:
    """As a problem, if it is one: with no mask or the causal one, scaled by 1/√D, its scores taken as they are."""
    query, key = op.operands[0], op.operands[1]
    flat = rank(query) == _FLAT_RANK
    if not (flat or rank(query) == _RANK) or rank(key) != rank(query) or dtype not in ACCUMULATORS:
        return
    *lead, queries, width = shape(query)
    if not _is_scaled(op, width) or not _takes_scores_as_they_are(op):
        return
    if _is_masked(op) and not masks.is_causal(op, lead=len(lead)):
        return
    try:
        attention = Attention.parse(
            shape="x".join(map(str, (*lead, *([1] if flat else []), queries, shape(key)[-2], width))),
            dtype=dtype,
            causal=_is_masked(op),
        )
    except AutotuneError:
        return
    attention = replace(attention, flat=flat)
    yield attention if dtype != "f8" else attention.with_f8(element(query))


def signature(op: Any) -> tuple[object, ...]:
    """What two attentions have in common that differ in the type of the scale or in how the mask is spelt, at most."""
    beside = (_SCALE, _MASK) if _is_masked(op) else (_SCALE,)
    mattering = [place for place in range(len(op.operands)) if place not in beside]
    maps = affine_maps(op)
    return (len(op.operands), *((str(op.operands[place].type), str(maps[place])) for place in mattering))


def _is_masked(op: Any) -> bool:
    return len(op.operands) > _MASK + 1


def _is_scaled(op: Any, width: int) -> bool:
    """By the constant that the problem means: 1/√D, as well as its type has it."""
    constant = maker(op.operands[_SCALE], CONSTANT)
    if constant is None:
        return False
    return math.isclose(number(constant), 1 / math.sqrt(width), rel_tol=_SCALES.get(str(op.operands[_SCALE].type), 0.0))


def _takes_scores_as_they_are(op: Any) -> bool:
    """Its region, which could cap them, does nothing."""
    arguments, operations = body(op)
    return len(operations) == 1 and list(operations[0].operands) == arguments


def read_around(op: Any, problem: Attention) -> Iterator[Around]:
    """The attention as wider problems, the widest first; `problem` is what it is by itself."""
    sources = [_before(value) for value in list(op.operands)[:3]]
    root = _behind(op)
    if root is None or any(source is None for source in sources):
        return
    batch, queries, heads, width = shape(root.results[0])
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
    merged = maker(value, COLLAPSE) if rank(value) < _RANK else None
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
    sizes = shape(split)
    return len(sizes) == _RANK and [sizes[0] * sizes[1], *sizes[2:]] == shape(merged)


def _turns(op: Any) -> bool:
    """It exchanges heads and tokens, and does no more."""
    if op.name == TRANSPOSE:
        return integers(op, "permutation") == (_TURN,)
    if op.name != GENERIC or len(op.operands) != 2 or not is_copy(op):
        return False
    given, made = loops(op)
    return sorted(made, key=str) == sorted(_TURN) == sorted(given, key=str) and [made.index(d) for d in given] == _TURN


def _packed(sources: Sequence[Any]) -> Any:
    """The one tensor that has all three, one beside the other in each row; None: they come from elsewhere."""
    slices = [maker(source, SLICE) for source in sources]
    if any(made is None or made.operands[0] != slices[0].operands[0] for made in slices):
        return None
    packed = slices[0].operands[0]
    sizes = shape(packed)
    for place, made in enumerate(slices):
        cut = integers(made, "static_offsets", "static_sizes", "static_strides")
        wanted = ([0, 0, place, 0, 0], [*sizes[:2], 1, *sizes[3:]], [1] * len(sizes))
        if len(made.operands) != 1 or cut != wanted:
            return None
    return packed
