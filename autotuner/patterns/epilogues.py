"""Recognises epilogues, which a kernel can compute with a product or a convolution: a bias, a batch norm, a residual, a
clip or an activation, a narrower type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from autotuner.iree.mlir import maker
from autotuner.patterns import graph, ops
from autotuner.patterns.evaluate import computed, held
from autotuner.problems.accuracy import Array
from autotuner.problems.epilogue import (
    CUBIC,
    IMPORTED_FACTOR,
    TANH_FACTOR,
    gelu,
    hard_sigmoid,
    hard_swish,
    sigmoid,
    silu,
    tanh_gelu,
)

_EITHER, _ORDERED = (graph.SUM, graph.PRODUCT), (graph.DIFFERENCE, graph.QUOTIENT)
_LONGEST = 16
"""The most operations of an activation."""
_FAR = 1e38
SAMPLES: Array = np.concatenate([np.linspace(-9.0, 9.0, 109), [1e-3, -1e-3, -_FAR, _FAR]])
"""Sample points: two functions of a few steps that agree on them are the same. The last two reveal limits."""
_DIGITS = 1e-10
"""The tolerance for another order of f64 operations; the next constant of any type differs by much more."""
_NARROW = ("f32", "f16", "bf16")


@dataclass(frozen=True)
class Tail:
    """A main operation with an epilogue: a clip or an activation of product + bias + residual, perhaps rounded."""

    root: Any
    """The operation whose result it is."""
    channelwise: tuple[tuple[str, Any], ...] = ()
    """Operations per channel (a bias or a batch norm), with their operands."""
    residual: Any = None
    low: float | None = None
    high: float | None = None
    activation: str = ""
    rounded: str = ""
    """The type that the result is rounded to, as MLIR has it."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        added = () if self.residual is None else (self.residual,)
        return (*(value for _, value in self.channelwise), *added)

    @property
    def bare(self) -> bool:
        """Whether nothing is added to the sums and nothing is clipped."""
        return not self.inputs and self.low is None and self.high is None

    @property
    def folded(self) -> tuple[str, ...]:
        """The per-channel operations to be folded into weights and bias; empty for a plain bias."""
        names = tuple(name for name, _ in self.channelwise)
        return () if names == (graph.SUM,) and graph.rank(self.channelwise[0][1]) == 1 else names

    def with_operand(self, name: str, operand: _Operand) -> Tail | None:
        """The tail with another operand: one residual is added, and nothing is multiplied after it."""
        if self._closed:
            return None
        if operand.per_channel and (self.residual is None or name not in (graph.PRODUCT, graph.QUOTIENT)):
            return replace(self, channelwise=(*self.channelwise, (name, operand.value)))
        added = name == graph.SUM and self.residual is None and not operand.per_channel
        return replace(self, residual=operand.value) if added else None

    def with_function(self, values: Array, type: str) -> Tail | None:
        """The tail whose values on `SAMPLES` are these; None: neither an activation nor a clip.

        Limits of a rounded result have its type, so their order with the rounding does not matter.
        """
        name = activation_of(values, type)
        if name:
            return None if self._closed else replace(self, activation=name)
        low, high = (None if limit in (-_FAR, _FAR) else float(limit) for limit in values[-2:])
        clipped = np.clip(SAMPLES, -math.inf if low is None else low, math.inf if high is None else high)
        if low is high is None or self.activation or not np.array_equal(values, clipped):
            return None
        # A lower end after an upper one must be below it, or the order would matter.
        lows, highs = ([one for one in ends if one is not None] for ends in ((self.low, low), (self.high, high)))
        if lows and highs and max(lows) > min(highs):
            return None
        return replace(self, low=max(lows, default=None), high=min(highs, default=None))

    def rounded_to(self, type: str) -> Tail | None:
        return None if self.rounded else replace(self, rounded=type)

    @property
    def _closed(self) -> bool:
        return self.low is not None or self.high is not None or bool(self.activation)


def read_tails(start: Tail, *, channel: int) -> list[Tail]:
    """An operation with ever longer epilogues, the longest first.

    `channel` is the dimension of the result that a bias has.
    """
    found, behind = [start], graph.rank(start.root.results[0]) - channel
    while (longer := _next(found[-1], behind)) is not None:
        found.append(longer)
    return found[::-1]


def activation_of(values: Array, type: str) -> str:
    """The activation with these values on `SAMPLES`, computed in this type; empty: none."""
    near = values[:-2]  # far from zero, what is spelt in another way may be no number
    known = _known(type) if type in _NARROW else ()
    return next((name for name, own in known if np.allclose(near, own, rtol=_DIGITS, atol=_DIGITS)), "")


@cache
def _known(type: str) -> tuple[tuple[str, Array], ...]:
    return tuple((name, function(SAMPLES[:-2])) for name, function in _spellings(type))


