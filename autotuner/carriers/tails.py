"""What follows a product or a convolution and can be computed with it: a bias, a batch norm, a residual, a clip or an
activation, a narrower type."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from autotuner.carriers.activations import SAMPLES, activation_of, computed, held
from autotuner.carriers.forms import CONSTANT, GENERIC
from autotuner.iree.mlir import maker, positions
from autotuner.problems.accuracy import Array

BROADCAST, YIELD = "linalg.broadcast", "linalg.yield"
SUM, DIFFERENCE, PRODUCT, QUOTIENT = "arith.addf", "arith.subf", "arith.mulf", "arith.divf"
_MAXIMA, _MINIMA = ("arith.maximumf", "arith.maxnumf"), ("arith.minimumf", "arith.minnumf")
_GREATER, _LESS = (2, 3, 9, 10), (4, 5, 11, 12)
"""Predicates of arith.cmpf: ogt, oge, ugt, uge; and olt, ole, ult, ule."""
_LONGEST = 16
"""Operations that an activation is spelt with, at the most."""


@dataclass(frozen=True)
class Tail:
    """A main operation with some of what follows it: a clip or an activation of product + bias + residual, perhaps
    rounded."""

    root: Any
    """The operation whose result it is."""
    channelwise: tuple[tuple[str, Any], ...] = ()
    """What is done to each channel, by the names of operations, and with what: a bias, or a batch norm."""
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
        """Sums as they are, but for an activation or a rounding."""
        return not self.inputs and self.low is None and self.high is None

    @property
    def folded(self) -> tuple[str, ...]:
        """What must become part of the weights; nothing, if all there is is a bias as kernels take it."""
        names = tuple(name for name, _ in self.channelwise)
        plain = names == (SUM,) and ir.RankedTensorType(self.channelwise[0][1].type).rank == 1
        return () if plain else names

    def per_channel(self, name: str, value: Any) -> Tail | None:
        """A residual may be added before, but not multiplied."""
        if self._closed or (self.residual is not None and name in (PRODUCT, QUOTIENT)):
            return None
        return replace(self, channelwise=(*self.channelwise, (name, value)))

    def plus_residual(self, value: Any) -> Tail | None:
        return None if self.residual is not None or self._closed else replace(self, residual=value)

    def at_least(self, number: float) -> Tail | None:
        """A lower end after an upper one must be below it, or the order would matter.

        Limits of a rounded result have its type: whether they come before the rounding or after it is the same.
        """
        if self.activation or (self.high is not None and number > self.high):
            return None
        return replace(self, low=number if self.low is None else max(self.low, number))

    def at_most(self, number: float) -> Tail | None:
        if self.activation or (self.low is not None and number < self.low):
            return None
        return replace(self, high=number if self.high is None else min(self.high, number))

    def activated(self, name: str) -> Tail | None:
        return None if self._closed or not name else replace(self, activation=name)

    def rounded_to(self, element: str) -> Tail | None:
        return None if self.rounded else replace(self, rounded=element)

    @property
    def _closed(self) -> bool:
        return self.low is not None or self.high is not None or bool(self.activation)


def read_tails(start: Tail, *, channel: int) -> Iterator[Tail]:
    """An operation with more and more of what follows it, the longest first, as it is given last.

    `channel` is the dimension of the result that a bias has.
    """
    found = [start]
    while (longer := _next(found[-1], channel)) is not None:
        found.append(longer)
    return reversed(found)


def _next(tail: Tail, channel: int) -> Tail | None:
    """With the operations that take its result, up to the first behind which nobody else needs any of theirs.

    None where there is no such one, or they do something else.

    One that adds a bias is by itself; an activation may be spelt with many, some of which take the result again.
    """
    terms: dict[Any, Any] = {tail.root.results[0]: tail}
    todo, seen = [_Place(op) for op in _users(tail.root)], {tail.root}
    heapq.heapify(todo)
    while todo and len(seen) <= _LONGEST:
        user = heapq.heappop(todo).operation
        if user in seen:
            continue
        made = _made(user, terms, channel)
        if made is None:
            return None
        done = _activated(made, str(ir.ShapedType(user.results[0].type).element_type))
        if done is not None and all(_users(op) <= {*seen, user} for op in seen):
            return replace(done, root=user)
        seen.add(user)
        terms[user.results[0]] = made
        for op in _users(user):
            heapq.heappush(todo, _Place(op))
    return None


@dataclass(frozen=True)
class _Place:
    """An operation, by its place in the program."""

    operation: Any

    def __lt__(self, other: _Place) -> bool:
        return bool(self.operation.is_before_in_block(other.operation))


def _users(op: Any) -> set[Any]:
    return {use.owner.operation for use in op.results[0].uses}


def _made(user: Any, terms: Mapping[Any, Any], channel: int) -> Tail | _Function | None:
    """What an operation makes of these terms, element by element; None: something else."""
    if user.name != GENERIC or len(user.results) != 1:
        return None
    if any("parallel" not in str(kind) for kind in ir.ArrayAttr(user.attributes["iterator_types"])):
        return None
    maps = [positions(ir.AffineMapAttr(entry).value) for entry in ir.ArrayAttr(user.attributes["indexing_maps"])]
    inputs = list(user.operands)[:-1]
    rank = ir.ShapedType(user.results[0].type).rank
    whole = list(range(rank))
    mine = [number for number, operand in enumerate(inputs) if operand in terms]
    if user.operands[len(inputs)] in terms or any(maps[number] != whole for number in (*mine, -1)):
        return None
    block = user.regions[0].blocks[0]
    own: dict[Any, Any] = {}
    for argument, operand, axes in zip(block.arguments, inputs, maps, strict=False):
        own[argument] = terms[operand] if operand in terms else _operand(operand, axes, rank, channel)
    return _Body(own).result(block)


@dataclass(frozen=True, eq=False)
class _Function:
    """What is computed from a tail and numbers alone: by its values for samples of the tail's."""

    tail: Tail
    values: Array


