"""Norms of rows before a product: which a program computes, however it is spelt, by what comes of some numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotuner.iree.mlir import maker
from autotuner.patterns import graph
from autotuner.patterns.evaluate import sampled
from autotuner.problems.accuracy import Array
from autotuner.problems.epilogue import NORMS, Epilogue

_LONGEST = 40
"""Operations that a norm is spelt with, at the most."""
_SIZES = (1e-4, 1e-2, 0.1, 1.0, 4.0, 9.0)
"""Of the rows that are tried: small ones tell what is added to their squares."""
_DIGITS = 1e-9
_NO_EPS = 1e-13
"""Less is what rounding made of none."""


@dataclass(frozen=True)
class Norm:
    """The rows that a norm takes, and what it does to them."""

    kind: str
    """One of `NORMS`."""
    eps: float
    rows: Any
    scale: Any = None
    """A number for each column that the normed rows are multiplied by; None: there is none."""
    shift: Any = None
    """The same for what is added then."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What it has of its own, by name."""
        return {name: value for name in ("scale", "shift") if (value := getattr(self, name)) is not None}


def read_norm(value: Any) -> Norm | None:
    """The norm that makes this value, where products take all that it makes; None where it is something else."""
    source = value
    while (made := maker(source, graph.COLLAPSE)) is not None:
        source = made.operands[0]
    if not _only_products(source):
        return None
    # The whole of it is the one with most operations: what is behind a mean is a norm of another kind.
    found = (_norm(source, rows, operations) for rows, operations in reversed(list(_slices(source))))
    return next((norm for norm in found if norm is not None), None)


def _only_products(value: Any) -> bool:
    """Nobody takes it but products, of which it is the first factor; perhaps with fewer dimensions."""
    owners = [use.owner.operation for use in value.uses]
    return all(
        _only_products(op.results[0])
        if op.name == graph.COLLAPSE
        else graph.is_main(op) and op.name != graph.ATTENTION and op.operands[0] == value and op.operands[1] != value
        for op in owners
    )


def _slices(value: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The values that all of it is made from, but for constants, the nearest first, with the operations between."""
    seen: dict[Any, None] = {}
    todo = {value}
    while todo and len(seen) < _LONGEST:
        made = [other for other in todo if maker(other) is not None]
        # What stands last in the program is made from all others.
        latest = max(made, key=lambda other: graph.by_place(maker(other))) if made else next(iter(todo))
        if not graph.is_tensor(latest):
            return
        if len(todo) == 1 and seen and graph.shape(latest) == graph.shape(value):
            yield latest, tuple(reversed(seen))
        if not made or len(maker(latest).results) != 1:
            return
        seen[maker(latest)] = None
        todo = (todo - {latest}) | {operand for operand in maker(latest).operands if not graph.is_constant(operand)}


def _norm(value: Any, rows: Any, operations: Sequence[Any]) -> Norm | None:
    if not any(any(graph.reductions(op)) for op in operations if op.name == graph.GENERIC):
        return None
    width = graph.shape(value)[-1]
    vectors = [v for v in dict.fromkeys(o for op in operations for o in op.operands) if _is_vector(v, width)]
    if len(vectors) > len(NORMS):
        return None
    random = np.random.default_rng(0)
    given = (random.standard_normal((len(_SIZES), width)) + 0.3) * np.array(_SIZES)[:, None]
    numbers = {vector: random.uniform(0.5, 1.5, width) for vector in vectors}
    result = sampled(value, {rows: given.reshape(*([1] * (graph.rank(value) - 2)), *given.shape), **numbers})
    return None if result is None else _fitting(rows, given, numbers, result.reshape(given.shape))


def _fitting(rows: Any, given: Array, numbers: Mapping[Any, Array], result: Array) -> Norm | None:
    """The norm that has this result."""
    for kind in NORMS:
        off = given - given.mean(axis=1, keepdims=True) if kind == "layer" else given
        for scale, shift in itertools.permutations([*numbers, None, None][:2]):
            normed = result if shift is None else result - numbers[shift]
            normed = normed if scale is None else normed / numbers[scale]
            factors = np.median(normed / off, axis=1)
            if not np.isfinite(factors).all() or (factors <= 0).any():
                continue
            eps = float(factors[0] ** -2 - (off[0] ** 2).mean())
            eps = eps if eps > _NO_EPS else 0.0
            wanted = off * Epilogue(norm=kind, eps=eps).factors(given)
            if np.allclose(normed, wanted, rtol=_DIGITS, atol=_DIGITS * np.abs(wanted).max()):
                return Norm(kind, float(np.float32(eps)), rows, scale, shift)
    return None


def _is_vector(value: Any, width: int) -> bool:
    """Numbers that a program has for each column, not one for all."""
    if not graph.is_tensor(value) or graph.shape(value) != [width]:
        return False
    return graph.is_constant(value) and graph.number(value) is None and maker(value, graph.EMPTY) is None
