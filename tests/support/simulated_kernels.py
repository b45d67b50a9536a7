"""Matrix products as kernels compute them, right and wrong, one rounding after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from autotuner.measure.check import compare
from autotuner.problems import Array, Gemm

Kernel = Callable[[Array, Array], Array]
TYPES = (("f32", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f8", "f32"), ("i8", "i32"))


def accumulated(a: Array, b: Array, *, acc: str = "f32", step: int = 1, parts: int = 1, cut: bool = False) -> Array:
    """`step` products at a time, rounded to the accumulator's type, or cut off; `parts`: split K, added up last."""
    rows, columns = np.ascontiguousarray(np.moveaxis(a, -1, 0)), np.ascontiguousarray(np.moveaxis(b, -2, 0))
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for some in np.array_split(np.arange(len(rows)), parts):
        part = np.zeros_like(total)
        for k in range(0, len(some), step):
            left, right = (x[some[k] : some[k] + step][: len(some) - k].astype(np.float64) for x in (rows, columns))
            part = _stored(part + np.einsum("k...i,k...j->...ij", left, right), acc, cut=cut)
        total = _stored(total + part, acc, cut=cut)
    return total


def _stored(values: Array, acc: str, *, cut: bool) -> Array:
    if acc == "i32":
        return values
    stored = values.astype(np.float16 if acc == "f16" else np.float32)
    if cut:
        over = np.abs(stored.astype(np.float64)) > np.abs(values)
        stored = np.where(over, np.nextafter(stored, stored.dtype.type(0)), stored)
    return stored.astype(np.float64)


def honest(gemm: Gemm) -> dict[str, Kernel]:
    """Orders of summation that kernels really use; matrix units cut sums of narrow types off."""
    orders: dict[str, dict[str, Any]] = {
        "one by one": {"step": 1},
        "blocks of 16": {"step": 16},
        "split K": {"step": 4, "parts": 8},
    }
    if gemm.element.bits < 32 and gemm.acc == "f32":
        orders |= {"matrix unit, 8": {"step": 8, "cut": True}, "matrix unit, 16": {"step": 16, "cut": True}}
    return {name: partial(accumulated, acc=gemm.acc, **order) for name, order in orders.items()}


def _tf32(x: Array) -> Array:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)).view(
        np.float32
    )


def _product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def _without_last(a: Array, b: Array, *, rows: slice, count: int) -> Array:
    out = _product(a, b)
    out[rows] = _product(a[rows, :-count], b[:-count])
    return out


def _with(change: Callable[[Array], None]) -> Kernel:
    def kernel(a: Array, b: Array) -> Array:
        out = _product(a, b)
        change(out)
        return out

    return kernel


def _set(out: Array, where: Any, value: Any) -> None:
    out[where] = value


def wrong(gemm: Gemm) -> dict[str, Kernel]:
    """What must never pass."""
    kernels: dict[str, Kernel] = {
        "one product missing": lambda a, b: _without_last(a, b, rows=slice(None), count=1),
        "16 products missing in the last 5 rows": lambda a, b: _without_last(a, b, rows=slice(-5, None), count=16),
        "one element of its neighbour": _with(lambda out: _set(out, (1, 2), out[1, 3])),
        "one row of its neighbour": _with(lambda out: _set(out, 3, out[4])),
        "one column of its neighbour": _with(lambda out: _set(out, (slice(None), 5), out[:, 6])),
        "one tile not written": _with(lambda out: _set(out, (slice(8), slice(8)), 0)),
        "transposed": lambda a, b: _product(a, b).T,
    }
    if gemm.k < 32:
        del kernels["16 products missing in the last 5 rows"]
    if gemm.dtype == "f32":
        kernels["f16 inputs"] = lambda a, b: _product(a.astype(np.float16), b.astype(np.float16))
        kernels["TF32 inputs"] = lambda a, b: _product(_tf32(a), _tf32(b))
        kernels["bf16 inputs"] = lambda a, b: _product(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16))
    if gemm.dtype == "f8":
        kernels["summed in 14 bits"] = in_14_bits
    if gemm.dtype != "i8" and gemm.acc == "f32":
        kernels["summed in f16"] = lambda a, b: accumulated(a, b, acc="f16")
        kernels["16 at a time in f16"] = lambda a, b: _in_chunks(a, b)
    return kernels


def _in_chunks(a: Array, b: Array) -> Array:
    """Short sums in f16, added up in f32: what a kernel does that uses f16 matrix units and promotes."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], 16):
        with np.errstate(invalid="ignore"):
            total = _stored(total + accumulated(a[:, k : k + 16], b[k : k + 16], acc="f16"), "f32", cut=False)
    return total


def in_14_bits(a: Array, b: Array) -> Array:
    """As matrix units for f8 are said to add: 32 products and the sum so far, of 14 bits as the largest has them."""
    total = np.zeros((a.shape[0], b.shape[1]))
    left, right = a.astype(np.float64), b.astype(np.float64)
    for k in range(0, a.shape[1], 32):
        terms = np.concatenate([total[None], left.T[k : k + 32, :, None] * right[k : k + 32, None, :]])
        last = np.exp2(np.frexp(np.abs(terms).max(axis=0))[1] - 14)
        total = np.sum(np.trunc(terms / last), axis=0) * last
    return total


@dataclass(frozen=True)
class Verdict:
    """Which sets of inputs a kernel passed."""

    random: bool
    whole: bool

    @property
    def passed(self) -> bool:
        return self.random and self.whole


def judged(gemm: Gemm, kernel: Kernel, *, seed: int) -> Verdict:
    """As the checker does it, with the kernel's result stored in the output's type."""
    passed = []
    for inputs in (gemm.inputs(seed), gemm.whole_inputs(seed)):
        if inputs is None:
            passed.append(True)
            continue
        reference = gemm.reference(inputs)
        whole = len(passed) == 1
        bound = gemm.whole_bound(inputs, reference) if whole else gemm.bound(inputs, reference)
        stored = gemm.output.element.numpy
        with np.errstate(over="ignore"):
            out = kernel(*inputs).astype(stored)
        passed.append(compare(out, reference.astype(stored).astype(np.float64) if whole else reference, bound).ok)
    return Verdict(*passed)
