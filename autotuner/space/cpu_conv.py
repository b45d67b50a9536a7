"""Convolutions on llvm-cpu that are decomposed to one dimension and vectorized: channels last or first, depthwise.

The others (grouped, filters with channels last, depthwise with channels first) stay scalar loops whatever the tiles:
the best of some 20 was within 1.4 of the compiler's own choice, where vectors are worth 20. They have no knobs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotuner.iree.mlir import Dispatch
from autotuner.iree.processor import CpuFacts
from autotuner.space.cpu_tiling import (
    MAX_WORKGROUPS,
    PEELING,
    CpuTiling,
    Levels,
    Mask,
    Part,
    divisors,
    out_bytes,
    spread,
    tile,
    vector_limit,
)
from autotuner.space.table import Columns, Knob, Space

DECOMPOSE = "ConvTileAndDecomposeExpert"
_ENOUGH_ACCUMULATORS = 4
"""Fewer sums wait for each other: two at once take 3 to 5 times as long as sixteen."""
_WIDEST = 4
"""Native vectors side by side."""
_MOST_INPUTS = 32
_MOST_TILES = 64


def conv_part(dispatch: Dispatch) -> Part | None:
    """None where the compiler itself sees no way to decompose the operation, or it is no convolution (a pooling)."""
    channels = dispatch.dims("channel") or dispatch.dims("depth")
    counts = [len(dims) for dims in (dispatch.dims("batch"), dispatch.dims("image"), channels, dispatch.dims("filter"))]
    known = counts == [1, 2, 1, 2] and len(dispatch.dims("input")) <= 1
    return _PART if known and DECOMPOSE in dispatch.translation_info else None


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a two-dimensional convolution, by what they are for."""

    batch: int
    height: int
    width: int
    channel: int
    filter_height: int
    filter_width: int
    input: int | None
    """None: depthwise, every channel is its own input."""
    lane: int
    """The innermost loop of the result, channel or width: a vector lies along it."""

    @classmethod
    def of(cls, dispatch: Dispatch) -> _Loops:
        (batch,) = dispatch.dims("batch")
        height, width = dispatch.dims("image")
        (channel,) = dispatch.dims("channel") or dispatch.dims("depth")
        filter_height, filter_width = dispatch.dims("filter")
        inputs = dispatch.dims("input")
        lane = dispatch.outputs[-1][-1]
        return cls(batch, height, width, channel, filter_height, filter_width, inputs[0] if inputs else None, lane)


