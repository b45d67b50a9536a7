"""What operations of a program compute, found by computing it: from positions and constants, or from samples of what it
is given. Two spellings that give the same numbers are one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from autotuner.iree.mlir import maker
from autotuner.patterns import graph
from autotuner.problems.accuracy import Array
from autotuner.problems.dtypes import element_type, known_type
from autotuner.problems.epilogue import erf

_LARGEST = 1 << 26
"""Elements at the most: a mask of 8192 queries and as many keys."""
_RESHAPES = (graph.COLLAPSE, graph.EXPAND, "tensor.cast")
_WIDENED, _NARROWED = "arith.extf", "arith.truncf"
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
    **dict.fromkeys(("arith.extsi", "arith.sitofp", "arith.index_cast", _NARROWED, _WIDENED), lambda value: value),
}
"""Not of bits, which have no sign and do not add up as numbers."""
_BITS: Mapping[str, Callable[..., Any]] = {
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    **dict.fromkeys(("arith.extui", "arith.uitofp"), lambda value: _unsigned(value)),
}
_ORDERED = (None, np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
"""By the predicates of arith.cmpf; those that are unordered follow in the same order."""
_COMPARED = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
"""By the predicates of arith.cmpi; the last four follow again, for numbers without a sign."""


def computed(op: Any, values: Sequence[Array | float | int]) -> Array | None:
    """What an operation on floats gives for these; None: it is none that is known."""
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
    """The number as this type has it."""
    return float(np.asarray(value, np.float32).astype(element_type(element).numpy))


def known_values(value: Any) -> Array | None:
    """The elements of a tensor that is made of positions and constants alone, exactly; a dimension along which nothing
    changes has one. None: they depend on what the program is given, or on what is not understood here."""
    return _values(value, {}, exact=True)


def sampled(value: Any, given: Mapping[Any, Array]) -> Array | None:
    """The elements of a tensor for these of others, in f64, whatever is rounded on the way. A sample may have fewer
    elements along a dimension than the program."""
    return _values(value, given, exact=False)


def _values(value: Any, given: Mapping[Any, Array], *, exact: bool) -> Array | None:
    try:
        return _Values(given, exact=exact).tensor(value)
    except (_UnknownError, ValueError):  # the latter from numpy: shapes that only samples have
        return None


class _UnknownError(Exception):
    """This is not computed here."""


class _Values:
    """Evaluates what a result needs and no more: a body may have arguments that hold nothing."""

    def __init__(self, given: Mapping[Any, Array], *, exact: bool) -> None:
        self._known: dict[Any, Array] = dict(given)
        self._exact = exact

    def tensor(self, value: Any) -> Array:
        """With a dimension for each of the tensor's, of one element where nothing changes."""
        if value not in self._known:
            self._known[value] = self._tensor(value, _made_by(value))
        return self._known[value]

    def _tensor(self, value: Any, op: Any) -> Array:
        if not graph.is_tensor(value) or not ir.RankedTensorType(value.type).has_static_shape:
            raise _UnknownError
        if op.name in (graph.CONSTANT, graph.FILL):
            constant = self._constant(value if op.name == graph.CONSTANT else op.operands[0])
            return constant.reshape([1] * graph.rank(value))
        if op.name == graph.GENERIC:
            return self._generic(op)
        if op.name in _RESHAPES:
            return _reshaped(self.tensor(op.operands[0]), graph.shape(op.operands[0]), graph.shape(value))
        if op.name == graph.TRANSPOSE:
            return np.transpose(self.tensor(op.operands[0]), *graph.integers(op, "permutation"))
        if op.name == graph.BROADCAST:
            return np.expand_dims(self.tensor(op.operands[0]), tuple(*graph.integers(op, "dimensions")))
        if op.name == graph.SLICE and len(op.operands) == 1:
            return self._slice(op, graph.shape(value))
        raise _UnknownError

    def _slice(self, op: Any, sizes: list[int]) -> Array:
        whole = self.tensor(op.operands[0])
        starts, lengths, steps = graph.integers(op, "static_offsets", "static_sizes", "static_strides")
        if any(size not in (1, there) for size, there in zip(whole.shape, graph.shape(op.operands[0]), strict=True)):
            raise _UnknownError
        cuts = [
            slice(None) if size == 1 else slice(at, at + length * step, step)
            for size, at, length, step in zip(whole.shape, starts, lengths, steps, strict=True)
        ]
        return _reshaped(whole[tuple(cuts)], lengths, sizes)

    def _generic(self, op: Any) -> Array:
        reduced, axes = graph.reductions(op), graph.loops(op)
        arguments, operations = graph.body(op)
        if len(op.results) != 1:
            raise _UnknownError
        own = _Body(self, dict(zip(arguments, zip(op.operands, axes, strict=True), strict=True)), len(reduced))
        last = operations[-1].operands[0]
        if any(reduced):
            return self._total(own, reduced, axes[-1], last)
        if axes[-1] != list(range(len(reduced))):
            raise _UnknownError
        made = own.value(last)
        return made if made.ndim else made.reshape([1] * len(reduced))

    def _total(self, own: _Body, reduced: list[bool], axes: list[int | None], last: Any) -> Array:
        """Of what a body adds to what there is so far: the last dimension alone is added up."""
        *_, (start, (zeros, _)) = own.operands.items()
        kept = list(range(len(reduced) - 1))
        summed = reduced == [False for _ in kept] + [True] and axes in (kept, [*kept, None])
        if not summed or self.tensor(zeros).any():
            raise _UnknownError
        none, one = (own.starting(start, float(n)).value(last) for n in (0, 1))
        if not np.allclose(one - none, 1.0):
            raise _UnknownError
        whole = np.broadcast_to(none, (*none.shape[:-1], own.sizes[len(kept)]))
        total: Array = whole.sum(axis=-1, keepdims=len(axes) > len(kept))
        return total

    def _constant(self, value: Any) -> Array:
        """A number, or the one that a whole tensor is filled with."""
        number = np.asarray(_known(graph.number(value)))
        return number.astype(_numpy(value.type) if self._exact else np.float64)

    def step(self, op: Any, values: list[Array]) -> Array:
        """What an operation of a body gives."""
        if op.name == graph.CONSTANT:
            return self._constant(op.results[0])
        if math.prod(np.broadcast_shapes(*(value.shape for value in values))) > _LARGEST:
            raise _UnknownError
        if self._exact:
            with np.errstate(all="ignore"):
                return np.asarray(_exactly(op, values)).astype(_numpy(op.results[0].type), copy=False)
        if op.name == _WIDENED or (op.name == _NARROWED and values[0].ndim):
            return values[0]
        if op.name == _NARROWED:  # of a constant it is the number that is meant
            return np.asarray(held(float(values[0]), str(op.results[0].type)))
        made: Array = _known(computed(op, values))
        return made


