"""Recognises attention that exporters write as two products with a softmax between them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from autotuner.errors import AutotuneError
from autotuner.iree.mlir import dispatch_of, maker, map_positions
from autotuner.patterns import graph, ops
from autotuner.patterns.attention import SCALES, TURN, AttentionWithTransposes, are_inputs, behind, packed
from autotuner.problems.attention import TOKENS_FIRST, Attention
from autotuner.problems.dtypes import ACCUMULATORS

_CASTS = ("arith.truncf", "arith.extf")
_RESHAPES = (graph.EXPAND, graph.COLLAPSE)
_KEYS_LAST = [0, 2, 3, 1]
"""The permutation that brings keys with tokens first into the columns of a right factor."""
_LOWEST = -6e4
"""No score of any type is far below it: a maximum that starts there is that of the scores."""


@dataclass(frozen=True)
class _Scaled:
    """A value of the program, and the number that it was multiplied by since."""

    value: Any
    factor: float = 1.0


@dataclass(frozen=True)
class _Source:
    """What a factor is made from, before it is scaled, transposed and reshaped."""

    factor: float
    flat: Any = None
    """Tokens behind one dimension for batch and heads."""
    tokens: Any = None
    """Tokens before the heads."""


def read_unfused(op: Any) -> tuple[list[AttentionWithTransposes], Any]:
    """The attentions that end with this product, the widest first, and the product of their scores."""
    scores = _scores(op.operands[0]) if graph.rank(op.operands[0]) == 3 else None
    product = None if scores is None else maker(scores.value)
    if scores is None or product is None or not (_is_plain(product) and graph.is_zeros(ops.start_of(product))):
        return [], None
    sources = _source(product.operands[0]), _source(product.operands[1], across=True), _source(op.operands[1])
    factor = scores.factor * sources[0].factor * sources[1].factor
    width, dtype = graph.shape(op.results[0])[-1], graph.element(op.operands[1])
    close = math.isclose(factor, width**-0.5, rel_tol=SCALES.get(dtype, 0.0))
    if not close or sources[2].factor != 1.0 or dtype not in ACCUMULATORS:
        return [], None
    narrowed, alike = _narrowed(op), graph.shape(product.results[0]) == graph.shape(op.operands[0])
    wide = _read(behind(narrowed), [one.tokens for one in sources], dtype)
    flat = _read(narrowed, [one.flat for one in sources], dtype)
    return [one for one in (wide and packed(wide), wide, flat) if alike and one is not None], product


def _is_plain(product: Any) -> bool:
    """Whether it is a product of rows and columns as they lie: its right factor is not transposed by its maps."""
    dispatch = dispatch_of(product) if ops.is_main(product) else None
    if dispatch is None or dispatch.kind != "contraction":
        return False
    batch, m, n, k = (dispatch.dims(role) for role in ("batch", "m", "n", "k"))
    return list(map(map_positions, dispatch.maps)) == [[*batch, *m, *k], [*batch, *k, *n], [*batch, *m, *n]]


def _read(root: Any, inputs: list[Any], dtype: str) -> AttentionWithTransposes | None:
    """The attention of these values, if its types are theirs."""
    if root is None or any(one is None for one in inputs):
        return None
    flat = graph.rank(inputs[0]) == 3
    *lead, width = graph.shape(inputs[0])
    batch, queries, heads = (*lead, 1) if flat else lead
    try:
        problem = Attention.parse(shape=f"{batch}x{heads}x{queries}x{graph.shape(inputs[1])[1]}x{width}", dtype=dtype)
    except AutotuneError:
        return None
    problem = replace(problem, flat=flat, layout=problem.layout if flat else TOKENS_FIRST)
    right = are_inputs(inputs, problem) and str(root.results[0].type) == problem.output.mlir
    return AttentionWithTransposes(problem, root, tuple(inputs)) if right else None


def _source(factor: Any, *, across: bool = False) -> _Source:
    """What a factor of three dimensions is made from; `across`: its tokens lie across, as those of keys do."""
    at, number, flat = factor, 1.0, None
    while (op := maker(at)) is not None:
        flat = at if graph.rank(at) == 3 and not across else flat
        turned = graph.permutation(op)
        if op.name in _RESHAPES and graph.shape(op.operands[0])[-2:] == graph.shape(at)[-2:]:
            at = op.operands[0]
        elif (scaled := _scaled(at)) is not None:
            at, number, flat = scaled.value, number * scaled.factor, None
        elif across and turned and turned == [*range(len(turned) - 2), len(turned) - 1, len(turned) - 2]:
            at, across = op.operands[0], False
        else:
            return _Source(number, flat, op.operands[0] if turned == (_KEYS_LAST if across else TURN) else None)
    return _Source(number, flat if flat is not None or across or graph.rank(at) != 3 else at)


def _narrowed(op: Any) -> Any:
    """The operation that rounds this one's result, if there is one."""
    user = graph.only_user(op, ops.GENERIC)
    return user if user is not None and _name(user.results[0]) in _CASTS else op


