"""Scaled dot-product attention, causal or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotuner.problems.base import Array, Operand, Problem, parse_dims, random_inputs, refuse_if_too_large
from autotuner.problems.dtypes import ElementType, element_type, parse_dtype

_SHARPNESS = 4.0
"""Queries are this much larger than keys: weights that differ make a wrong mask or maximum visible."""


@dataclass(frozen=True)
class Attention(Problem):
    """softmax(Q·Kᵀ/√D)·V for each batch entry and head. Q is BxHxSQxD, K and V are BxHxSKVxD.

    `causal` lets query i see keys 0 to i, as torch has it.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    dtype: str = "f16"
    causal: bool = False
    f8: str = "f8E4M3FN"

    op = "attention"
    template = "attention.mlir.j2"

    @classmethod
    def parse(cls, *, shape: str, dtype: str = "f16", causal: bool = False) -> Attention:
        """From the words of the command line, checked."""
        batch, heads, queries, keys, width = parse_dims(shape, names="BxHxSQxSKVxD")
        attention = cls(batch, heads, queries, keys, width, parse_dtype(dtype), causal)
        refuse_if_too_large(attention)
        return attention

    @property
    def name(self) -> str:
        causal = "_causal" if self.causal else ""
        return f"attention_{self.batch}x{self.heads}x{self.queries}x{self.keys}x{self.width}_{self.dtype}{causal}"

    @property
    def flops(self) -> int:
        """Of the pairs of query and key that count."""
        pairs = self.queries * self.keys
        if self.causal:
            seen = min(self.queries, self.keys)
            pairs = seen * (seen + 1) // 2 + (self.queries - seen) * self.keys
        return 4 * self.batch * self.heads * pairs * self.width

    @property
    def types(self) -> tuple[str, str]:
        return self.dtype, "f32"

    @property
    def element(self) -> ElementType:
        return element_type(self.f8 if self.dtype == "f8" else self.dtype)

    def with_f8(self, element: str) -> Attention:
        return replace(self, f8=element)

    @property
    def operands(self) -> tuple[Operand, ...]:
        lead = (self.batch, self.heads)
        keys = Operand((*lead, self.keys, self.width), self.element)
        out = element_type("f32") if self.dtype == "f8" else self.element
        rows = (*lead, self.queries, self.width)
        return Operand(rows, self.element), keys, keys, Operand(rows, out)

    def template_values(self) -> Mapping[str, object]:
        query, key, value, out = (o.mlir for o in self.operands)
        return {
            "query": query,
            "key": key,
            "value": value,
            "out": out,
            "scale": repr(1.0 / math.sqrt(self.width)),
            # An 8-bit scale would lose most of its digits.
            "scale_type": "f32" if self.dtype == "f8" else self.element.mlir,
            "mask": f"tensor<{self.queries}x{self.keys}xi1>" if self.causal else "",
        }

    def inputs(self, seed: int) -> tuple[Array, ...]:
        query, key, value = random_inputs(self.operands[:3], seed)
        return (query.astype(np.float32) * _SHARPNESS).astype(query.dtype), key, value

    def reference(self, inputs: tuple[Array, ...]) -> Array:
        query, key, value = (x.astype(np.float64) for x in inputs)
        out = np.empty((self.batch, self.heads, self.queries, self.width))
        hidden = ~np.tri(self.queries, self.keys, dtype=bool) if self.causal else None
        for entry in np.ndindex(self.batch, self.heads):
            scores = query[entry] @ key[entry].T / math.sqrt(self.width)
            if hidden is not None:
                scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[entry] = weights @ value[entry] / weights.sum(axis=1, keepdims=True)
        return out

    @property
    def tolerance(self) -> float:
        if self.dtype == "f32":
            return 1e-5 * math.sqrt(self.width)
        return self.element.tolerance

    def arguments(self) -> tuple[str, ...]:
        sizes = (self.batch, self.heads, self.queries, self.keys, self.width)
        words = ("attention", "--shape", "x".join(map(str, sizes)), "--dtype", self.dtype)
        return (*words, "--causal") if self.causal else words
