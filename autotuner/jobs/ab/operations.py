"""The products, convolutions and attentions of a program, as the problems that microkernels are made for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from autotuner.carriers.calls import described
from autotuner.carriers.forms import ATTENTION, PAD, is_main
from autotuner.carriers.render import problem_mlir
from autotuner.errors import AutotuneError
from autotuner.iree.mlir import Dispatch, dispatch_of, map_positions, parse, walk
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.dtypes import ACCUMULATORS

_F8 = ("f8E4M3FN", "f8E4M3FNUZ")
_IMAGE_RANK = 4
_UNMASKED = 5
"""Operands of an attention: query, key, value, scale and the result; one more is a mask."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that could be replaced."""

    text: str
    """What it is, with types."""
    problems: tuple[Problem, ...]
    """What it can be taken for, the largest first: a convolution with the padding before it, and without."""


def read_operations(text: str) -> tuple[Operation, ...]:
    """All of a program as `preprocess` prints it."""
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        return tuple(
            Operation(described(op), tuple(p for p in _problems(op) if _same_operation(op, p)))
            for op in walk(module.operation)
            if is_main(op)
        )


def _problems(op: Any) -> Iterator[Problem]:
    types = [str(value.type) for value in op.operands]
    if any("?" in type for type in types):
        return
    if op.name == ATTENTION:
        yield from _attention(op)
        return
    dispatch = dispatch_of(op)
    if dispatch is None or dispatch.element_types[0] != dispatch.element_types[1]:
        return
    try:
        found = _gemm(dispatch) if dispatch.kind == "contraction" else None
        if found is not None:
            yield found
        elif dispatch.kind == "convolution":
            yield from _convolutions(op, dispatch)
    except AutotuneError:
        return  # sizes beyond what a problem may have


def _gemm(dispatch: Dispatch) -> Gemm | None:
    batch, m, n, k = (dispatch.dims(role) for role in ("batch", "m", "n", "k"))
    dtype, acc = _dtype(dispatch.element_types[0]), dispatch.element_types[-1]
    if len(batch) > 1 or any(len(dims) != 1 for dims in (m, n, k)) or acc not in ACCUMULATORS.get(dtype, ()):
        return None
    lhs, rhs = (map_positions(text)[-2:] for text in dispatch.maps[:2])
    gemm = Gemm.parse(
        shape="x".join(str(dispatch.loops[d]) for d in (*m, *n, *k)),
        dtype=dtype,
        batch=dispatch.loops[batch[0]] if batch else 1,
        acc=acc,
        layout=("n" if lhs == [*m, *k] else "t") + ("n" if rhs == [*k, *n] else "t"),
    )
    return gemm if dtype != "f8" else gemm.with_f8(dispatch.element_types[0])


def _convolutions(op: Any, dispatch: Dispatch) -> Iterator[Conv]:
    sizes = {role: dispatch.sizes(role) for role in ("batch", "image", "channel", "filter", "input", "depth")}
    spatial = all(len(sizes[role]) == 2 for role in ("image", "filter")) and len(sizes["batch"]) == 1
    dtype = _dtype(dispatch.element_types[0])
    # What is grouped has dimensions of its own for the groups, and its operands are reshaped before: not looked for.
    plain = len(sizes["channel"]) == len(sizes["input"]) == 1 and not sizes["depth"]
    depthwise = len(sizes["depth"]) == 1 and not sizes["channel"] and not sizes["input"]
    if not spatial or not (plain or depthwise) or dispatch.element_types[-1] != ACCUMULATORS.get(dtype, ("",))[0]:
        return
    channels_last = dispatch.outputs[0] == (
        *dispatch.dims("batch"),
        *dispatch.dims("image"),
        *(dispatch.dims("channel") or dispatch.dims("depth")),
    )
    axes = (1, 2) if channels_last else (2, 3)
    for shape, pad in _images(op, axes):
        conv = Conv.parse(
            shape="x".join(map(str, (shape[0], shape[axes[0]], shape[axes[1]], shape[3 if channels_last else 1]))),
            filter="x".join(map(str, (*sizes["filter"], *(sizes["channel"] or sizes["depth"])))),
            stride="x".join(map(str, dispatch.strides)),
            dilation="x".join(map(str, dispatch.dilations)),
            pad="x".join(map(str, pad)),
            groups=1 if plain else sizes["depth"][0],
            dtype=dtype,
            layout="nhwc-hwcf" if channels_last else "nchw-fchw",
        )
        yield conv if dtype != "f8" else conv.with_f8(dispatch.element_types[0])


def _images(op: Any, axes: tuple[int, int]) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
    """The image's sizes and its padding: before it is padded, where that can be part of a problem, and after."""
    image = op.operands[0]
    if ir.ShapedType(image.type).rank != _IMAGE_RANK:
        return
    owner = image.owner
    if not isinstance(owner, ir.Block) and owner.name == PAD:
        low, high = (list(owner.attributes[name]) for name in ("static_low", "static_high"))
        elsewhere = [size for axis, size in enumerate(low) if axis not in axes]
        source = ir.ShapedType(owner.operands[0].type)
        if low == high and not any(elsewhere) and min(low) >= 0 and source.has_static_shape:
            yield tuple(source.shape), (low[axes[0]], low[axes[1]])
    yield tuple(ir.ShapedType(image.type).shape), (0, 0)


def _attention(op: Any) -> Iterator[Attention]:
    query, key = (ir.ShapedType(op.operands[i].type) for i in (0, 1))
    dtype = _dtype(str(query.element_type))
    if query.rank != _IMAGE_RANK or key.rank != _IMAGE_RANK or dtype not in ACCUMULATORS:
        return
    batch, heads, queries, width = query.shape
    try:
        attention = Attention.parse(
            shape="x".join(map(str, (batch, heads, queries, key.shape[2], width))),
            dtype=dtype,
            causal=len(op.operands) > _UNMASKED,
        )
    except AutotuneError:
        return
    yield attention if dtype != "f8" else attention.with_f8(str(query.element_type))


def _dtype(element: str) -> str:
    return "f8" if element in _F8 else element


def _same_operation(op: Any, problem: Problem) -> bool:
    """Is the main operation of this problem, as its own template writes it, of the same types and maps?"""
    with ir.Context() as context:
        module = parse(problem_mlir(problem), context)
        own = next(other for other in walk(module.operation) if is_main(other))
        return _signature(own) == _signature(op)


def _signature(op: Any) -> tuple[object, ...]:
    types = tuple(str(value.type) for value in op.operands)
    if op.name == ATTENTION:
        return (*types, str(op.attributes["indexing_maps"]))
    dispatch = dispatch_of(op)
    return (*types, dispatch.maps if dispatch else (), dispatch.strides if dispatch else ())
