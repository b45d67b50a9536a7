"""C = A·B, batched or not, in four layouts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.base import Array, Operand, Problem, parse_dims, refuse_if_too_large
from autotuner.problems.dtypes import ElementType, element_type, parse_accumulator, parse_dtype

LAYOUTS = ("nn", "nt", "tn", "tt")
_EXACT_REFERENCE_FLOPS = 2e10
"""Up to here the reference is computed in float64 for every type; beyond, 16-bit inputs are multiplied in float32."""


@dataclass(frozen=True)
class Gemm(Problem):
    """A is MxK (layout n.) or KxM (t.); B is KxN (.n) or NxK (.t); C is MxN in the accumulator's type."""

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "f16"
    acc: str = "f32"
    layout: str = "nn"
    f8: str = "f8E4M3FN"

    op = "gemm"
    template = "gemm.mlir.j2"

    @classmethod
    def parse(
        cls, *, shape: str, dtype: str = "f16", batch: int = 1, acc: str | None = None, layout: str = "nn"
    ) -> Gemm:
        """From the words of the command line, checked."""
        m, n, k = parse_dims(shape, names="MxNxK")
        (checked_batch,) = parse_dims(str(batch), names="B", option="--batch")
        if layout not in LAYOUTS:
            raise UsageError(f"unknown layout {layout!r}.", remedy=f"Choose one of: {', '.join(LAYOUTS)}.")
        kind = parse_dtype(dtype)
        gemm = cls(m, n, k, checked_batch, kind, parse_accumulator(acc, dtype=kind), layout)
        refuse_if_too_large(gemm)
        return gemm

    @property
    def name(self) -> str:
        batch = f"{self.batch}x" if self.batch > 1 else ""
        return f"gemm_{batch}{self.m}x{self.n}x{self.k}_{self.dtype}_{self.acc}_{self.layout}"

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def types(self) -> tuple[str, str]:
        return self.dtype, self.acc

    @property
    def element(self) -> ElementType:
        return element_type(self.f8 if self.dtype == "f8" else self.dtype)

    def with_f8(self, element: str) -> Gemm:
        return replace(self, f8=element)

    def unbatched(self) -> tuple[Gemm, int]:
        return (replace(self, batch=1), 1) if self.batch > 1 else (self, 0)

    @property
    def operands(self) -> tuple[Operand, ...]:
        a = (self.m, self.k) if self.layout[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "n" else (self.n, self.k)
        lead = (self.batch,) if self.batch > 1 else ()
        return (
            Operand(lead + a, self.element),
            Operand(lead + b, self.element),
            Operand((*lead, self.m, self.n), element_type(self.acc)),
        )

    def template_values(self) -> Mapping[str, object]:
        a, b, c = (o.mlir for o in self.operands)
        return {
            "lhs": a,
            "rhs": b,
            "out": c,
            "acc": self.acc,
            "zero": "0.0" if element_type(self.acc).is_float else "0",
            "batched": self.batch > 1,
            "transpose_lhs": self.layout[0] == "t",
            "transpose_rhs": self.layout[1] == "t",
        }

    def inputs(self, seed: int) -> tuple[Array, ...]:
        rng = np.random.default_rng(seed)
        arrays = []
        for operand in self.operands[:2]:
            if operand.element.is_float:
                array = rng.random(operand.shape, np.float32) * 2 - 1
            else:
                array = rng.integers(-127, 128, operand.shape, np.int8)
            arrays.append(array.astype(operand.element.numpy))
        return tuple(arrays)

    def reference(self, inputs: tuple[Array, ...]) -> Array:
        exact = self.flops <= _EXACT_REFERENCE_FLOPS or self.dtype == "f32" or not self.element.is_float
        a, b = (x.astype(np.float64 if exact else np.float32) for x in inputs)
        if self.layout[0] == "t":
            a = a.swapaxes(-1, -2)
        if self.layout[1] == "t":
            b = b.swapaxes(-1, -2)
        product: Array = np.matmul(a, b)
        return product

    @property
    def tolerance(self) -> float:
        if not self.element.is_float:
            return 0.0
        grown = math.sqrt(self.k)
        if self.dtype == "f32":
            return 1e-5 * grown
        if self.acc == "f16":
            return max(self.element.tolerance, 2.0**-11 * grown)
        # The inputs are exact and the accumulator is f32: a wider bound would let a 16-bit accumulation pass.
        return min(self.element.tolerance, max(1e-3, 1e-4 * grown))

    def arguments(self) -> tuple[str, ...]:
        words = ["gemm", "--shape", f"{self.m}x{self.n}x{self.k}", "--dtype", self.dtype]
        if self.batch > 1:
            words += ["--batch", str(self.batch)]
        return (*words, "--acc", self.acc, "--layout", self.layout)
