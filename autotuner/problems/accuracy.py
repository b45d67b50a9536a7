"""How far a correct kernel may be from the exact result, and inputs on which it must give exactly that.

Rounding to nearest in type t moves a number x by at most u·|x|, u its unit roundoff, and by 0.42·u·|x| in the root mean
square. A sum of K products that is accumulated one after the other therefore ends with a standard deviation of
0.42·u·√K·√(sum²/3 + spread²/6), where spread² is the sum of the squared products: the mean square of the partial sums
on the way to `sum`. Every other order (blocks, trees, split K) rounds less. So that is the bound: an element may be off
by as many deviations as chance gives in `CHANCE` of all checks, and all of them together by little more than one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from autotuner.errors import UsageError
from autotuner.problems.dtypes import ElementType, element_type, type_name

Array = npt.NDArray[Any]
Precision = Literal["", "tf32", "f16"]
"""The precision that a user accepts below that of the types; empty: none."""
CHANCE = 1e-9
"""The probability that a correct kernel is refused."""
RMS = 0.42
"""The root mean square of a rounding error, in unit roundoffs."""
_MEAN = 1.5
"""The largest root mean square of many elements' errors, in standard deviations: it hardly varies."""
_STEP = 4
"""Matrix units add this many products at once, at the least, and cut a sum in f32 off instead of rounding it.

On an NVIDIA H200 errors grow as they do with 16 products at once, and sums in f16 are rounded. AMD's were not measured.
"""
_CUT = 0.72
"""The mean error of truncation, in unit roundoffs: always towards zero, so it adds up."""
_TAIL = 1.28
"""The partial sums of some elements wander far from zero and back. Their mean square, that of a Brownian bridge, is v
times the usual one with a chance of exp(-π²v/12), which leaves errors of t deviations a chance of exp(-1.28·t)."""
_WALK = 8.0
"""The largest partial sum of whole numbers, in standard deviations."""
UNITS = {
    "f64": 2.0**-53,
    "f32": 2.0**-24,
    "f16": 2.0**-11,
    "bf16": 2.0**-8,
    "f8E4M3FN": 2.0**-4,
    "f8E4M3FNUZ": 2.0**-4,
    **dict.fromkeys(("f8E5M2", "f8E5M2FNUZ"), 2.0**-3),
    "f4E2M1FN": 2.0**-2,
}
_SMALLEST = {"f16": 2.0**-25, "f8E4M3FN": 2.0**-10, "f8E4M3FNUZ": 2.0**-11}
"""Half of the smallest positive number, where it is not negligible: the error of rounding to zero."""
_WHOLE = 4095
"""The largest whole number for the exact check, where the type has them all: beyond 2048 a rounding to f16 or TF32
shows."""


@dataclass(frozen=True)
class Bound:
    """The allowed error of a result, element by element."""

    deviation: Array | float
    """The standard deviation of a correct kernel's error."""
    slack: Array | float = 0.0
    """The allowed error on top, such as the last rounding."""
    worst: float | None = None
    """The largest error of an element in deviations; None: the one that chance gives in `CHANCE` of all checks."""
    mean: float = _MEAN
    """The largest root mean square of all errors, in deviations."""

    @classmethod
    def relative(cls, reference: Array, tolerance: float) -> Bound:
        """A bound on the relative error in the root mean square, for results of which no more is known.

        Elements above the usual size may be off by more: one of a softmax may be nearly all of it.
        """
        return cls(tolerance * np.maximum(rms(reference) or 1.0, np.abs(reference)), worst=16.0, mean=1.0)

    @property
    def of_two(self) -> Bound:
        """The bound between two kernels on other inputs of the same kind: any element may be the worst one."""
        deviation, slack = (2 * float(np.max(side)) for side in (self.deviation, self.slack))
        return Bound(deviation, slack, self.worst, self.mean)

    def worst_of(self, size: int) -> float:
        return self.worst if self.worst is not None else math.log(2 * max(size, 1) / CHANCE) / _TAIL

    def mean_of(self, size: int) -> float:
        """The largest root mean square for so many elements: few vary more, by five standard deviations of a mean
        square."""
        return self.mean if self.worst is not None else self.mean * (1 + 5 / math.sqrt(max(size, 1)))


