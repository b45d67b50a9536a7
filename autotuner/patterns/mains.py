"""The products, convolutions and attentions of a program by themselves, as problems that kernels are for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from autotuner.errors import AutotuneError
from autotuner.iree.mlir import Dispatch, dispatch_of, maker, map_positions, parse, walk
from autotuner.patterns import attention
from autotuner.patterns.epilogues import Tail
from autotuner.patterns.graph import (
    ATTENTION,
    BROADCAST,
    COLLAPSE,
    EXPAND,
    PAD,
    SUM,
    element,
    integers,
    is_float,
    is_main,
    only_user,
    rank,
    shape,
    shared_matrix,
)
from autotuner.problems import Conv, Gemm, Problem
from autotuner.problems.dtypes import ACCUMULATORS
from autotuner.problems.render import problem_mlir

_F8 = ("f8E4M3FN", "f8E4M3FNUZ")
_IMAGE_RANK = 4


def read_problems(op: Any, masks: attention.Masks) -> Iterator[Problem]:
    """What a main operation computes, as the program has it before it is prepared for matchers; the largest first."""
    for problem in _problems(op, masks):
        if is_flat(op, problem) or _same_operation(op, problem):
            yield problem


def is_flat(op: Any, problem: Problem) -> bool:
    """The problem has the rows of all entries of a batch as those of one product."""
    return isinstance(problem, Gemm) and problem.batch == 1 and shared_matrix(op) is not None


def channel_of(op: Any, problem: Problem) -> int:
    """The dimension of the result that a bias has."""
    if isinstance(problem, Conv):
        return 3 if problem.channels_last else 1
    return rank(op.results[0]) - 1


@dataclass(frozen=True)
class Grouped:
    """What a grouped convolution is between, as importers write it: images without groups. The channels are split into
    groups before it, and joined behind it."""

    image: Any
    """Padded, perhaps."""
    expansion: Any
    """The operation that splits its channels."""
    weights: Any
    """Without groups, or with them: of constants the compiler has made others already."""
    tail: Tail
    """The sums, joined; with a bias, where they start from one."""


def read_grouped(op: Any, *, channel: int) -> Grouped | None:
    """None where it is not grouped, or its operands come from elsewhere. `channel` is that of the joined sums."""
    if rank(op.operands[0]) != _IMAGE_RANK + 1:
        return None
    expansion, joined = maker(op.operands[0], EXPAND), only_user(op, COLLAPSE)
    if expansion is None or joined is None:
        return None
    split = maker(op.operands[1], EXPAND)
    weights = op.operands[1] if split is None else split.operands[0]
    bias = _bias(op.operands[2], channel)
    added = () if bias is None else ((SUM, bias),)
    return Grouped(expansion.operands[0], expansion, weights, Tail(joined, added))


def _bias(start: Any, channel: int) -> Any:
    """The numbers, one for each channel, that sums start from; None where they start from something else."""
    split = maker(start, EXPAND)
    copies = None if split is None else maker(split.operands[0], BROADCAST)
    if copies is None:
        return None
    (added,) = integers(copies, "dimensions")
    return copies.operands[0] if sorted([*added, channel]) == list(range(_IMAGE_RANK)) else None


def _problems(op: Any, masks: attention.Masks) -> Iterator[Problem]:
    if any("?" in str(value.type) for value in op.operands):
        return
    if op.name == ATTENTION:
        yield from attention.read_attention(op, _dtype(element(op.operands[0])), masks)
        return
    dispatch = dispatch_of(op)
    if dispatch is None or dispatch.element_types[0] != dispatch.element_types[1]:
        return
    try:
        if dispatch.kind == "contraction":
            yield from _gemms(op, dispatch)
        elif dispatch.kind == "convolution":
            yield from _convolutions(op, dispatch)
    except AutotuneError:
        return  # sizes beyond what a problem may have


def _gemms(op: Any, dispatch: Dispatch) -> Iterator[Gemm]:
    batch, m, n, k = (dispatch.dims(role) for role in ("batch", "m", "n", "k"))
    dtype, acc = _dtype(dispatch.element_types[0]), dispatch.element_types[-1]
    if len(batch) > 1 or any(len(dims) != 1 for dims in (m, n, k)) or acc not in ACCUMULATORS.get(dtype, ()):
        return
    lhs, rhs = (map_positions(text)[-2:] for text in dispatch.maps[:2])
    gemm = Gemm.parse(
        shape="x".join(str(dispatch.loops[d]) for d in (*m, *n, *k)),
        dtype=dtype,
        batch=dispatch.loops[batch[0]] if batch else 1,
        acc=acc,
        layout=("n" if lhs == [*m, *k] else "t") + ("n" if rhs == [*k, *n] else "t"),
    )
    gemm = gemm if dtype != "f8" else gemm.with_f8(dispatch.element_types[0])
    shared = shared_matrix(op) is not None
    if shared and gemm.layout[0] == "n":
        yield replace(gemm, m=gemm.batch * gemm.m, batch=1)
    if gemm.batch > 1 or not shared:
        yield gemm


def _convolutions(op: Any, dispatch: Dispatch) -> Iterator[Conv]:
    sizes = {role: dispatch.sizes(role) for role in ("batch", "image", "channel", "filter", "input", "depth")}
    spatial = all(len(sizes[role]) == 2 for role in ("image", "filter")) and len(sizes["batch"]) == 1
    dtype = _dtype(dispatch.element_types[0])
    # Depthwise filters have no channels of their own; what is grouped has them beside a dimension for the groups.
    full = len(sizes["channel"]) == len(sizes["input"]) == 1 and len(sizes["depth"]) <= 1
    depthwise = len(sizes["depth"]) == 1 and not sizes["channel"] and not sizes["input"]
    if not spatial or not (full or depthwise) or dispatch.element_types[-1] != ACCUMULATORS.get(dtype, ("",))[0]:
        return
    last = tuple(loop for role in ("batch", "image", "depth", "channel") for loop in dispatch.dims(role))
    channels_last = dispatch.outputs[0] == last
    axes = (1, 2) if channels_last else (2, 3)
    for image, pad in _images(op, axes):
        conv = Conv.parse(
            shape="x".join(map(str, (image[0], image[axes[0]], image[axes[1]], image[3 if channels_last else 1]))),
            filter="x".join(map(str, (*sizes["filter"], math.prod((*sizes["channel"], *sizes["depth"]))))),
            stride="x".join(map(str, dispatch.strides)),
            dilation="x".join(map(str, dispatch.dilations)),
            pad="x".join(map(str, pad)),
            groups=math.prod(sizes["depth"]),
            dtype=dtype,
            layout="nhwc-hwcf" if channels_last else "nchw-fchw",
        )
        yield conv if dtype != "f8" else conv.with_f8(dispatch.element_types[0])


def _images(op: Any, axes: tuple[int, int]) -> Iterator[tuple[list[int], list[int]]]:
    """The image's sizes and its padding: before it is padded, where that can be part of a problem, and after."""
    grouped = read_grouped(op, channel=6 - sum(axes))
    image = op.operands[0] if grouped is None else grouped.image
    if rank(image) != _IMAGE_RANK:
        return
    pad = maker(image, PAD)
    if pad is not None:
        low, high = integers(pad, "static_low", "static_high")
        elsewhere = [size for axis, size in enumerate(low) if axis not in axes]
        static = ir.ShapedType(pad.operands[0].type).has_static_shape
        if low == high and not any(elsewhere) and min(low) >= 0 and static:
            yield shape(pad.operands[0]), [low[axis] for axis in axes]
    yield shape(image), [0, 0]