def _scores(weights: Any) -> _Scaled | None:
    """The scores of which these are the softmax over the last dimension, before they are scaled."""
    quotient = _operands(_plain(weights), graph.QUOTIENT)
    power = None if quotient is None else _operands(quotient[0], "math.exp")
    shifted = None if power is None else _operands(power[0], graph.DIFFERENCE)
    if quotient is None or shifted is None:
        return None
    sums = _reduces(quotient[1], graph.SUM, quotient[0])
    if not sums or not _reduces(shifted[1], "arith.maximumf", shifted[0]):
        return None
    found = _Scaled(_plain(shifted[0]))
    while (scaled := _scaled(found.value)) is not None:
        found = _Scaled(_plain(scaled.value), found.factor * scaled.factor)
    return found


def _plain(value: Any) -> Any:
    """The value before casts and reshapes, which keep the order of its elements and their last two dimensions."""
    while (op := maker(value)) is not None and (op.name in _RESHAPES or _name(value) in _CASTS):
        if graph.shape(op.operands[0])[-2:] != graph.shape(value)[-2:]:
            break
        value = op.operands[0]
    return value


def _scaled(value: Any) -> _Scaled | None:
    """A value that is multiplied or divided by a number, or to which zero is added."""
    for name in (graph.PRODUCT, graph.QUOTIENT, graph.SUM):
        operands = _operands(value, name)
        number = None if operands is None else graph.number(operands[1])
        if operands is None or not isinstance(number, float):
            continue
        if name == graph.SUM:
            return _Scaled(operands[0]) if number == 0.0 else None
        return _Scaled(operands[0], number if name == graph.PRODUCT else 1.0 / number) if number else None
    return None


def _name(value: Any) -> str:
    """What an elementwise operation does, if its body is one operation; empty: it is something else."""
    op = maker(value, ops.GENERIC)
    operations = [] if op is None else graph.body(op)[1]
    return operations[0].name if len(operations) == 2 and not any(graph.reductions(op)) else ""


def _operands(value: Any, name: str) -> list[Any] | None:
    """The operands of the elementwise operation that makes it, of which the first has all its dimensions."""
    if _name(value) != name:
        return None
    op = maker(value)
    arguments, (inner, end) = graph.body(op)
    every = list(range(graph.rank(value)))
    taken = list(inner.operands) == arguments[:-1] and list(end.operands) == list(inner.results)
    alike = graph.loops(op)[0] == graph.loops(op)[-1] == every
    # What has fewer dimensions has those that it has in their order, and not the last.
    fewer = all(d is None or d == place for axes in graph.loops(op)[1:-1] for place, d in enumerate(axes))
    return list(op.operands)[:-1] if taken and alike and fewer else None


def _reduces(value: Any, name: str, source: Any) -> bool:
    """Whether it is the sum or the maximum over the last dimension of `source`."""
    split = maker(value, graph.EXPAND)
    made = value if split is None else split.operands[0]
    op = maker(made, ops.GENERIC)
    if op is None or made != op.results[0] or op.operands[0] != source or len(op.operands) < 2:
        return False
    *rows, last = range(graph.rank(source))
    arguments, operations = graph.body(op)
    inner = next((one for one in operations if one.name == name), None)
    if inner is None or operations[-1].operands[0] != inner.results[0] or graph.shape(value)[-1] != 1:
        return False
    begun = graph.is_zeros(op.operands[1]) if name == graph.SUM else _is_lowest(op.operands[1])
    kept = [d for d in graph.loops(op)[1] if d is not None]
    whole = graph.loops(op)[0] == [*rows, last] and kept == rows and graph.reductions(op) == [False] * last + [True]
    return begun and whole and set(inner.operands) == set(arguments[:2])


def _is_lowest(start: Any) -> bool:
    fill = maker(start, graph.FILL)
    number = graph.number(start if fill is None else fill.operands[0])
    return isinstance(number, float) and number < _LOWEST