@dataclass(frozen=True)
class _Channels:
    """A number for each channel."""

    value: Any


@dataclass(frozen=True)
class _Residual:
    value: Any


@dataclass(frozen=True)
class _Comparison:
    """Of a tail with a number: is it greater?"""

    tail: Tail
    number: float
    greater: bool


def _operand(value: Any, axes: list[int | None], rank: int, channel: int) -> Any:
    """What else goes into the operation; None: nothing that is known."""
    if not isinstance(value.type, ir.RankedTensorType):
        return None
    if not axes:
        return _number(value)
    shape = ir.RankedTensorType(value.type).shape
    if axes == [channel] or (len(axes) == rank and _only(shape, channel) and axes[channel] == channel):
        return _Channels(value)
    if axes != list(range(rank)):
        return None
    copies = maker(value, BROADCAST)
    if copies is not None:
        added = [int(d) for d in copies.attributes["dimensions"]]
        source = copies.operands[0]
        if sorted([*added, channel]) == list(range(rank)) and ir.RankedTensorType(source.type).rank == 1:
            return _Channels(source)
    return _Residual(value)


def _only(shape: Sequence[int], channel: int) -> bool:
    """All other dimensions are 1."""
    return all(size == 1 for axis, size in enumerate(shape) if axis != channel)


def _number(value: Any) -> float | None:
    """What a constant tensor without dimensions holds: exporters have limits so."""
    constant = maker(value, CONSTANT)
    if constant is None:
        return None
    attribute = constant.attributes["value"]
    if not isinstance(attribute, ir.DenseFPElementsAttr):
        return None
    return float(ir.FloatAttr(ir.DenseElementsAttr(attribute).get_splat_value()).value)


@dataclass(frozen=True)
class _Body:
    """What a region computes from its arguments, as far as it is an epilogue."""

    terms: dict[Any, Any]

    def result(self, block: Any) -> Tail | _Function | None:
        for child in block.operations:
            op = child.operation
            if op.name == CONSTANT:
                continue
            if op.name == YIELD:
                made = self._of(op.operands[0])
                return made if isinstance(made, (Tail, _Function)) else None
            terms = [self._of(value) for value in op.operands]
            term = _RULES[op.name](op, terms) if op.name in _RULES else None
            term = _function(op, terms) if term is None else term
            if term is None:
                return None
            self.terms[op.results[0]] = term
        return None

    def _of(self, value: Any) -> Any:
        if value in self.terms:
            return self.terms[value]
        constant = maker(value, CONSTANT)
        if constant is None:
            return None
        number = constant.attributes["value"]
        if isinstance(number, ir.IntegerAttr):
            return ir.IntegerAttr(number).value
        return ir.FloatAttr(number).value if isinstance(number, ir.FloatAttr) else None


