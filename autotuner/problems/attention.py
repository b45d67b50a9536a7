"""Scaled dot-product attention, causal or not."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self

import numpy as np

from autotuner.problems.accuracy import UNITS, Array, Bound, Precision, last_rounding, parse_precision, whole_numbers
from autotuner.problems.base import Operand, parse_dims, random_inputs, refuse_if_too_large, widened
from autotuner.problems.dtypes import ElementType, element_type, parse_dtype
from autotuner.problems.operation import Operation

_SHARPNESS = 4.0
"""Queries are this much larger than keys: weights that differ make a wrong mask or maximum visible."""
_EXP_UNITS = 16.0
"""The exponential of a score, with its argument rounded first, in unit roundoffs of f32."""
_ORDERS = 1.5
"""Above what one order of rounding gives: the scale may be rounded, the weights before or after they are summed."""
_FAR = 200.0
"""exp(-200) is nothing beside 1."""
_FARTHEST = {"f8E4M3FN": 448.0, "f8E4M3FNUZ": 240.0}
_BLOCK = 1024
"""So many queries are computed at once: their scores fit into memory for any number of them."""
_THREADS = 16
_VALUES = 8
"""Values are whole numbers up to here: their sums over all keys are exact."""


@dataclass(frozen=True)
class Attention(Operation):
    """softmax(Q·Kᵀ/√D)·V for each batch entry and head. Q is BxHxSQxD, K and V are BxHxSKVxD.

    `causal` lets query i see keys 0 to i, as torch has it. `flat` operands have one dimension for batch and heads, as
    models have them.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    dtype: str = "f16"
    causal: bool = False
    f8: str = "f8E4M3FN"
    allow: Precision = ""
    flat: bool = False

    op = "attention"
    kind = "attention"
    template = "attention.mlir.j2"
    letters: ClassVar[Mapping[str, str]] = {"query": "bhqd", "key": "bhkd", "value": "bhkd", "out": "bhqd"}

    @classmethod
    def parse(cls, *, shape: str, dtype: str = "f16", causal: bool = False) -> Self:
        """From the words of the command line, checked."""
        batch, heads, queries, keys, width = parse_dims(shape, names="BxHxSQxSKVxD")
        attention = cls(batch, heads, queries, keys, width, parse_dtype(dtype), causal)
        refuse_if_too_large(attention)
        return attention

    @classmethod
    def smallest(cls) -> Self:
        return cls(1, 1, 1, 1, 1)

    def variables(self) -> Mapping[str, int]:
        return {
            "batch": self.batch,
            "heads": self.heads,
            "queries": self.queries,
            "keys": self.keys,
            "width": self.width,
            "causal": int(self.causal),
        }

    def dimensions(self, operand: str) -> str:
        return self.letters[operand].replace("h", "") if self.flat else self.letters[operand]

    @property
    def name(self) -> str:
        ends = ("_causal" if self.causal else "") + ("_flat" if self.flat else "")
        return f"attention_{self.batch}x{self.heads}x{self.queries}x{self.keys}x{self.width}_{self.dtype}{ends}"

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
        lead = (self.batch * self.heads,) if self.flat else (self.batch, self.heads)
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
            "flat": self.flat,
            "mask": f"tensor<{self.queries}x{self.keys}xi1>" if self.causal else "",
        }

    def inputs(self, seed: int) -> tuple[Array, ...]:
        query, key, value = random_inputs(self.operands[:3], seed)
        return (query.astype(np.float32) * _SHARPNESS).astype(query.dtype), key, value

    def reference(self, inputs: tuple[Array, ...]) -> Array:
        return self._attended(inputs)

    def _attended(self, inputs: tuple[Array, ...], *, squares: bool = False) -> Array:
        """The values by their weights; `squares`: the sum of the squared terms instead."""
        wide = widened(inputs, flops=self.flops)
        query, key, value = (x.reshape(self.batch * self.heads, -1, self.width) for x in wide)
        out = np.empty((self.batch * self.heads, self.queries, self.width))

        def attend(entry: int, first: int) -> None:
            rows = slice(first, first + _BLOCK)
            scores = query[entry, rows] @ key[entry].T / query.dtype.type(math.sqrt(self.width))
            if self.causal:
                scores[~np.tri(len(scores), self.keys, first, dtype=bool)] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            # Divided last, and in float64: sums of whole numbers stay exact until then.
            total = weights.sum(axis=1, keepdims=True, dtype=np.float64)
            if squares:
                out[entry, rows] = (np.square(weights) @ np.square(value[entry])) / np.square(total)
            else:
                out[entry, rows] = (weights @ value[entry]) / total

        # numpy computes exponentials on one core a thread.
        with ThreadPoolExecutor(min(os.cpu_count() or 1, _THREADS)) as pool:
            blocks = product(range(self.batch * self.heads), range(0, self.queries, _BLOCK))
            list(pool.map(lambda block: attend(*block), blocks))
        return out.reshape(self.output.shape)

    def bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """Scores round as sums of products do, and the weights are stored in the operands' type on the way."""
        query, key, _ = (x.astype(np.float32) for x in inputs)
        size = float(np.linalg.norm(query, axis=-1).max() * np.linalg.norm(key, axis=-1).max()) / self.width
        spread = np.sqrt(self._attended(inputs, squares=True))
        unit, sums = max(UNITS[self.element.name], UNITS["f16"] if self.allow else 0.0), UNITS["f32"]
        scores = math.hypot(unit * size, sums * (_EXP_UNITS + math.sqrt(self.width) * size))
        scale = np.sqrt(np.square(spread) + np.square(reference))
        deviation = _ORDERS * math.hypot(scores, unit) * scale + sums * math.sqrt(self.keys) * spread
        return Bound(deviation, slack=last_rounding(reference, self.output.element.name))

    def whole_inputs(self, seed: int) -> tuple[Array, ...]:
        """Every query sees the keys that have a 0 where it looks, all alike, and nothing of the others.

        The weights are 1 or 0 then, and the sums of whole numbers exact: a key that is missed, or seen in vain, shows.
        """
        rng = np.random.default_rng(seed)
        queries, keys, values, _ = self.operands
        looks = rng.integers(0, self.width, queries.shape[:-1])
        far = min(_FAR * math.sqrt(self.width), _FARTHEST.get(self.element.name, math.inf))
        query = np.zeros(queries.shape, np.float32)
        np.put_along_axis(query, looks[..., None], -far, axis=-1)
        key = (rng.random(keys.shape) < 0.5).astype(np.float32)
        value = whole_numbers(values.shape, self.element, limit=_VALUES, rng=rng)
        return query.astype(self.element.numpy), key.astype(self.element.numpy), value

    def whole_bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """Dividing by the number of keys rounds, before the sum or after it."""
        spread = np.sqrt(self._attended(inputs, squares=True))
        unit = max(UNITS[self.element.name], UNITS["f16"] if self.allow else 0.0)
        slack = 4 * unit * np.abs(reference) + last_rounding(reference, self.output.element.name)
        return Bound(UNITS["f32"] * math.sqrt(self.keys) * (spread + np.abs(reference)), slack=slack)

    def allowing(self, precision: str | None) -> Attention:
        return replace(self, allow=parse_precision(precision, dtype=self.dtype, acc="f32"))

    def arguments(self) -> tuple[str, ...]:
        sizes = (self.batch, self.heads, self.queries, self.keys, self.width)
        words = ("attention", "--shape", "x".join(map(str, sizes)), "--dtype", self.dtype)
        return (*words, *(("--causal",) if self.causal else ()), *self.precision_arguments())