def _space(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Space:
    loops = _Loops.of(dispatch)
    batch, height, width, channels = (
        dispatch.loops[i] for i in (loops.batch, loops.height, loops.width, loops.channel)
    )
    size = out_bytes(dispatch)
    lanes = max(facts.vector_bytes // size, 1)
    # A tile that does not divide its loop is not vectorized, with peeling or without: 30 to 100 times slower.
    channels_last = loops.lane == loops.channel
    rows = divisors(width if channels_last else channels, most=facts.vector_registers)
    across = _lane_tiles(channels if channels_last else width, lanes)
    knobs = [
        Knob("vector_width", rows if channels_last else across),
        Knob("vector_channel", across if channels_last else rows),
        Knob("vector_input", _input_tiles(dispatch, loops)),
        Knob("vector_filter", _filter_tiles(dispatch, loops)),
        Knob("workgroup_height", tuple(sorted({*divisors(height), *(1 << i for i in range(height.bit_length()))}))),
        Knob("tiles_width", divisors(width, most=_MOST_TILES)),
        Knob("tiles_channel", divisors(channels, most=_MOST_TILES)),
    ]
    possible = [r * -(-a // lanes) for r in rows for a in across]
    least = min(_ENOUGH_ACCUMULATORS, max(p for p in (1, *possible) if p <= facts.vector_registers))

    def accumulators_fit_registers(c: Columns) -> Mask:
        row, lane = c["vector_width"], c["vector_channel"]
        accumulators = row * -(-lane // lanes) if channels_last else lane * -(-row // lanes)
        mask: Mask = (accumulators <= facts.vector_registers) & (accumulators >= least)
        return mask

    def no_large_vector(c: Columns) -> Mask:
        elements = c["vector_width"] * c["vector_channel"] * c["vector_input"] * c["vector_filter"]
        mask: Mask = elements * size < vector_limit(facts)
        return mask

    def whole_tiles(c: Columns) -> Mask:
        over = width % (c["vector_width"] * c["tiles_width"]) + channels % (c["vector_channel"] * c["tiles_channel"])
        mask: Mask = over == 0
        return mask

    def enough_workgroups(c: Columns) -> Mask:
        vectors = (width // c["vector_width"]) * (channels // c["vector_channel"])
        groups = batch * -(-height // c["workgroup_height"]) * (vectors // (c["tiles_width"] * c["tiles_channel"]))
        mask: Mask = groups >= np.minimum(cores, batch * height * vectors)
        return mask & (groups <= MAX_WORKGROUPS * batch)

    return Space.product(knobs, [accumulators_fit_registers, no_large_vector, whole_tiles, enough_workgroups])


def _lane_tiles(size: int, lanes: int) -> tuple[int, ...]:
    """Tiles of the loop that a vector lies along: whole native vectors, or what comes next."""
    whole = tuple(d for d in divisors(size, most=_WIDEST * lanes) if d % lanes == 0)
    if whole:
        return whole
    # Wider than a native vector and no multiple of it is split badly: 20 or 40 floats on 16 lanes take 8 to 10 times as
    # long as 10. That is still better than a scalar, which is all that 37 channels leave.
    narrow = divisors(size, most=lanes)
    if 2 * narrow[-1] >= lanes:
        return tuple(d for d in narrow if 2 * d >= lanes)
    return (narrow[-1], *divisors(size, least=lanes + 1, most=_WIDEST * lanes))


def _input_tiles(dispatch: Dispatch, loops: _Loops) -> tuple[int, ...]:
    return (1,) if loops.input is None else divisors(dispatch.loops[loops.input], most=_MOST_INPUTS)


def _filter_tiles(dispatch: Dispatch, loops: _Loops) -> tuple[int, ...]:
    """A row of the filter at once pays only where there are no input channels to sum over."""
    return (1,) if loops.input is not None else tuple(sorted({1, dispatch.loops[loops.filter_width]}))


def _tiling(dispatch: Dispatch, v: Mapping[str, int]) -> CpuTiling:
    loops = _Loops.of(dispatch)
    width, channel = v["vector_width"], v["vector_channel"]
    workgroup = {
        # A batch of one is left alone, as the compiler does.
        loops.batch: min(dispatch.loops[loops.batch] - 1, 1),
        loops.height: v["workgroup_height"],
        loops.width: width * v["tiles_width"],
        loops.channel: channel * v["tiles_channel"],
    }
    # More than one row of the image or of the filter at once cannot be decomposed.
    vector = {loops.batch: 1, loops.height: 1, loops.width: width, loops.channel: channel}
    reduction = {loops.filter_height: 1, loops.filter_width: v["vector_filter"]}
    if loops.input is not None:
        reduction[loops.input] = v["vector_input"]
    levels = (
        ("distribution", spread(dispatch, workgroup)),
        ("vector_common_parallel", spread(dispatch, vector)),
        ("vector_reduction", spread(dispatch, reduction)),
    )
    # Tiles that divide their loops leave nothing to peel, so the compiler's own choice is as good as the other.
    return CpuTiling(DECOMPOSE, levels, peel=PEELING in dispatch.translation_info)


def _knobs(dispatch: Dispatch, levels: Levels) -> dict[str, int]:
    loops = _Loops.of(dispatch)

    def vector(loop: int) -> int:
        return tile(levels, "vector_common_parallel", loop, 1)

    def workgroup(loop: int) -> int:
        return tile(levels, "distribution", loop, dispatch.loops[loop])

    return {
        "vector_width": vector(loops.width),
        "vector_channel": vector(loops.channel),
        "vector_input": 1 if loops.input is None else tile(levels, "vector_reduction", loops.input, 1),
        "vector_filter": tile(levels, "vector_reduction", loops.filter_width, 1),
        "workgroup_height": workgroup(loops.height),
        "tiles_width": max(workgroup(loops.width) // vector(loops.width), 1),
        "tiles_channel": max(workgroup(loops.channel) // vector(loops.channel), 1),
    }


_PART = Part(_space, _tiling, _knobs)
