"""How far apart the outputs of two right builds of a model may be.

Each dispatch rounds its result to the type that it is stored in, and its sums to the type that they are added up in;
what one build fuses, another stores in between. These errors are independent of each other, so their squares add up: a
relative error of 0.42·u for each result of unit roundoff u, and of 0.42·u·√(K/2) for sums of K products. Layers may
make errors of earlier ones larger, which `_ROOM` is for. An output in f32 is no more exact than the f16 it came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autotuner.iree.mlir import Dispatch
from autotuner.jobs.model.extract import FlowDispatch, Group, tensor_type
from autotuner.problems.accuracy import RMS, UNITS, Precision, lower_precision

_ROOM = 3.0
_LEAST, _LEAST_F64 = 1e-4, 1e-6
"""Where the sum comes to less: errors of f32 and f64 are small beside those of any lower precision."""
_CONTRACTED = {"contraction": ("k",), "convolution": ("filter", "input"), "attention": ("k1", "k2")}


def length(root: Dispatch) -> int:
    """How many products a sum of this operation has."""
    sizes = [math.prod(root.sizes(role)) for role in _CONTRACTED[root.kind]]
    return sum(sizes) if root.kind == "attention" else math.prod(sizes)


def expected_error(
    groups: Sequence[Group], others: Sequence[FlowDispatch], *, allow: Precision = "", rounded_weights: bool = False
) -> float:
    """The relative error, in the root mean square, that rounding explains between two builds of these dispatches.

    `rounded_weights`: one of the two is a model of a wider type, whose operands were not rounded to this one's.
    """
    pieces = [*(piece for group in groups for piece in group.pieces), *others]
    stored = sum(piece.calls * max((_squared(u) for u in _results(piece)), default=0.0) for piece in pieces)
    summed = sum(group.calls * _sums(group.root, allow) for group in groups)
    if rounded_weights:
        factors = ((group.calls, UNITS.get(group.root.element_types[0], 0.0)) for group in groups)
        summed += sum(2 * calls * _squared(unit) for calls, unit in factors)
    coarsest = max((u for piece in pieces for u in _results(piece)), default=UNITS["f32"])
    least = _LEAST if coarsest >= UNITS["f32"] else _LEAST_F64
    return max(_ROOM * math.sqrt(stored + summed), least)


def _sums(root: Dispatch, allow: Precision) -> float:
    """The squared relative error of an operation's sums."""
    element, acc = root.element_types[0], root.element_types[-1]
    if acc not in UNITS:
        return 0.0
    unit, factors = UNITS[acc], 0.0
    if lower_precision(allow, dtype=element, acc=acc):
        factors = 2 * _squared(UNITS["f16"])
        unit = max(unit, UNITS["f16"] if allow == "f16" else 0.0)
    if root.kind == "attention":  # its weights are rounded to the operands' type on the way
        factors += _squared(UNITS.get(element, 0.0))
    return _squared(unit) * length(root) / 2 + factors


def _squared(unit: float) -> float:
    return (RMS * unit) ** 2


def _results(piece: FlowDispatch) -> Iterable[float]:
    for value in piece.results:
        if value.is_tensor and (element := tensor_type(value)[1]) in UNITS:
            yield UNITS[element]
