"""Norms of rows before a product: which a program computes, however it is spelt, by what comes of some numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from iree.compiler import ir

from autotuner.carriers.activations import computed, held
from autotuner.carriers.flat import YIELD, is_or_becomes
from autotuner.carriers.forms import ATTENTION, CONSTANT, GENERIC, Match, is_main
from autotuner.carriers.grouped import COLLAPSE, EXPAND
from autotuner.carriers.norming import SCALE, SHIFT
from autotuner.carriers.slices import read_slice
from autotuner.carriers.sources import FILL, is_constant
from autotuner.iree.mlir import maker, positions
from autotuner.problems import Gemm, Problem
from autotuner.problems.accuracy import Array
from autotuner.problems.epilogue import NORMS, Epilogue

_ASSERT = "cf.assert"
_EMPTY, _BROADCAST = "tensor.empty", "linalg.broadcast"
_LONGEST = 40
"""Operations that a norm is spelt with, at the most."""
_ROWS = 6
"""That are tried."""
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
    def parameters(self) -> tuple[Any, ...]:
        return tuple(value for value in (self.scale, self.shift) if value is not None)


def read_norm(value: Any) -> Norm | None:
    """The norm that makes this value, where products take all that it makes; None where it is something else."""
    source = value
    while (made := maker(source, COLLAPSE)) is not None:
        source = made.operands[0]
    if not _only_products(source):
        return None
    # The whole of it is the one with most operations: what is behind a mean is a norm of another kind.
    found = [_norm(source, rows, operations) for rows, operations in _slices(source)]
    return next((norm for norm in reversed(found) if norm is not None), None)


def with_norm(
    problem: Problem | None, norm: Norm | None, root: Any, inputs: Sequence[Any]
) -> tuple[Gemm, Match] | None:
    """A product with the norm of its rows, whose scale and shift become parts of its weights and its bias; None where
    it cannot have it. `inputs` are all of the product but its rows."""
    if not isinstance(problem, Gemm) or norm is None or (norm.shift is not None and problem.epilogue.gated):
        return None
    rows = problem.operands[0]
    elements = {str(ir.ShapedType(value.type).element_type) for value in norm.parameters}
    if not is_or_becomes(norm.rows.type, rows) or not elements <= {rows.element.mlir}:
        return None
    match = read_slice(root, (norm.rows, *inputs, *norm.parameters))
    if match is None:
        return None
    own = tuple(name for name, value in ((SCALE, norm.scale), (SHIFT, norm.shift)) if value is not None)
    bias = problem.epilogue.bias or norm.shift is not None
    epilogue = replace(problem.epilogue, norm=norm.kind, eps=norm.eps, bias=bias)
    return replace(problem, epilogue=epilogue), replace(match, norm=own)


def _only_products(value: Any) -> bool:
    """Nobody takes it but products, of which it is the first factor; perhaps with fewer dimensions."""
    owners = [use.owner.operation for use in value.uses]
    return all(
        _only_products(op.results[0])
        if op.name == COLLAPSE
        else is_main(op) and op.name != ATTENTION and op.operands[0] == value and op.operands[1] != value
        for op in owners
    )


def _slices(value: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The values that all of it is made from, but for constants, the nearest first; each with the operations between,
    in the program's order."""
    shape = list(ir.ShapedType(value.type).shape)
    seen: dict[Any, None] = {}
    todo = [value]
    while todo and len(seen) < _LONGEST:
        # What stands last in the program is made from all others.
        latest = max(todo, key=_Place)
        todo = [other for other in todo if other != latest]
        if not isinstance(latest.type, ir.RankedTensorType):
            return
        if not todo and seen and list(ir.ShapedType(latest.type).shape) == shape:
            yield latest, list(reversed(seen))
        op = maker(latest)
        if op is None or len(op.results) != 1:
            return
        seen[op] = None
        for operand in op.operands:
            if operand not in todo and not is_constant(operand):
                todo.append(operand)


class _Place:
    """Where a value is made; an argument before all others."""

    def __init__(self, value: Any) -> None:
        self.op = maker(value)

    def __lt__(self, other: _Place) -> bool:
        if self.op is None or other.op is None:
            return self.op is None and other.op is not None
        return bool(self.op.is_before_in_block(other.op))


def _norm(value: Any, rows: Any, operations: Sequence[Any]) -> Norm | None:
    width = ir.ShapedType(value.type).shape[-1]
    if not any("reduction" in str(op.attributes["iterator_types"]) for op in operations if op.name == GENERIC):
        return None
    vectors = [v for v in dict.fromkeys(o for op in operations for o in op.operands) if _is_vector(v, width)]
    if len(vectors) > len(NORMS):
        return None
    random = np.random.default_rng(0)
    rank = ir.ShapedType(value.type).rank
    # Rows of all sizes: small ones tell what is added to their squares.
    sizes = np.array([1e-4, 1e-2, 0.1, 1.0, 4.0, 9.0])
    given = (random.standard_normal((_ROWS, width)) + 0.3) * sizes[:, None]
    numbers = {vector: random.uniform(0.5, 1.5, width) for vector in vectors}
    result = _Sample(given.reshape(*([1] * (rank - 2)), _ROWS, width), numbers).run(rows, value, operations)
    if result is None:
        return None
    return _fitting(rows, given, numbers, np.asarray(result).reshape(_ROWS, width))


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
    if not isinstance(value.type, ir.RankedTensorType) or list(ir.ShapedType(value.type).shape) != [width]:
        return False
    constant = maker(value, CONSTANT)
    if constant is None:
        return is_constant(value) and maker(value, _EMPTY) is None
    attribute = constant.attributes["value"]
    return not (isinstance(attribute, ir.DenseElementsAttr) and ir.DenseElementsAttr(attribute).is_splat)


