"""Element types: their names to users, to MLIR and to numpy."""

from __future__ import annotations

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autotuner.errors import UsageError


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type as the command line, MLIR and numpy know it."""

    name: str
    mlir: str
    numpy: npt.DTypeLike
    bits: int

    @property
    def is_float(self) -> bool:
        return not self.mlir.startswith("i")

    @property
    def bytes(self) -> int:
        return self.bits // 8


_TYPES = {
    t.name: t
    for t in (
        ElementType("f32", "f32", np.float32, 32),
        ElementType("f16", "f16", np.float16, 16),
        ElementType("bf16", "bf16", ml_dtypes.bfloat16, 16),
        ElementType("i8", "i8", np.int8, 8),
        ElementType("i32", "i32", np.int32, 32),
        ElementType("f64", "f64", np.float64, 64),
        ElementType("i64", "i64", np.int64, 64),
        ElementType("i16", "i16", np.int16, 16),
        ElementType("i1", "i1", np.bool_, 8),
        ElementType("f8E4M3FN", "f8E4M3FN", ml_dtypes.float8_e4m3fn, 8),
        ElementType("f8E4M3FNUZ", "f8E4M3FNUZ", ml_dtypes.float8_e4m3fnuz, 8),
        ElementType("f8E8M0FNU", "f8E8M0FNU", ml_dtypes.float8_e8m0fnu, 8),
        ElementType("f8E5M2", "f8E5M2", ml_dtypes.float8_e5m2, 8),
        ElementType("f8E5M2FNUZ", "f8E5M2FNUZ", ml_dtypes.float8_e5m2fnuz, 8),
    )
}
INPUT_NAMES = ("f32", "f16", "bf16", "i8", "f8")
ACCUMULATORS = {"f32": ("f32",), "f16": ("f32", "f16"), "bf16": ("f32",), "i8": ("i32",), "f8": ("f32",)}
"""The accumulators of each input type; the first is the default."""
PAIRS = tuple((dtype, acc) for dtype, sums in ACCUMULATORS.items() for acc in sums)
"""(dtype, accumulator) of all sums of products."""
SCALED_NAMES = ("mxfp4", "mxfp8", "f8b128", "f8row")
"""Types of numbers that share scales, in blocks or rows: `problems.scales` says which."""
MIXED_NAMES = ("bf8", "f8xbf8", "bf8xf8")
"""The other 8-bit float (f8E5M2 and the like), for both operands of a product or for one of them."""
SUMMED = tuple((dtype, sums[0]) for dtype, sums in ACCUMULATORS.items())
"""(dtype, accumulator) pairs with the default accumulator only."""
ROUNDED = ("f16", "bf16")
"""Types that a result may be rounded to."""


def element_type(name: str) -> ElementType:
    """The type of a full name (f8 is two types, of which a target has one)."""
    return _TYPES[name]


def bf8_of(f8: str) -> ElementType:
    """The other 8-bit float of a chip with this f8."""
    return element_type("f8E5M2FNUZ" if f8.endswith("FNUZ") else "f8E5M2")


def known_type(name: str) -> bool:
    return name in _TYPES


def type_name(text: str) -> str:
    """The canonical name: `fp16`, `float16` and `half` are f16, `bfloat16` is bf16, `int8` is i8."""
    name = {"half": "f16", "float": "f32"}.get(text.strip().lower(), text.strip().lower())
    return re.sub(r"^int(?=\d)", "i", re.sub(r"^(b?)(?:fp|float)(?=\d)", r"\1f", name))


def parse_dtype(text: str, *, more: tuple[str, ...] = ()) -> str:
    """Reads --dtype; `more` are those that only this operation has."""
    text, known = type_name(text), (*INPUT_NAMES, *more)
    if text not in known:
        raise UsageError(f"unknown dtype {text!r}.", remedy=f"Choose one of: {', '.join(known)}.")
    return text


def parse_accumulator(text: str | None, *, dtype: str) -> str:
    allowed = ACCUMULATORS.get(dtype, ("f32",))
    if text is None:
        return allowed[0]
    text = type_name(text)
    if text not in allowed:
        raise UsageError(f"{dtype} does not accumulate in {text!r}.", remedy=f"Choose --acc {' or '.join(allowed)}.")
    return text


def parse_rounded(text: str | None, *, acc: str) -> str:
    """Reads --out; a result in the accumulator's type is not rounded."""
    text = None if text is None else type_name(text)
    if text is None or text == acc:
        return ""
    if acc != "f32" or text not in ROUNDED:
        allowed = [acc, *ROUNDED] if acc == "f32" else [acc]
        raise UsageError(
            f"a result accumulated in {acc} is not stored as {text!r}.", remedy=f"Choose --out {' or '.join(allowed)}."
        )
    return text