class _Body:
    """What a region computes, with a dimension for each loop."""

    def __init__(self, tensors: _Values, operands: Mapping[Any, Any], count: int) -> None:
        self._tensors, self.operands, self._count = tensors, operands, count
        self._known: dict[Any, Array] = {}

    def starting(self, start: Any, value: float) -> _Body:
        """The same, with this for what there is so far."""
        other = _Body(self._tensors, self.operands, self._count)
        other._known[start] = np.asarray(value)
        return other

    @property
    def sizes(self) -> dict[int | None, int]:
        """Of the loops."""
        pairs = [(axes, graph.shape(value)) for value, axes in self.operands.values()]
        return {axis: size for axes, sizes in pairs for axis, size in zip(axes, sizes, strict=True)}

    def value(self, value: Any) -> Array:
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: Any) -> Array:
        if value in self.operands:
            operand, axes = self.operands[value]
            return _along(self._tensors.tensor(operand), axes, self._count)
        op = _made_by(value)
        if op.name == "linalg.index":
            loop = ir.IntegerAttr(op.attributes["dim"]).value
            return np.arange(self.sizes[loop]).reshape([-1 if axis == loop else 1 for axis in range(self._count)])
        return self._tensors.step(op, [self.value(operand) for operand in op.operands])


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


def _reshaped(array: Array, old: list[int], new: list[int]) -> Array:
    if [size for size in old if size != 1] != [size for size in new if size != 1]:
        return np.broadcast_to(array, old).reshape(new)
    # Dimensions of one element come and go: others stay, also where a sample has fewer elements.
    kept = [size for size, there in zip(array.shape, old, strict=True) if there != 1]
    return array.reshape([1 if size == 1 else kept.pop(0) for size in new])


def _along(array: Array, axes: list[int | None], count: int) -> Array:
    """An operand with a dimension for each loop."""
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
    """What computes it."""
    return _known(maker(value))


def _numpy(type: Any) -> Any:
    element = ir.ShapedType(type).element_type if isinstance(type, ir.ShapedType) else type
    name = "i64" if str(element) == "index" else str(element)
    if not known_type(name):
        raise _UnknownError
    return element_type(name).numpy
