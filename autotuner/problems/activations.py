"""Functions that an epilogue may apply to each of its sums, as models have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from autotuner.problems.accuracy import Array

CUBIC = 0.044715
"""Of the cube in a gelu by tanh."""
TANH_FACTOR = math.sqrt(2 / math.pi)
IMPORTED_FACTOR = 0.7977240352174656
"""What IREE's importers write in its place for a Gelu that asks for tanh: the fourth digit is another."""
_STEEPEST = 1.5
"""No activation has a greater slope: hardswish has it at 3."""
_ROUNDINGS = 16
"""Unit roundoffs of f32 that computing one may cost: some steps, and functions that are polynomials."""


@dataclass(frozen=True, slots=True)
class Activation:
    number: int
    """How the sources of kernels know it."""
    function: Callable[[Array], Array]
    factor: float = 0.0
    """A number that goes with it."""
    offset: float = 0.0
    """What comes of zero, or more: results are as large as this however small sums are."""

    def slack(self, sums: Array) -> Array:
        """What computing it in f32 may add to an error."""
        slack: Array = _ROUNDINGS * 2.0**-24 * (np.abs(sums) + self.offset)
        return slack

    @property
    def slope(self) -> float:
        return _STEEPEST


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


def gelu(x: Array, root: float = math.sqrt(2.0)) -> Array:
    return np.asarray(0.5 * x * (1.0 + erf(x / root)))


def tanh_gelu(x: Array, factor: float = TANH_FACTOR, cubic: float = CUBIC) -> Array:
    return np.asarray(0.5 * x * (1.0 + np.tanh(factor * (x + cubic * x**3))))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def hard_sigmoid(x: Array, slope: float = 1.0 / 6.0) -> Array:
    return np.asarray(np.clip(x * slope + 0.5, 0.0, 1.0))


def hard_swish(x: Array, slope: float = 1.0 / 6.0) -> Array:
    return x * hard_sigmoid(x, slope)


ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": Activation(1, gelu),
    "tanhgelu": Activation(2, tanh_gelu, TANH_FACTOR),
    "importedgelu": Activation(2, lambda x: tanh_gelu(x, IMPORTED_FACTOR), IMPORTED_FACTOR),
    "silu": Activation(3, silu),
    "hardswish": Activation(4, hard_swish),
    "sigmoid": Activation(5, sigmoid, offset=1.0),
    "hardsigmoid": Activation(6, hard_sigmoid, offset=1.0),
}
"""By the words of `--epilogue`."""

_STEPS, _END = 256, 6
"""Of the table of erf: steps in one, and where it is 1."""


@cache
def _erf_table() -> tuple[Array, Array]:
    places = np.arange(_STEPS * _END + 2) / _STEPS
    values = np.array([math.erf(x) for x in places])
    return values, 2 / math.sqrt(math.pi) * np.exp(-(places**2)) / _STEPS


def erf(x: Array) -> Array:
    """The error function, good to eleven digits: cubic pieces between the points of a table."""
    values, slopes = _erf_table()
    size = np.minimum(np.abs(x), _END) * _STEPS
    known = np.nan_to_num(size)
    at = known.astype(np.int64)
    t = size - at
    one, other = values[at], values[at + 1]
    rise = other - one
    bend, fall = slopes[at] - rise, rise - slopes[at + 1]
    piece = one + t * rise + t * (1 - t) * (bend * (1 - t) + fall * t)
    return np.asarray(np.copysign(piece, x))
