"""Recognises attention: with masks that make it causal, and with the transposes that exporters write around it, which
move heads before the tokens and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotuner.errors import AutotuneError
from autotuner.iree.mlir import affine_maps, maker
from autotuner.patterns import graph
from autotuner.patterns.evaluate import known_values
from autotuner.problems.attention import PACKED, TOKENS_FIRST, Attention
from autotuner.problems.dtypes import ACCUMULATORS

SCALES = {"f32": 1e-6, "f16": 1e-3, "bf16": 1e-2}
"""The relative precision of the scale, by type."""
_SCALE, _MASK = 3, 4
"""Operand indices: query, key, value, scale, perhaps a mask, and the result."""
TURN = [0, 2, 1, 3]
"""The permutation that exchanges heads and tokens."""


@dataclass(frozen=True)
class AttentionWithTransposes:
    """An attention with the transposes of its heads."""

    problem: Attention
    root: Any
    """The operation whose result it is."""
    inputs: tuple[Any, ...]
    """Values of the program, in the order of the problem's operands."""


Masks = dict[tuple[Any, str, int], bool]
"""Whether each of a program's masks is causal: layers share masks, so the answer is kept."""


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
    values, sizes = np.moveaxis(values, places, (-2, -1)), [graph.shape(mask)[place] for place in places]
    seen = np.tri(*sizes, dtype=np.bool_)
    if values.dtype == np.bool_:
        return bool((values == seen).all())
    return bool(((values == 0) == seen).all() and ((values == -np.inf) != seen).all())


def read_attention(op: Any, dtype: str, masks: Masks) -> Iterator[Attention]:
    """The attention as a problem, if its mask is causal or none, its scale 1/√D, and its scores are unchanged."""
    query, key = op.operands[0], op.operands[1]
    flat = graph.rank(query) == 3
    if not (flat or graph.rank(query) == 4) or graph.rank(key) != graph.rank(query) or dtype not in ACCUMULATORS:
        return
    *lead, queries, width = graph.shape(query)
    if not _is_scaled(op, width) or not _takes_scores_as_they_are(op) or not _has_usual_operands(op, len(lead)):
        return
    if _is_masked(op):
        about = (op.operands[_MASK], str(affine_maps(op)[_MASK]), len(lead))
        if about not in masks:
            masks[about] = _is_causal(op.operands[_MASK], graph.loops(op)[_MASK], len(lead))
        if not masks[about]:
            return
    try:
        attention = Attention.parse(
            shape="x".join(map(str, (*lead, *([1] if flat else []), queries, graph.shape(key)[-2], width))),
            dtype=dtype,
            causal=_is_masked(op),
        )
    except AutotuneError:
        return
    attention = replace(attention, flat=flat)
    yield attention if dtype != "f8" else attention.with_f8(graph.element(query))


def _has_usual_operands(op: Any, lead: int) -> bool:
    """Whether query, key, value and result have the usual maps, with `lead` loops for batch and heads."""
    first, (m, n, k1, k2) = list(range(lead)), range(lead, lead + 4)
    query, key, value, *_, result = graph.loops(op)
    usual = [[*first, m, k1], [*first, k2, k1], [*first, k2, n], [*first, m, n]]
    types = [one.type for one in (*op.operands[:3], *op.results)]
    alike = graph.element(op.operands[0]) == graph.element(op.operands[1])
    return [query, key, value, result] == usual and types[0] == types[3] and types[1] == types[2] and alike


def _is_masked(op: Any) -> bool:
    return len(op.operands) > _MASK + 1


def _is_scaled(op: Any, width: int) -> bool:
    """Whether its scale is 1/√D, in the precision of its type."""
    scale, type = graph.number(op.operands[_SCALE]), str(op.operands[_SCALE].type)
    return scale is not None and math.isclose(scale, 1 / math.sqrt(width), rel_tol=SCALES.get(type, 0.0))


def _takes_scores_as_they_are(op: Any) -> bool:
    """Whether its region leaves the scores unchanged."""
    arguments, operations = graph.body(op)
    return len(operations) == 1 and list(operations[0].operands) == arguments


def read_around(op: Any, problem: Attention) -> Iterator[AttentionWithTransposes]:
    """The attention as wider problems, the widest first; `problem` is what it is by itself."""
    sources = [_before(value) for value in list(op.operands)[:3]]
    root = behind(op)
    if root is None or any(source is None for source in sources):
        return
    batch, queries, heads, width = graph.shape(root.results[0])
    if (batch * heads, queries, width) != (problem.batch * problem.heads, problem.queries, problem.width):
        return
    whole = replace(problem, batch=batch, heads=heads, flat=False, layout=TOKENS_FIRST)
    if not are_inputs(sources, whole):
        return
    around = AttentionWithTransposes(whole, root, tuple(sources))
    yield from filter(None, (packed(around), around))


def packed(around: AttentionWithTransposes) -> AttentionWithTransposes | None:
    """The same of one input that holds query, key and value; None: they are not side by side."""
    whole, problem = _packed(around.inputs), replace(around.problem, layout=PACKED)
    return replace(around, problem=problem, inputs=(whole,)) if whole and are_inputs([whole], problem) else None


def are_inputs(values: Sequence[Any], problem: Attention) -> bool:
    """Whether values have the types of the problem's inputs."""
    return [str(value.type) for value in values] == [operand.mlir for operand in problem.operands[:-1]]


def _before(value: Any) -> Any:
    """The value with tokens first that this one is the transpose of; None: there is none."""
    merged = maker(value, graph.COLLAPSE) if graph.rank(value) < 4 else None
    turned = maker(value if merged is None else merged.operands[0])
    if turned is None or graph.permutation(turned) != TURN:
        return None
    # A reshape keeps the order of all elements: what it merges is told by the sizes.
    return turned.operands[0] if merged is None or merges_heads(merged.operands[0], value) else None


def behind(op: Any) -> Any:
    """The operation that transposes the result back, if it is the only user."""
    user = graph.only_user(op)
    if user is not None and user.name == graph.EXPAND:
        user = graph.only_user(user) if merges_heads(user.results[0], op.results[0]) else None
    return user if user is not None and graph.permutation(user) == TURN else None


def merges_heads(split: Any, merged: Any) -> bool:
    sizes = graph.shape(split)
    return len(sizes) == 4 and [sizes[0] * sizes[1], *sizes[2:]] == graph.shape(merged)


def _packed(sources: Sequence[Any]) -> Any:
    """The tensor that holds query, key and value side by side in each row; None: there is none."""
    slices = [maker(source, graph.SLICE) for source in sources]
    if any(made is None or made.operands[0] != slices[0].operands[0] for made in slices):
        return None
    packed = slices[0].operands[0]
    sizes = graph.shape(packed)
    for place, made in enumerate(slices):
        cut = graph.integers(made, "static_offsets", "static_sizes", "static_strides")
        wanted = ([0, 0, place, 0, 0], [*sizes[:2], 1, *sizes[3:]], [1] * len(sizes))
        if len(made.operands) != 1 or cut != wanted:
            return None
    return packed
