"""Which activation a program computes, however it is spelt: by what comes of some numbers, constants to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from iree.compiler import ir

from autotuner.problems.accuracy import Array
from autotuner.problems.activations import (
    CUBIC,
    IMPORTED_FACTOR,
    TANH_FACTOR,
    erf,
    gelu,
    hard_sigmoid,
    hard_swish,
    sigmoid,
    silu,
    tanh_gelu,
)
from autotuner.problems.dtypes import element_type

SAMPLES: Array = np.concatenate([np.linspace(-9.0, 9.0, 109), [1e-3, -1e-3]])
"""Numbers that stand for all: two functions of a few steps that agree on these are one."""
_DIGITS = 1e-10
"""Steps in another order round otherwise, in f64; the next constant of any type is much further off."""
_NARROW = ("f32", "f16", "bf16")


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
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
_COMPARED: Mapping[int, Callable[[Any, Any], Any]] = {
    **dict.fromkeys((2, 9), np.greater),
    **dict.fromkeys((3, 10), np.greater_equal),
    **dict.fromkeys((4, 11), np.less),
    **dict.fromkeys((5, 12), np.less_equal),
    **dict.fromkeys((6, 13), np.not_equal),
}
"""By the predicates of arith.cmpf, ordered and not."""


def computed(op: Any, values: Sequence[Array | float | int]) -> Array | None:
    """What an operation on numbers gives for these; None: it is none that an activation has."""
    function = _FUNCTIONS.get(op.name)
    if op.name == "arith.cmpf":
        function = _COMPARED.get(ir.IntegerAttr(op.attributes["predicate"]).value)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*values))


def held(number: float, element: str) -> float:
    """The number as this type has it."""
    return float(np.asarray(number, np.float32).astype(element_type(element).numpy))


def activation_of(values: Array, element: str) -> str:
    """The activation that has these values for `SAMPLES`, computed in this type; empty: it is none of them."""
    if element not in _NARROW:
        return ""
    return next((name for name, known in _known(element) if np.allclose(values, known, rtol=_DIGITS, atol=_DIGITS)), "")


@cache
def _known(element: str) -> tuple[tuple[str, Array], ...]:
    return tuple((name, function(SAMPLES)) for name, function in _spellings(element))


def _spellings(element: str) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Each with the constants that exporters write, as the type has them."""
    for root in (math.sqrt(2.0), held(math.sqrt(2.0), element), 1.0 / held(math.sqrt(0.5), element)):
        yield "gelu", partial(gelu, root=root)
    for name, factor in (("tanhgelu", TANH_FACTOR), ("importedgelu", IMPORTED_FACTOR)):
        yield name, partial(tanh_gelu, factor=held(factor, element), cubic=held(CUBIC, element))
    yield "silu", silu
    yield "sigmoid", sigmoid
    for slope in (1.0 / 6.0, held(1.0 / 6.0, element)):
        yield "hardswish", partial(hard_swish, slope=slope)
        yield "hardsigmoid", partial(hard_sigmoid, slope=slope)