def _function(op: Any, terms: list[Any]) -> Any:
    """An operation on a tail, functions of it and numbers; numbers alone make a number."""
    varying = [term for term in terms if isinstance(term, (Tail, _Function))]
    tails = {term.tail if isinstance(term, _Function) else term for term in varying}
    if len(tails) > 1 or not all(isinstance(term, (Tail, _Function, float, int)) for term in terms):
        return None
    values = [SAMPLES if isinstance(t, Tail) else t.values if isinstance(t, _Function) else t for t in terms]
    made = computed(op, values)
    if made is None:
        return None
    return _Function(tails.pop(), made) if tails else float(made)


def _activated(made: Tail | _Function, element: str) -> Tail | None:
    """A tail of what was made; None: no activation that is known."""
    return made if isinstance(made, Tail) else made.tail.activated(activation_of(made.values, element))


def _sum(op: Any, terms: list[Any]) -> Tail | None:
    tail, other = _sorted(terms)
    if tail is None:
        return None
    if isinstance(other, _Residual):
        return tail.plus_residual(other.value)
    return tail.per_channel(op.name, other.value) if isinstance(other, _Channels) else None


def _product(op: Any, terms: list[Any]) -> Tail | None:
    tail, other = _sorted(terms)
    return tail.per_channel(op.name, other.value) if tail is not None and isinstance(other, _Channels) else None


def _reduced(op: Any, terms: list[Any]) -> Tail | None:
    """A difference or a quotient: the order counts."""
    return _product(op, terms) if isinstance(terms[0], Tail) else None


def _maximum(op: Any, terms: list[Any]) -> Tail | None:
    del op
    tail, other = _sorted(terms)
    return tail.at_least(other) if tail is not None and _is_number(other) else None


def _minimum(op: Any, terms: list[Any]) -> Tail | None:
    del op
    tail, other = _sorted(terms)
    return tail.at_most(other) if tail is not None and _is_number(other) else None


def _rounded(op: Any, terms: list[Any]) -> Tail | float | None:
    if isinstance(terms[0], float):
        return held(terms[0], str(op.results[0].type))
    if not isinstance(terms[0], (Tail, _Function)):
        return None
    tail = _activated(terms[0], str(op.operands[0].type))
    return tail.rounded_to(str(op.results[0].type)) if tail is not None else None


def _compared(op: Any, terms: list[Any]) -> _Comparison | None:
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    if predicate not in (*_GREATER, *_LESS):
        return None
    tail, other = _sorted(terms)
    if tail is None or not _is_number(other):
        return None
    return _Comparison(tail, other, greater=(predicate in _GREATER) == isinstance(terms[0], Tail))


def _selected(op: Any, terms: list[Any]) -> Tail | None:
    """`x > c ? x : c` is a maximum, `x < c ? x : c` a minimum."""
    del op
    asked, yes, no = terms
    if not isinstance(asked, _Comparison):
        return None
    if yes == asked.tail and no == asked.number:
        return asked.tail.at_least(asked.number) if asked.greater else asked.tail.at_most(asked.number)
    if yes == asked.number and no == asked.tail:
        return asked.tail.at_most(asked.number) if asked.greater else asked.tail.at_least(asked.number)
    return None


def _sorted(terms: list[Any]) -> tuple[Tail | None, Any]:
    """What is computed, and what comes to it."""
    one, other = terms
    if isinstance(one, Tail) == isinstance(other, Tail):
        return None, None
    return (one, other) if isinstance(one, Tail) else (other, one)


def _is_number(term: Any) -> bool:
    return isinstance(term, float) and not math.isnan(term)


_RULES: Mapping[str, Callable[[Any, list[Any]], Any]] = {
    SUM: _sum,
    DIFFERENCE: _reduced,
    PRODUCT: _product,
    QUOTIENT: _reduced,
    **dict.fromkeys(_MAXIMA, _maximum),
    **dict.fromkeys(_MINIMA, _minimum),
    "arith.cmpf": _compared,
    "arith.select": _selected,
    "arith.truncf": _rounded,
}