def _dtype(type: str) -> str:
    return "f8" if type in _F8 else type


def _same_operation(op: Any, problem: Problem) -> bool:
    """Is the main operation of this problem, as its own template writes it, of the same types and maps?"""
    name, signature = _own_operation(problem)
    # Of a convolution the name says what it does with the numbers; a pooling has the same maps.
    return bool(op.name == name or linalg.isa_contraction_op(op)) and _signature(op) == signature


@lru_cache(maxsize=1024)
def _own_operation(problem: Problem) -> tuple[str, tuple[object, ...]]:
    with ir.Context() as context:
        module = parse(problem_mlir(problem), context)
        own = next(op for op in walk(module.operation) if is_main(op))
        return own.name, _signature(own)


def _signature(op: Any) -> tuple[object, ...]:
    if op.name == ATTENTION:
        return attention.signature(op)
    types = tuple(str(value.type) for value in op.operands)
    dispatch = dispatch_of(op)
    if dispatch is not None and dispatch.kind == "contraction" and is_float(op):
        return (*types, _in_order(dispatch.maps))  # what it is matched with is read from the program itself
    return (*types, dispatch.maps if dispatch else (), dispatch.strides if dispatch else ())


def _in_order(maps: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The maps of a product with its loops counted as its result has them, whatever their order is.

    A decomposed attention has its sum between the loops of the result.
    """
    *factors, result = map(map_positions, maps)
    numbers = {loop: place for place, loop in enumerate(dict.fromkeys([*result, *factors[0]]))}
    return tuple(tuple(numbers.get(loop, -1) for loop in positions) for positions in (*factors, result))
