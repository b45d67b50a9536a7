"""Scaled dot-product attention, causal or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self

import numpy as np

from autotuner.problems.accuracy import UNITS, Array, Bound, Precision, last_rounding, whole_numbers
from autotuner.problems.base import Operand, parse_dims, random_inputs, refuse_if_too_large, widened
from autotuner.problems.dtypes import SUMMED, element_type, parse_dtype
from autotuner.problems.operation import Operation
from autotuner.system.process import PIECE, in_parts

HEADS_FIRST, TOKENS_FIRST, PACKED = "bhsd", "bshd", "bs3hd"
_SHARPNESS = 4.0
"""The scale of queries over keys: unequal weights reveal a wrong mask or maximum."""
_EXP_UNITS = 16.0
"""The error of a score's exponential with a rounded argument, in unit roundoffs of f32."""
_ORDERS = 1.5
"""The factor for other orders of rounding: of the scale, and of the weights before or after their sum."""
_FAR = 200.0
"""A score this far below the largest has no weight: exp(-200) is negligible."""
_BLOCK = 1024
"""The most queries that the reference computes at once, so that their scores fit in memory."""


@dataclass(frozen=True)
class Attention(Operation):
    """softmax(Q·Kᵀ/√D)·V for each batch entry and head. Q is BxHxSQxD, K and V are BxHxSKVxD.

    `causal` lets query i see keys 0 to i, as torch has it. `flat` operands have one dimension for batch and heads, as
    models have them.

    `layout` says where the heads are: before the tokens (bhsd); after them, as a linear layer writes them (bshd: Q is
    BxSQxHxD, and so is the result); or so in one tensor with all three, of which Q is the first (bs3hd: BxSx3xHxD).
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
    layout: str = HEADS_FIRST

    op = "attention"
    kind = "attention"
    template = "attention.mlir.j2"
    acc = "f32"
    named = (
        r"attention_(?P<shape>[\dx]+)_(?P<dtype>[a-z0-9]+)(?:_(?P<causal>causal))?(?:_(?P<flat>flat))?"
        r"(?:_(?P<layout>bshd|bs3hd))?"
    )
    pairs: ClassVar[tuple[tuple[str, str], ...]] = tuple(pair for pair in SUMMED if pair[1] == "f32")
    routes: ClassVar[tuple[str, ...]] = (
        "decomposed",
        "decomposed+data-tiling",
        "decomposed+data-tiling+ukernels",
        "decomposed+global-data-tiling",
    )
    priors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "aarch64": ("decomposed+data-tiling+ukernels", "decomposed+data-tiling"),
        "host": (
            "decomposed+data-tiling+ukernels",
            "decomposed+global-data-tiling+ukernels",
            "decomposed+data-tiling+ukernels",
            "decomposed+data-tiling+ukernels",
        ),
        "gpu": ("O3", "data-tiling", "aggressive-fusion"),
    }
    layouts: ClassVar[tuple[str, ...]] = (HEADS_FIRST, TOKENS_FIRST, PACKED)
    usual_layout: ClassVar[str] = HEADS_FIRST
    letters: ClassVar[Mapping[str, str]] = {"query": "bhqd", "key": "bhkd", "value": "bhkd", "out": "bhqd"}

    @classmethod
    def parse(cls, *, shape: str, dtype: str = "f16", causal: bool = False) -> Self:
        """From the words of the command line, checked."""
        batch, heads, queries, keys, width = parse_dims(shape, names="BxHxSQxSKVxD")
        attention = cls(batch, heads, queries, keys, width, parse_dtype(dtype), causal)
        refuse_if_too_large(attention)
        return attention

    @classmethod
    def _of_words(cls, words: Mapping[str, str]) -> Self:
        attention = cls.parse(shape=words["shape"], dtype=words["dtype"], causal="causal" in words)
        return replace(attention, flat="flat" in words, layout=words.get("layout", HEADS_FIRST))

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
            # Heads that lie side by side in a row of what is read, and of what is written.
            "row": {HEADS_FIRST: 1, TOKENS_FIRST: self.heads, PACKED: 3 * self.heads}[self.layout],
            "out_row": 1 if self.layout == HEADS_FIRST else self.heads,
        }

    @property
    def operand_names(self) -> tuple[str, ...]:
        """The names of its operands; a packed one is the query."""
        return ("query", "out") if self.layout == PACKED else super().operand_names

    def dimensions(self, operand: str) -> str:
        letters = self.letters[operand]
        if self.flat:
            return letters.replace("h", "")
        if self.layout == PACKED and operand == "query":
            return "bq3hd"
        return letters if self.layout == HEADS_FIRST else "".join(letters[axis] for axis in (0, 2, 1, 3))

    @property
    def name(self) -> str:
        ends = ("_causal" if self.causal else "") + ("_flat" if self.flat else "")
        ends += f"_{self.layout}" if self.layout != HEADS_FIRST else ""
        return f"attention_{self.batch}x{self.heads}x{self.queries}x{self.keys}x{self.width}_{self.dtype}{ends}"

    @property
    def flops(self) -> int:
        """The flops of all unmasked pairs of query and key."""
        pairs = self.queries * self.keys
        if self.causal:
            seen = min(self.queries, self.keys)
            pairs = seen * (seen + 1) // 2 + (self.queries - seen) * self.keys
        return 4 * self.batch * self.heads * pairs * self.width

    @property
    def operands(self) -> tuple[Operand, ...]:
        rows, keys = self._shape(self.queries), Operand(self._shape(self.keys), self.element)
        out = Operand(rows, element_type("f32") if self.dtype == "f8" else self.element)
        if self.layout == PACKED:
            return Operand((self.batch, self.queries, 3, self.heads, self.width), self.element), out
        return Operand(rows, self.element), keys, keys, out

    def _shape(self, tokens: int) -> tuple[int, ...]:
        if self.flat:
            return self.batch * self.heads, tokens, self.width
        lead = (self.heads, tokens) if self.layout == HEADS_FIRST else (tokens, self.heads)
        return self.batch, *lead, self.width

    @property
    def heads_first(self) -> Attention:
        """The attention in the layout with heads first."""
        return replace(self, layout=HEADS_FIRST)

    def template_values(self) -> Mapping[str, object]:
        query, key, value, out = (o.mlir for o in self.heads_first.operands)
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
            "given": [operand.mlir for operand in self.operands] if self.layout != HEADS_FIRST else [],
            "packed": self.layout == PACKED,
            "part": Operand(self._shape(self.queries), self.element).mlir,
            "sizes": (self.batch, self.queries, self.heads, self.width),
        }

    def inputs(self, seed: int) -> tuple[Array, ...]:
        query, key, value = random_inputs(self.heads_first.operands[:3], seed)
        return self._laid_out(((query.astype(np.float32) * _SHARPNESS).astype(query.dtype), key, value))

    def reference(self, inputs: tuple[Array, ...]) -> Array:
        return self._attended(inputs)

    def _laid_out(self, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Queries, keys and values with the heads first, as this layout has them."""
        if self.layout == HEADS_FIRST:
            return operands
        turned = tuple(np.ascontiguousarray(np.swapaxes(operand, 1, 2)) for operand in operands)
        return (np.stack(turned, axis=2),) if self.layout == PACKED else turned

    def _heads_first(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """The operands with heads first."""
        parts = tuple(np.moveaxis(inputs[0], 2, 0)) if self.layout == PACKED else inputs
        return parts if self.layout == HEADS_FIRST else tuple(np.swapaxes(part, 1, 2) for part in parts)

    def _attended(self, inputs: tuple[Array, ...], *, squares: bool = False) -> Array:
        """The weighted sums of values; with `squares`, the sums of squared terms."""
        wide = widened(self._heads_first(inputs), flops=self.flops)
        query, key, value = (x.reshape(self.batch * self.heads, -1, self.width) for x in wide)
        out = np.empty((self.batch * self.heads, self.queries, self.width))
        # The exponential of a score costs as much as 128 products.
        step = max(1, min(_BLOCK, PIECE // (4 * self.keys * (self.width + 128))))
        for entry, first in in_parts(list(product(range(len(out)), range(0, self.queries, step)))):
            rows = slice(first, first + step)
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
        if self.layout == HEADS_FIRST:
            return out.reshape(self.output.shape)
        return np.swapaxes(out.reshape(self.batch, self.heads, self.queries, self.width), 1, 2)

    def bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """The bound: scores round as sums of products do, and weights are stored in the operands' type."""
        query, key, _ = (x.astype(np.float32) for x in self._heads_first(inputs))
        size = float(np.linalg.norm(query, axis=-1).max() * np.linalg.norm(key, axis=-1).max()) / self.width
        spread = np.sqrt(self._attended(inputs, squares=True))
        unit, sums = max(UNITS[self.element.name], UNITS["f16"] if self.allow else 0.0), UNITS["f32"]
        scores = math.hypot(unit * size, sums * (_EXP_UNITS + math.sqrt(self.width) * size))
        scale = np.sqrt(np.square(spread) + np.square(reference))
        deviation = _ORDERS * math.hypot(scores, unit) * scale + sums * math.sqrt(self.keys) * spread
        return Bound(deviation, slack=last_rounding(reference, self.output.element.name))

    def whole_inputs(self, seed: int) -> tuple[Array, ...]:
        """Inputs on which every query attends equally to some keys, and not at all to others.

        The weights are 1 or 0 then, and the sums of whole numbers exact: a key that is missed, or seen in vain, shows.
        So does a softmax that does not subtract the largest score, whose exponential is beyond f32.
        """
        rng = np.random.default_rng(seed)
        queries, keys, values, _ = self.heads_first.operands
        looks = rng.integers(0, self.width, queries.shape[:-1])
        largest = {"f8E4M3FN": 448.0, "f8E4M3FNUZ": 240.0}.get(self.element.name, math.inf)
        far = min(_FAR * math.sqrt(self.width), largest)
        query = np.zeros(queries.shape, np.float32)
        np.put_along_axis(query, looks[..., None], far, axis=-1)
        key = (rng.random(keys.shape) < 0.5).astype(np.float32)
        value = whole_numbers(values.shape, self.element, limit=8, rng=rng)  # so small that sums over keys are exact
        return self._laid_out((query.astype(self.element.numpy), key.astype(self.element.numpy), value))

    def whole_bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """The bound on whole numbers: the division by the number of keys rounds."""
        spread = np.sqrt(self._attended(inputs, squares=True))
        unit = max(UNITS[self.element.name], UNITS["f16"] if self.allow else 0.0)
        slack = 4 * unit * np.abs(reference) + last_rounding(reference, self.output.element.name)
        return Bound(UNITS["f32"] * math.sqrt(self.keys) * (spread + np.abs(reference)), slack=slack)

    def arguments(self) -> tuple[str, ...]:
        sizes = (self.batch, self.heads, self.queries, self.keys, self.width)
        words = ("attention", "--shape", "x".join(map(str, sizes)), "--dtype", self.dtype)
        return (*words, *(("--causal",) if self.causal else ()), *self.precision_arguments())