def rms(array: Array) -> float:
    """The root mean square."""
    return math.sqrt(float(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0


def parse_precision(text: str | None, *, dtype: str, acc: str) -> Precision:
    """`--allow-precision`, where the problem's types leave something to allow."""
    wanted = known_precision(text)
    if wanted and not lower_precision(wanted, dtype=dtype, acc=acc):
        raise UsageError(
            f"--allow-precision {wanted} is not below {dtype} with sums in {acc}.", remedy="Leave the option out."
        )
    return wanted


def known_precision(text: str | None) -> Precision:
    known: tuple[Precision, ...] = get_args(Precision)
    for word in known:
        if word == type_name(text or ""):
            return word
    names = ", ".join(word for word in known if word)
    raise UsageError(f"unknown --allow-precision {text!r}.", remedy=f"Choose one of: {names}.")


def lower_precision(wanted: Precision, *, dtype: str, acc: str) -> Precision:
    """The precision if it is below these types'; else none."""
    lower = {"": True, "tf32": dtype == "f32", "f16": acc == "f32"}
    return wanted if lower[wanted] else ""


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of an operation: their depth, operand type, accumulator and result type."""

    length: int
    element: ElementType
    acc: str
    out: str
    allow: Precision = ""

    @property
    def unit(self) -> float:
        """The unit roundoff of the sums; 0 where they are exact."""
        if not element_type(self.acc).is_float:
            return 0.0
        return max(UNITS[self.acc], UNITS["f16"] if self.allow == "f16" else 0.0)

    @property
    def whole_limit(self) -> int:
        """The largest m for which sums of products of ±1 to ±m are exact in any order; 0 when there is none."""
        if self.unit == 0.0:
            return 0
        largest = 1 / self.unit
        if "f16" in (self.acc, self.out):  # results beyond would overflow
            largest = min(largest, 2.0**15)
        units = (UNITS.get(self.element.name, math.inf), UNITS["f16"] if self.allow else 0.0)
        m = min(_WHOLE, round(1 / max(units)))
        while m and max(m * m, _WALK * math.sqrt(self.length) * (m + 1) * (2 * m + 1) / 6) > largest:
            m = m * 3 // 4
        return m


def sum_bound(
    reference: Array, spread: Array | float, sums: Sums, *, rounded_reference: bool = False, kernels: int = 1
) -> Bound:
    """The bound for sums of products; `spread` is the root of the sum of their squares.

    `kernels` is 2 where the reference is another kernel's result.
    """
    if sums.unit == 0.0:
        return Bound(0.0)
    ends, walks = np.square(reference, dtype=np.float64), np.square(spread, dtype=np.float64)
    path = sums.length * (ends / 3 + walks / 6)
    variance = (RMS * sums.unit) ** 2 * (path + walks)
    if rounded_reference:
        variance = variance + (RMS * UNITS["f32"]) ** 2 * path
    if sums.element.bits < 32 and sums.acc == "f32":  # through matrix units
        variance = variance + (_CUT * UNITS["f32"] * sums.length / _STEP) ** 2 * (ends / 4 + walks / 12)
    if sums.allow:  # both factors may be rounded to 11 bits first
        variance = variance + 2 * (RMS * UNITS["f16"]) ** 2 * walks
    return Bound(np.sqrt(kernels * variance), slack=kernels * last_rounding(reference, sums.out))


def last_rounding(reference: Array, out: str) -> Array:
    """The error of the last rounding: half a unit in the last place of the result's type."""
    return UNITS[out] * np.abs(reference.astype(np.float64)) + _SMALLEST.get(out, 0.0)


def whole_numbers(shape: tuple[int, ...], element: ElementType, *, limit: int, rng: np.random.Generator) -> Array:
    """Random whole numbers, ±1 to ±limit: a zero could hide a missing product."""
    sizes = rng.integers(1, limit + 1, shape)
    return np.where(rng.random(shape) < 0.5, sizes, -sizes).astype(np.float32).astype(element.numpy)
