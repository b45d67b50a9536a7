"""Reads a program's products, convolutions and attentions as problems, each without what surrounds it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from autotuner.errors import AutotuneError
from autotuner.iree.mlir import Dispatch, dispatch_of, maker, map_positions
from autotuner.patterns import attention, graph, ops
from autotuner.patterns.epilogues import Tail
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.dtypes import ACCUMULATORS

_F8 = ("f8E4M3FN", "f8E4M3FNUZ")


def is_flat(op: Any, problem: Problem) -> bool:
    """Whether the problem merges the batch into the rows of one product."""
    return isinstance(problem, Gemm) and problem.batch == 1 and graph.shared_matrix(op) is not None


def channel_of(op: Any, problem: Problem) -> int:
    """The result's channel dimension."""
    if isinstance(problem, Conv):
        return 3 if problem.channels_last else 1
    return graph.rank(op.results[0]) - 1


@dataclass(frozen=True)
class Grouped:
    """A grouped convolution as importers write it: channels are split into groups before it, and merged after it."""

    image: Any
    """The image without groups, perhaps padded."""
    expansion: Any
    """The operation that splits the image's channels."""
    weights: Any
    """The weights, without groups or with them: the compiler has split constant ones already."""
    tail: Tail
    """The sums with merged channels; with a bias if they start from one."""


def read_grouped(op: Any, *, channel: int) -> Grouped | None:
    """The grouped convolution; None where it is not grouped, or not in this form. `channel` is that of the merged
    sums."""
    if graph.rank(op.operands[0]) != 5:
        return None
    expansion, joined = maker(op.operands[0], graph.EXPAND), graph.only_user(op, graph.COLLAPSE)
    if expansion is None or joined is None:
        return None
    split = maker(op.operands[1], graph.EXPAND)
    weights = op.operands[1] if split is None else split.operands[0]
    bias = _bias(op.operands[2], channel)
    added = () if bias is None else ((graph.SUM, bias),)
    return Grouped(expansion.operands[0], expansion, weights, Tail(joined, added))


def _bias(start: Any, channel: int) -> Any:
    """The bias per channel that sums start from; None: they start from something else."""
    split = maker(start, graph.EXPAND)
    copies = None if split is None else maker(split.operands[0], graph.BROADCAST)
    if copies is None:
        return None
    (added,) = graph.integers(copies, "dimensions")
    return copies.operands[0] if sorted([*added, channel]) == list(range(4)) else None


def read_problems(op: Any, masks: attention.Masks) -> Iterator[Problem]:
    """The problems of a main operation, in the program before it is prepared for matchers, the largest first."""
    if any("?" in str(value.type) for value in op.operands):
        return
    if op.name == ops.ATTENTION:
        yield from attention.read_attention(op, _dtype(graph.element(op.operands[0])), masks)
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
    lhs, rhs, result = map(map_positions, dispatch.maps)
    turned = lhs == [*batch, *k, *m], rhs == [*batch, *n, *k]
    plain = lhs == [*batch, *m, *k], rhs == [*batch, *k, *n]
    if result != [*batch, *m, *n] or not all(map(operator.or_, turned, plain)):
        return
    # Floats are matched as the program has them, whatever the order of the loops is; others as the template has them.
    if not graph.is_float(op) and [*batch, *m, *n, *k] != sorted((*batch, *m, *n, *k)):
        return
    gemm = Gemm.parse(
        shape="x".join(str(dispatch.loops[d]) for d in (*m, *n, *k)),
        dtype=dtype,
        batch=dispatch.loops[batch[0]] if batch else 1,
        acc=acc,
        layout="".join("n" if one else "t" for one in plain),
    )
    gemm = gemm if dtype != "f8" else gemm.with_f8(dispatch.element_types[0])
    shared = graph.shared_matrix(op) is not None
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
        # The name says what it does with the numbers: a pooling has the same maps.
        if op.name == f"linalg.{conv.template_values()['operation']}":
            yield conv if dtype != "f8" else conv.with_f8(dispatch.element_types[0])


def _images(op: Any, axes: tuple[int, int]) -> Iterator[tuple[list[int], list[int]]]:
    """The image's sizes and padding: before it is padded, where a problem can include the padding, and after."""
    grouped = read_grouped(op, channel=6 - sum(axes))
    image = op.operands[0] if grouped is None else grouped.image
    if graph.rank(image) != 4:
        return
    pad = maker(image, ops.PAD)
    if pad is not None:
        low, high = graph.integers(pad, "static_low", "static_high")
        elsewhere = [size for axis, size in enumerate(low) if axis not in axes]
        static = ir.ShapedType(pad.operands[0].type).has_static_shape
        if low == high and not any(elsewhere) and min(low) >= 0 and static:
            yield graph.shape(pad.operands[0]), [low[axis] for axis in axes]
    yield graph.shape(image), [0, 0]


def _dtype(type: str) -> str:
    return "f8" if type in _F8 else type
