"""Evaluates operations of a program: tensors of positions and constants, functions of floats. Two forms that give the
same numbers are the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from autotuner.iree.mlir import maker
from autotuner.patterns import graph, ops
from autotuner.problems.accuracy import Array
from autotuner.problems.dtypes import element_type, known_type
from autotuner.problems.epilogue import erf

_LARGEST = 1 << 26
"""The most elements: a mask of 8192 queries and as many keys."""
_RESHAPES = (graph.COLLAPSE, graph.EXPAND, "tensor.cast")
_FLOATS: Mapping[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.select": np.where,
    "math.exp": np.exp,
    "math.erf": erf,
    "math.tanh": np.tanh,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1.0 / np.sqrt(x),
    "math.powf": np.power,
    "math.fpowi": np.power,
    "math.fma": lambda a, b, c: a * b + c,
}
_WHOLE: Mapping[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    **dict.fromkeys(("arith.extsi", "arith.sitofp", "arith.index_cast", "arith.truncf", "arith.extf"), lambda x: x),
}
"""Integer operations, but not on i1, which has no sign and no sums."""
_BITS: Mapping[str, Callable[..., Any]] = {
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    **dict.fromkeys(("arith.extui", "arith.uitofp"), lambda value: _unsigned(value)),
}
_ORDERED = (None, np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
"""Comparisons by the ordered predicates of arith.cmpf; the unordered ones follow in the same order."""
_COMPARED = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
"""Comparisons by the predicates of arith.cmpi; the last four follow again, unsigned."""


def computed(op: Any, values: Sequence[Array | float | int]) -> Array | None:
    """The result of an operation on floats; None: it is unknown."""
    function = _FLOATS.get(op.name)
    if op.name == "arith.cmpf":
        function = _ORDERED[_predicate(op) % len(_ORDERED)]
        if any(np.isnan(value).any() for value in values):
            return None
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*values))


def held(value: float, element: str) -> float:
    """The number rounded to a type."""
    return float(np.asarray(value, np.float32).astype(element_type(element).numpy))


def known_values(value: Any) -> Array | None:
    """The exact elements of a tensor that depends on indices and constants alone; a dimension along which nothing
    changes has one. None: they depend on the program's inputs, or on unknown operations."""
    try:
        return _Values().tensor(value)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """The value is not known."""


class _Values:
    """Evaluates only what a result needs: a body may have unused arguments without values."""

    def __init__(self) -> None:
        self._known: dict[Any, Array] = {}

    def tensor(self, value: Any) -> Array:
        """A tensor's elements, with size 1 in dimensions along which nothing changes."""
        if value not in self._known:
            self._known[value] = self._tensor(value, _made_by(value))
        return self._known[value]

    def _tensor(self, value: Any, op: Any) -> Array:
        if not graph.is_tensor(value) or not ir.RankedTensorType(value.type).has_static_shape:
            raise _UnknownError
        if op.name in (ops.CONSTANT, graph.FILL):
            return _constant(value if op.name == ops.CONSTANT else op.operands[0]).reshape([1] * graph.rank(value))
        if op.name == ops.GENERIC:
            return self._generic(op)
        if op.name in _RESHAPES:
            return self._whole(op).reshape(graph.shape(value))
        if op.name == graph.TRANSPOSE:
            return np.transpose(self.tensor(op.operands[0]), *graph.integers(op, "permutation"))
        if op.name == graph.BROADCAST:
            return np.expand_dims(self.tensor(op.operands[0]), tuple(*graph.integers(op, "dimensions")))
        if op.name == graph.SLICE and len(op.operands) == 1:
            cuts = zip(*graph.integers(op, "static_offsets", "static_sizes", "static_strides"), strict=True)
            parts = tuple(slice(at, at + length * step, step) for at, length, step in cuts)
            return self._whole(op)[parts].reshape(graph.shape(value))
        raise _UnknownError

    def _whole(self, op: Any) -> Array:
        """All elements of an operation's first operand."""
        return np.broadcast_to(self.tensor(op.operands[0]), graph.shape(op.operands[0]))

    def _generic(self, op: Any) -> Array:
        axes, sizes = graph.loops(op), graph.shape(op.results[0])
        if len(op.results) != 1 or any(graph.reductions(op)) or axes[-1] != list(range(len(sizes))):
            raise _UnknownError
        arguments, operations = graph.body(op)
        given = dict(zip(arguments, zip(op.operands, axes, strict=True), strict=True))
        made = self._scalar(operations[-1].operands[0], given, sizes)
        return made if made.ndim else made.reshape([1] * len(sizes))

    def _scalar(self, value: Any, given: Mapping[Any, Any], sizes: Sequence[int]) -> Array:
        """A value of a body, with a dimension for each loop; `given` has its arguments."""
        if value not in self._known:
            self._known[value] = self._computed(value, given, sizes)
        return self._known[value]

    def _computed(self, value: Any, given: Mapping[Any, Any], sizes: Sequence[int]) -> Array:
        if value in given:
            operand, axes = given[value]
            return _along(self.tensor(operand), axes, len(sizes))
        op = _made_by(value)
        if op.name == "linalg.index":
            loop = ir.IntegerAttr(op.attributes["dim"]).value
            return np.arange(sizes[loop]).reshape([-1 if axis == loop else 1 for axis in range(len(sizes))])
        if op.name == ops.CONSTANT:
            return _constant(value)
        values = [self._scalar(operand, given, sizes) for operand in op.operands]
        if math.prod(np.broadcast_shapes(*(one.shape for one in values))) > _LARGEST:
            raise _UnknownError
        with np.errstate(all="ignore"):
            return np.asarray(_exactly(op, values)).astype(_numpy(value.type), copy=False)


def _constant(value: Any) -> Array:
    """A constant number, or that of a splat tensor."""
    return np.asarray(_known(graph.number(value))).astype(_numpy(value.type))


def _exactly(op: Any, values: list[Array]) -> Any:
    bits = any(value.dtype == np.bool_ for value in values)
    if op.name == "arith.cmpi":
        predicate = _predicate(op)
        if predicate >= len(_COMPARED):
            predicate, values = predicate - 4, [_unsigned(value) for value in values]
        elif bits and predicate > 1:
            raise _UnknownError
        return _COMPARED[predicate](*values)
    if op.name in _BITS:
        return _BITS[op.name](*values)
    if op.name in _WHOLE and not bits:
        return _WHOLE[op.name](*values)
    return _known(computed(op, values))


def _along(array: Array, axes: list[int | None], count: int) -> Array:
    """An operand, with a dimension for each loop."""
    kept = [axis for axis in axes if axis is not None]
    thin = array.squeeze(tuple(place for place, axis in enumerate(axes) if axis is None))
    if len(set(kept)) < len(kept):
        raise _UnknownError
    return np.expand_dims(thin.transpose(np.argsort(kept)), tuple(loop for loop in range(count) if loop not in kept))


def _predicate(op: Any) -> int:
    return int(ir.IntegerAttr(op.attributes["predicate"]).value)


def _unsigned(value: Array) -> Array:
    return value if value.dtype == np.bool_ else value.view(f"u{value.dtype.itemsize}")


def _known(found: Any) -> Any:
    if found is None:
        raise _UnknownError
    return found


def _made_by(value: Any) -> Any:
    """The operation that computes a value."""
    return _known(maker(value))


def _numpy(type: Any) -> Any:
    element = ir.ShapedType(type).element_type if isinstance(type, ir.ShapedType) else type
    name = "i64" if str(element) == "index" else str(element)
    if not known_type(name):
        raise _UnknownError
    return element_type(name).numpy
