"""What a tensor of a program holds that is made of positions and constants alone: a mask, however it is spelt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from autotuner.carriers.activations import computed
from autotuner.carriers.forms import CONSTANT, GENERIC
from autotuner.iree.mlir import maker
from autotuner.problems.accuracy import Array
from autotuner.problems.dtypes import element_type, known_type

_LARGEST = 1 << 26
"""Elements of a mask at the most: 8192 queries and as many keys."""
_UNSIGNED = 6
"""The first predicate of arith.cmpi that takes whole numbers as they have no sign."""
_COMPARED_WHOLE: Sequence[Callable[[Any, Any], Any]] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)
_COMPARED: Mapping[int, Callable[[Any, Any], Any]] = {
    **dict.fromkeys((1, 8), np.equal),
    **dict.fromkeys((2, 9), np.greater),
    **dict.fromkeys((3, 10), np.greater_equal),
    **dict.fromkeys((4, 11), np.less),
    **dict.fromkeys((5, 12), np.less_equal),
    **dict.fromkeys((6, 13), np.not_equal),
}
"""By the predicates of arith.cmpf, ordered and not: nothing here is NaN."""
_WHOLE: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}
_BITS: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
_WIDENED = ("arith.extui", "arith.uitofp")
_CAST = ("arith.extsi", "arith.sitofp", "arith.index_cast", "arith.truncf", "arith.extf")
_RESHAPED = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")


def known_values(value: Any) -> Array | None:
    """The elements of a tensor; None: they depend on what the program is given, or on what is not understood here."""
    try:
        return _Values().tensor(value)
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """This is not computed here."""


class _Values:
    """Evaluates what a result needs and no more: a body may have arguments that hold nothing."""

    def __init__(self) -> None:
        self._known: dict[Any, Array] = {}

    def tensor(self, value: Any) -> Array:
        if value not in self._known:
            self._known[value] = self._tensor(value)
        return self._known[value]

    def _tensor(self, value: Any) -> Array:
        """Dimensions along which nothing changes are views of one element: they cost nothing."""
        shape = _static_shape(value.type)
        op = _made_by(value)
        if op.name == CONSTANT:
            made = _constant(op)
        elif op.name == GENERIC:
            made = self._generic(op)
        elif op.name == "linalg.fill":
            made = _constant(_made_by(op.operands[0]))
        elif op.name in _RESHAPED:
            made = self.tensor(op.operands[0]).reshape(shape)
        elif op.name == "linalg.transpose":
            made = self.tensor(op.operands[0]).transpose(list(op.attributes["permutation"]))
        elif op.name == "linalg.broadcast":
            made = np.expand_dims(self.tensor(op.operands[0]), tuple(op.attributes["dimensions"]))
        elif op.name == "tensor.extract_slice" and len(op.operands) == 1:
            names = ("static_offsets", "static_sizes", "static_strides")
            cuts = zip(*(list(op.attributes[name]) for name in names), strict=True)
            cut = self.tensor(op.operands[0])[tuple(slice(at, at + size * step, step) for at, size, step in cuts)]
            made = cut.reshape(shape)
        else:
            raise _UnknownError
        return np.broadcast_to(made, shape)

    def _generic(self, op: Any) -> Array:
        kinds = ir.ArrayAttr(op.attributes["iterator_types"])
        maps = [ir.AffineMapAttr(entry).value for entry in ir.ArrayAttr(op.attributes["indexing_maps"])]
        loops = [str(expr) for expr in maps[-1].results]
        if len(op.results) != 1 or any("parallel" not in str(kind) for kind in kinds):
            raise _UnknownError
        if loops != [f"d{loop}" for loop in range(len(kinds))]:
            raise _UnknownError
        block = op.regions[0].blocks[0]
        operands = dict(zip(block.arguments, zip(op.operands, maps, strict=True), strict=True))
        shape = _static_shape(op.results[0].type)
        known: dict[Any, Array] = {}

        def of(value: Any) -> Array:
            if value not in known:
                known[value] = compute(value)
            return known[value]

        def compute(value: Any) -> Array:
            if value in operands:
                operand, axes = operands[value]
                return _along(self.tensor(operand), axes, len(shape))
            inner = _made_by(value)
            if inner.name == CONSTANT:
                return _constant(inner)
            if inner.name == "linalg.index":
                loop = ir.IntegerAttr(inner.attributes["dim"]).value
                sizes = [size if axis == loop else 1 for axis, size in enumerate(shape)]
                return np.arange(shape[loop], dtype=np.int64).reshape(sizes)
            return _scalar(inner, [of(operand) for operand in inner.operands])

        last = block.operations[len(block.operations) - 1].operation
        return of(last.operands[0])


def _scalar(op: Any, values: list[Array]) -> Array:
    """What an operation of a body gives, in the type of its result."""
    if math.prod(np.broadcast_shapes(*(value.shape for value in values))) > _LARGEST:
        raise _UnknownError
    with np.errstate(all="ignore"):
        return np.asarray(_computed(op, values)).astype(_numpy(op.results[0].type), copy=False)


def _computed(op: Any, values: list[Array]) -> Any:
    bits = any(value.dtype == np.bool_ for value in values)  # which have no sign, and do not add up as numbers
    if op.name == "arith.cmpi":
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate >= _UNSIGNED:
            values = [_unsigned(value) for value in values]
        elif bits and predicate > 1:
            raise _UnknownError
        return _COMPARED_WHOLE[predicate](*values)
    if op.name == "arith.cmpf":
        compare = _COMPARED.get(ir.IntegerAttr(op.attributes["predicate"]).value)
        if compare is None or any(np.isnan(value).any() for value in values):
            raise _UnknownError
        return compare(*values)
    if op.name == "arith.select":
        return np.where(*values)
    if op.name in _BITS:
        return _BITS[op.name](*values)
    if op.name in _WIDENED:
        return _unsigned(values[0])
    if op.name in _WHOLE and not bits:
        return _WHOLE[op.name](*values)
    if op.name in _CAST and not bits:
        return values[0]
    made = computed(op, values)
    if made is None:
        raise _UnknownError
    return made


def _unsigned(value: Array) -> Array:
    return value if value.dtype == np.bool_ else value.view(f"u{value.dtype.itemsize}")


def _along(array: Array, axes: Any, loops: int) -> Array:
    """An operand with a dimension for each loop, of one element where it does not change."""
    if not axes.results:
        return array
    thin = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    places: list[int] = []
    for axis, expr in reversed(list(enumerate(axes.results))):
        if isinstance(expr, ir.AffineDimExpr):
            places.insert(0, int(expr.position))
        elif isinstance(expr, ir.AffineConstantExpr) and thin.shape[axis] == 1:
            thin = thin.squeeze(axis)
        else:
            raise _UnknownError
    if len(set(places)) < len(places):
        raise _UnknownError
    ordered = thin.transpose(np.argsort(places)) if places else thin
    return np.expand_dims(ordered, tuple(loop for loop in range(loops) if loop not in places))


def _constant(op: Any) -> Array:
    """A number, or the one that a whole tensor is filled with."""
    attribute = op.attributes["value"] if op.name == CONSTANT else None
    if isinstance(attribute, ir.DenseElementsAttr):
        if not ir.DenseElementsAttr(attribute).is_splat:
            raise _UnknownError
        attribute = ir.DenseElementsAttr(attribute).get_splat_value()
    if not isinstance(attribute, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr)):
        raise _UnknownError
    element = op.results[0].type
    element = ir.ShapedType(element).element_type if isinstance(element, ir.ShapedType) else element
    return np.asarray(attribute.value).astype(_numpy(element))


def _made_by(value: Any) -> Any:
    """What computes it."""
    made = maker(value)
    if made is None:
        raise _UnknownError
    return made


def _static_shape(type: Any) -> tuple[int, ...]:
    if not isinstance(type, ir.RankedTensorType) or not ir.RankedTensorType(type).has_static_shape:
        raise _UnknownError
    return tuple(ir.RankedTensorType(type).shape)


def _numpy(type: Any) -> Any:
    name = "i64" if str(type) == "index" else str(type)
    if not known_type(name):
        raise _UnknownError
    return element_type(name).numpy