def _spellings(type: str) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """The activations in the forms and constants that exporters write, in this type."""
    for root in (math.sqrt(2.0), held(math.sqrt(2.0), type), 1.0 / held(math.sqrt(0.5), type)):
        yield "gelu", partial(gelu, root=root)
    for name, factor in (("tanhgelu", TANH_FACTOR), ("importedgelu", IMPORTED_FACTOR)):
        yield name, partial(tanh_gelu, factor=held(factor, type), cubic=held(CUBIC, type))
    yield "silu", silu
    yield "sigmoid", sigmoid
    for slope in (1.0 / 6.0, held(1.0 / 6.0, type)):
        yield "hardswish", partial(hard_swish, slope=slope)
        yield "hardsigmoid", partial(hard_sigmoid, slope=slope)


@dataclass(frozen=True, eq=False)
class _Function:
    """A function of a tail's result, by its values on samples."""

    tail: Tail
    values: Array = field(default_factory=lambda: SAMPLES)

    def finished(self, type: str) -> Tail | None:
        """The tail with this function; None: it is unknown."""
        return self.tail if self.values is SAMPLES else self.tail.with_function(self.values, type)


@dataclass(frozen=True)
class _Operand:
    """Another operand: one number for each channel, or for each element."""

    value: Any
    per_channel: bool


def _next(tail: Tail, behind: int) -> Tail | None:
    """The tail with the next operations, up to the first after which no other operation uses any of their results.

    None where there is none, or they do something else. A bias is one operation; an activation may have many, some of
    which use the result again. The channel's dimension is so many from the last as `behind` says: reshapes may split
    the first.
    """
    terms = {tail.root.results[0]: _Function(tail)}
    todo, seen = graph.users(tail.root), {tail.root}
    while todo and len(seen) <= _LONGEST:
        user = min(todo, key=graph.by_place)
        if user.name == graph.EXPAND and graph.splits_first(user.results[0], user):
            made = terms.get(user.operands[0])
        else:
            made = _made(user, terms, behind)
        if made is None:
            return None
        done = made.finished(graph.element(user.results[0])) if user.name != graph.EXPAND else None
        if done is not None and all(graph.users(op) <= {*seen, user} for op in seen):
            return replace(done, root=user)
        seen.add(user)
        terms[user.results[0]] = made
        todo = (todo | graph.users(user)) - seen
    return None


def _made(user: Any, terms: Mapping[Any, _Function], behind: int) -> _Function | None:
    """The result of an elementwise operation on these terms; None: it does something else."""
    if user.name != ops.GENERIC or len(user.results) != 1 or any(graph.reductions(user)):
        return None
    *inputs, start = user.operands
    axes, count = graph.loops(user), graph.rank(user.results[0])
    mine = [place for place, operand in enumerate(inputs) if operand in terms]
    if start in terms or any(axes[place] != list(range(count)) for place in (*mine, -1)):
        return None
    arguments, operations = graph.body(user)
    known: dict[Any, Any] = {}
    for argument, operand, own in zip(arguments, inputs, axes, strict=False):
        known[argument] = terms.get(operand) or _operand(operand, own, count, count - behind)
    for op in operations:
        given = [known[value] if value in known else graph.number(value) for value in op.operands]
        if op.name == graph.YIELD:
            return given[0] if isinstance(given[0], _Function) else None
        if op.name != ops.CONSTANT:
            known[op.results[0]] = _step(op, given)
    return None


def _operand(value: Any, axes: list[int | None], count: int, channel: int) -> Any:
    """Another operand of the operation; None: it is unknown."""
    if not graph.is_tensor(value):
        return None
    if not axes:  # exporters have limits so
        return graph.number(value)
    others = [size for axis, size in enumerate(graph.shape(value)) if axis != channel]
    if axes == [channel] or (len(axes) == count and axes[channel] == channel and set(others) <= {1}):
        return _Operand(value, per_channel=True)
    if axes != list(range(count)):
        return None
    copies = maker(value, graph.BROADCAST)
    if copies is not None and graph.rank(copies.operands[0]) == 1:
        (added,) = graph.integers(copies, "dimensions")
        if sorted([*added, channel]) == axes:
            return _Operand(copies.operands[0], per_channel=True)
    return _Operand(value, per_channel=False)


def _step(op: Any, given: list[Any]) -> Any:
    """The result of an operation in a body; None: it is unknown."""
    mine = [term for term in given if isinstance(term, _Function)]
    others = [term for term in given if isinstance(term, _Operand)]
    if others:
        fitting = op.name in _EITHER or (op.name in _ORDERED and given[0] in mine)
        if not fitting or len(mine) != 1 or mine[0].values is not SAMPLES:
            return None
        return _function(mine[0].tail.with_operand(op.name, others[0]))
    if op.name == "arith.truncf":
        type = str(op.results[0].type)
        if not mine:
            return held(given[0], type) if isinstance(given[0], float) else None
        tail = mine[0].finished(str(op.operands[0].type))
        return _function(None if tail is None else tail.rounded_to(type))
    tails = {term.tail for term in mine}
    if len(tails) > 1 or any(term is None for term in given):
        return None
    made = computed(op, [term.values if isinstance(term, _Function) else term for term in given])
    if made is None:
        return None
    return _Function(tails.pop(), made) if tails else float(made)


def _function(tail: Tail | None) -> _Function | None:
    return None if tail is None else _Function(tail)