@dataclass(frozen=True)
class _Sample:
    """Computes what operations make of a few rows, in f64."""

    given: Array
    vectors: Mapping[Any, Array]

    def run(self, rows: Any, value: Any, operations: Sequence[Any]) -> Array | None:
        values: dict[Any, Array] = {rows: self.given, **self.vectors}
        for op in operations:
            made = self._made(op, values)
            if made is None:
                return None
            values[op.results[0]] = made
        return values[value]

    def _of(self, value: Any, values: Mapping[Any, Array]) -> Array | None:
        """One that is known, or a constant."""
        if value in values:
            return values[value]
        made = maker(value)
        if made is None:
            return None
        if made.name == CONSTANT:
            return _number(made)
        if made.name == FILL:
            return self._of(made.operands[0], values)
        return np.asarray(0.0) if made.name == _EMPTY else None

    def _made(self, op: Any, values: Mapping[Any, Array]) -> Array | None:
        if op.name in (COLLAPSE, EXPAND):
            return self._reshaped(op, values)
        if op.name == _BROADCAST:
            source = self._of(op.operands[0], values)
            axes = sorted(int(axis) for axis in op.attributes["dimensions"])
            return None if source is None else np.expand_dims(source, axes)
        return self._generic(op, values) if op.name == GENERIC else None

    def _reshaped(self, op: Any, values: Mapping[Any, Array]) -> Array | None:
        """Dimensions of one element come and go."""
        source = self._of(op.operands[0], values)
        old, new = (list(ir.ShapedType(v.type).shape) for v in (op.operands[0], op.results[0]))
        if source is None or [size for size in old if size != 1] != [size for size in new if size != 1]:
            return None
        kept = [size for size, there in zip(source.shape, old, strict=True) if there != 1]
        return source.reshape([1 if size == 1 else kept.pop(0) for size in new])

    def _generic(self, op: Any, values: Mapping[Any, Array]) -> Array | None:
        if len(op.results) != 1:
            return None
        kinds = ["reduction" in str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]
        maps = [positions(ir.AffineMapAttr(entry).value) for entry in ir.ArrayAttr(op.attributes["indexing_maps"])]
        operands = [self._of(value, values) for value in op.operands]
        spread = [_spread(v, axes, len(kinds)) for v, axes in zip(operands, maps, strict=True)]
        if any(one is None for one in spread):
            return None
        block = op.regions[0].blocks[0]
        known: dict[Any, Any] = dict(zip(block.arguments, spread, strict=True))
        if any(kinds):
            return self._total(block, known, kinds, maps[-1])
        made = _body(block, known)
        if made is None or maps[-1] != list(range(len(kinds))):
            return None
        return np.asarray(made) + np.zeros([1] * len(kinds))

    def _total(self, block: Any, known: dict[Any, Any], kinds: list[bool], axes: list[int | None]) -> Array | None:
        """Of what a body adds to what there is so far: the last dimension alone is added up."""
        start = block.arguments[len(block.arguments) - 1]
        if kinds != [False] * (len(kinds) - 1) + [True] or [a for a in axes if a is not None] != list(
            range(len(kinds) - 1)
        ):
            return None
        before, after = (_body(block, {**known, start: np.asarray(number)}) for number in (0.0, 1.0))
        if before is None or after is None or not np.allclose(after - before, 1.0):
            return None
        if np.asarray(known[start]).any():
            return None
        total: Array = np.asarray(before).sum(axis=-1)
        return total[..., None] if len(axes) == len(kinds) else total


def _spread(value: Array | None, axes: list[int | None], loops: int) -> Array | None:
    """With a dimension for each loop, in order."""
    if value is None or value.ndim == 0:
        return value
    kept = [axis for axis in axes if axis is not None]
    if len(axes) != value.ndim or kept != sorted(kept):
        return None
    if any(axis is None and size != 1 for axis, size in zip(axes, value.shape, strict=True)):
        return None
    sizes = dict(zip(axes, value.shape, strict=True))
    return value.reshape([sizes.get(loop, 1) for loop in range(loops)])


def _body(block: Any, known: dict[Any, Any]) -> Any:
    """What a region yields for these arguments; None: it does something else, too."""
    values = dict(known)
    for child in block.operations:
        op = child.operation
        if op.name == CONSTANT:
            values[op.results[0]] = _number(op)
            continue
        operands = [values[v] if v in values else _outside(v) for v in op.operands]
        if any(operand is None for operand in operands):
            return None
        if op.name == YIELD:
            return operands[0]
        if op.name == _ASSERT:  # that what divides is not 0, as ONNX's Reciprocal is imported
            continue
        values[op.results[0]] = _step(op, operands)
        if values[op.results[0]] is None:
            return None
    return None


def _step(op: Any, operands: Sequence[Any]) -> Any:
    if op.name == "arith.extf":
        return operands[0]
    if op.name == "arith.truncf":  # of a constant it is the number that is meant
        number = np.asarray(operands[0])
        return np.asarray(held(float(number), str(op.results[0].type))) if number.ndim == 0 else operands[0]
    return computed(op, operands)


def _outside(value: Any) -> Array | None:
    constant = maker(value, CONSTANT)
    return None if constant is None else _number(constant)


def _number(constant: Any) -> Array | None:
    """One number, also as a tensor that has it everywhere."""
    attribute = constant.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr) and ir.DenseElementsAttr(attribute).is_splat:
        attribute = ir.DenseElementsAttr(attribute).get_splat_value()
    if isinstance(attribute, ir.IntegerAttr):
        return np.asarray(float(ir.IntegerAttr(attribute).value))
    if not isinstance(attribute, ir.FloatAttr):
        return None
    number = float(ir.FloatAttr(attribute).value)
    return np.asarray(number) if math.isfinite(number) else None
