"""The attentions of a program, with the masks that make them causal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from iree.compiler import ir

from autotuner.carriers.forms import CONSTANT
from autotuner.carriers.masks import known_values
from autotuner.errors import AutotuneError
from autotuner.iree.mlir import maker, positions
from autotuner.problems import Attention
from autotuner.problems.dtypes import ACCUMULATORS

_FLAT_RANK, _RANK = 3, 4
_SCALES = {"f32": 1e-6, "f16": 1e-3, "bf16": 1e-2}
"""How well a type has the scale of an attention."""
_UNMASKED = 5
"""Operands of an attention: query, key, value, scale and the result; one more is a mask."""
_MASK = 4
"""Its place among them."""


class Masks:
    """Those of one program. Layers share a mask: it is computed once."""

    def __init__(self) -> None:
        self._causal: dict[tuple[Any, str, int], bool] = {}

    def is_causal(self, mask: Any, axes: Any, *, lead: int) -> bool:
        """Query i sees keys 0 to i and no more, whatever head it is of. `lead` loops are those of batch and heads."""
        about = (mask, str(axes), lead)
        if about not in self._causal:
            self._causal[about] = _is_causal(mask, positions(axes), lead)
        return self._causal[about]


def _is_causal(mask: Any, loops: list[int | None], lead: int) -> bool:
    """A mask of numbers is added to the scores. Only -inf hides a key from every query: what is finite, -1e4 or the
    lowest number of the type, is not far below all scores that a program may have."""
    query, key = lead, lead + 3  # of the loops: batch and heads, queries, width of values, width of keys, keys
    if not {query, key} <= set(loops) <= {*range(lead), query, key}:
        return False
    values = known_values(mask)
    if values is None:
        return False
    values = np.moveaxis(values, (loops.index(query), loops.index(key)), (-2, -1))
    # Where nothing changes from head to head, one stands for all.
    values = values[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in values.strides[:-2])]
    seen = np.tri(*values.shape[-2:], dtype=np.bool_)
    if values.dtype == np.bool_:
        return bool((values == seen).all())
    return bool(((values == 0) == seen).all() and ((values == -np.inf) != seen).all())


def read_attention(op: Any, dtype: str, masks: Masks) -> Iterator[Attention]:
    """As a problem, if it is one: with no mask or the causal one, scaled by 1/√D, its scores taken as they are."""
    query, key = (ir.ShapedType(op.operands[i].type) for i in (0, 1))
    flat = query.rank == _FLAT_RANK
    if not (flat or query.rank == _RANK) or key.rank != query.rank or dtype not in ACCUMULATORS:
        return
    *lead, queries, width = query.shape
    masked = len(op.operands) > _UNMASKED
    if not _is_scaled(op, width) or not _takes_scores_as_they_are(op):
        return
    if masked and not masks.is_causal(op.operands[_MASK], _maps(op)[_MASK], lead=len(lead)):
        return
    try:
        attention = Attention.parse(
            shape="x".join(map(str, (*lead, *([1] if flat else []), queries, key.shape[-2], width))),
            dtype=dtype,
            causal=masked,
        )
    except AutotuneError:
        return
    attention = replace(attention, flat=flat)
    yield attention if dtype != "f8" else attention.with_f8(str(query.element_type))


def signature(op: Any) -> tuple[object, ...]:
    """What two attentions have in common that differ in the type of the scale or in how the mask is spelt, at most."""
    mattering = [number for number in range(len(op.operands)) if number not in _beside(op)]
    types = (str(op.operands[number].type) for number in mattering)
    maps = _maps(op)
    return (len(op.operands), *types, *(str(maps[number]) for number in mattering))


def _beside(op: Any) -> tuple[int, ...]:
    """The places of the scale and the mask."""
    return (3, _MASK) if len(op.operands) > _UNMASKED else (3,)


def _maps(op: Any) -> list[Any]:
    return [ir.AffineMapAttr(entry).value for entry in ir.ArrayAttr(op.attributes["indexing_maps"])]


def _is_scaled(op: Any, width: int) -> bool:
    """By the constant that the problem means: 1/√D, as well as its type has it."""
    constant = maker(op.operands[3], CONSTANT)
    if constant is None:
        return False
    scale = ir.FloatAttr(constant.attributes["value"]).value
    return math.isclose(scale, 1 / math.sqrt(width), rel_tol=_SCALES.get(str(op.operands[3].type), 0.0))


def _takes_scores_as_they_are(op: Any) -> bool:
    """Its region, which could cap them, does nothing."""
    block = op.regions[0].blocks[0]
    (last,) = block.operations if len(block.operations) == 1 else (None,)
    return last is not None and list(last.operands) == list(block.arguments)
