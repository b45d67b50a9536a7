"""The declared space of llvm-cpu, which emits no constraints: tile sizes for products, convolutions and attention.

Other operations have no knobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotuner.iree.mlir import Dispatch, tile_levels
from autotuner.iree.processor import CpuFacts
from autotuner.space.cpu_tiles import (
    CACHE,
    CACHE_SUM,
    PEELING,
    VECTOR,
    VECTOR_SUM,
    WORK,
    CpuTiling,
    Mask,
    Part,
    Tile,
    below,
    divisors,
    lane_tiles,
    ones,
    out_bytes,
    vector_limit,
)
from autotuner.space.table import Columns, Config, Knob, Space

__all__ = ["CpuSpace", "CpuTiling"]


def _product(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Part | None:
    """The space of a product; None where it has no knobs (a matrix-vector product, say)."""
    if not all(dispatch.dims(role) for role in ("m", "n", "k")):
        return None
    # mmt4d and its kin have inner loops of their own.
    return _packed(dispatch, facts, cores) if dispatch.packed else _tiled(dispatch, facts, cores)


# --- products of operands as they are -------------------------------------------------------------------------------


def _tiled(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Part:
    (*rows, row), (*columns, column), (*sums, last) = (dispatch.dims(role) for role in ("m", "n", "k"))
    m, n, k = (dispatch.loops[loop] for loop in (row, column, last))
    around = (*dispatch.dims("batch"), *rows, *columns)
    outer = math.prod(dispatch.loops[loop] for loop in around)
    size = out_bytes(dispatch)
    lanes = max(facts.vector_bytes // size, 1)

    def fits_registers(c: Columns) -> Mask:
        return c["vector_m"] * -(-c["vector_n"] // lanes) <= facts.vector_registers

    def cache_level_is_whole(c: Columns) -> Mask:
        return np.asarray((c["vectors_m"] == 0) == (c["vectors_n"] == 0))

    def within_the_problem(c: Columns) -> Mask:
        tile_m, tile_n = _workgroup(c)
        # One step of rounding up is allowed; a tile of twice the problem is another tile's twin.
        return (tile_m < m + c["vector_m"]) & (tile_n < n + c["vector_n"]) & (c["cache_k"] < k)

    def enough_workgroups(c: Columns) -> Mask:
        tile_m, tile_n = _workgroup(c)
        return outer * -(-m // tile_m) * -(-n // tile_n) >= min(cores, outer * m * n)

    def no_large_vector(c: Columns) -> Mask:
        # With a cache-level reduction the fill is not tiled below the cache tile: it becomes one vector of it.
        tile_m, tile_n = _workgroup(c)
        limit = vector_limit(facts)
        inner_m = np.where(c["vectors_m"] > 0, c["vectors_m"] * c["vector_m"], tile_m)
        inner_n = np.where(c["vectors_n"] > 0, c["vectors_n"] * c["vector_n"], tile_n)
        mask: Mask = (c["cache_k"] == 0) | (inner_m * inner_n * size < limit)
        return mask & (c["vector_m"] * c["vector_n"] * c["vector_k"] * size < limit)

    tiles = (
        *ones(WORK, CACHE, VECTOR, loops=around),
        *ones(CACHE_SUM, VECTOR_SUM, loops=tuple(sums)),
        *(Tile(VECTOR, loop, (f"vector_{a}",), 1) for a, loop in (("m", row), ("n", column))),
        *(Tile(CACHE, loop, (f"vector_{a}", f"vectors_{a}")) for a, loop in (("m", row), ("n", column))),
        Tile(WORK, row, ("vector_m", "vectors_m", "tiles_m"), m),
        Tile(WORK, column, ("vector_n", "vectors_n", "tiles_n"), n),
        Tile(VECTOR_SUM, last, ("vector_k",), 1),
        Tile(CACHE_SUM, last, ("cache_k",)),
    )
    rules = (fits_registers, cache_level_is_whole, within_the_problem, enough_workgroups, no_large_vector)
    # How often a dynamic loop runs, and what is left over, is known only when the program runs.
    twins = None if dispatch.dynamic else lambda c: _tiled_twins(c, m, n, k)
    return Part("DoubleTilingExpert", _tiled_knobs(m, n, k, lanes), rules, tiles, peel=None, twins=twins)


def _tiled_knobs(m: int, n: int, k: int, lanes: int) -> tuple[Knob, ...]:
    widths = tuple(lanes * i for i in (1, 2, 3, 4)) if n >= lanes else (1 << (n.bit_length() - 1),)
    # A width that does not divide N leaves a remainder in every row of workgroups: 10 to 50 times slower.
    widths = tuple(w for w in widths if n % w == 0) or widths[:2]
    return (
        Knob("vector_m", below(m, (1, 2, 4, 6, 8, 10, 12, 14, 16))),
        Knob("vector_n", widths),
        Knob("vector_k", below(k, (1, 2, 4, 8, 16))),
        Knob("vectors_m", (0, 1, 2, 4, 8)),
        Knob("vectors_n", (0, 1, 2, 4, 8)),
        Knob("cache_k", (0, *below(max(k // 2, 1), (32, 64, 128, 256, 512)))),
        Knob("tiles_m", (1, 2, 4, 8, 16, 32)),
        Knob("tiles_n", (1, 2, 4, 8, 16)),
        Knob("peel", (0, 1)),
    )


def _workgroup(c: Columns) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    return (
        c["vector_m"] * np.maximum(c["vectors_m"], 1) * c["tiles_m"],
        c["vector_n"] * np.maximum(c["vectors_n"], 1) * c["tiles_n"],
    )


def _tiled_twins(c: Columns, m: int, n: int, k: int) -> Mask:
    """Configurations that give the code of another: nothing is left to peel, or a level of tiles has loops that run
    once."""
    tile_m, tile_n = _workgroup(c)
    whole = (m % tile_m == 0) & (n % tile_n == 0)
    one_tile = (c["tiles_m"] == 1) & (c["tiles_n"] == 1)
    # The loop over parts of K stands between the two levels: only without it they can be one.
    one_vector = (c["vectors_m"] == 1) & (c["vectors_n"] == 1) & (c["cache_k"] == 0)
    depth = np.where(c["cache_k"] > 0, c["cache_k"], k)
    even = whole & (k % depth == 0) & (depth % c["vector_k"] == 0)
    mask: Mask = (even & (c["peel"] > 0)) | (whole & (c["vectors_m"] > 0) & (one_tile | one_vector))
    return mask


# --- products of operands that are already packed -------------------------------------------------------------------


def _packed(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Part:
    (row, *rows), (column, *columns), (first, *sums) = (dispatch.dims(role) for role in ("m", "n", "k"))
    m, n, k = (dispatch.loops[loop] for loop in (row, column, first))
    outer = math.prod(dispatch.sizes("batch"))
    steps = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    called = facts.calls_mmt4d and dispatch.op in ("linalg.mmt4d", "linalg.batch_mmt4d")
    knobs = (
        Knob("workgroup_m", below(m, steps)),
        Knob("workgroup_n", below(n, steps)),
        # A microkernel that IREE calls in the place of the operation runs over all of K by itself.
        Knob("unroll_k", (1,) if called else below(k, (1, 2, 4))),
    )

    def enough_workgroups(c: Columns) -> Mask:
        return outer * -(-m // c["workgroup_m"]) * -(-n // c["workgroup_n"]) >= min(cores, outer * m * n)

    tiles = (
        *ones(WORK, VECTOR, loops=dispatch.dims("batch")),
        *ones(VECTOR, loops=(row, column)),
        *(Tile(VECTOR, loop, (dispatch.loops[loop],)) for loop in (*rows, *columns)),
        *(Tile(VECTOR_SUM, loop, (dispatch.loops[loop],)) for loop in sums),
        Tile(WORK, row, ("workgroup_m",), m),
        Tile(WORK, column, ("workgroup_n",), n),
        Tile(VECTOR_SUM, first, ("unroll_k",), 1),
    )
    return Part("Mmt4dTilingExpert", knobs, (enough_workgroups,), tiles)


# --- convolutions ---------------------------------------------------------------------------------------------------

_DECOMPOSE = "ConvTileAndDecomposeExpert"
_ENOUGH_ACCUMULATORS = 4
"""Accumulators that hide the latency of one sum: with two a convolution takes 3 to 5 times as long as with sixteen."""


def _convolution(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Part | None:
    """The space of a convolution that IREE decomposes to one dimension and vectorizes: channels last or first,
    depthwise.

    None for the others (grouped, filters with channels last, depthwise with channels first), which stay scalar loops
    whatever the tiles: the best of some 20 was within 1.4 of the compiler's own choice, where vectors gain 20.
    """
    deep = dispatch.dims("channel") or dispatch.dims("depth")
    counts = [len(dims) for dims in (dispatch.dims("batch"), dispatch.dims("image"), deep, dispatch.dims("filter"))]
    # Depthwise there is no loop over inputs: every channel is its own.
    if counts != [1, 2, 1, 2] or len(dispatch.dims("input")) > 1 or _DECOMPOSE not in dispatch.translation_info:
        return None
    return _decomposed(dispatch, facts, cores)


def _decomposed(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Part:
    inputs, deep = dispatch.dims("input"), dispatch.dims("channel") or dispatch.dims("depth")
    (entry,), (line, place), (channel,), (filter_line, filter_place) = (
        *(dispatch.dims("batch"), dispatch.dims("image")),
        *(deep, dispatch.dims("filter")),
    )
    batch, height, width, channels = (dispatch.loops[loop] for loop in (entry, line, place, channel))
    size = out_bytes(dispatch)
    lanes = max(facts.vector_bytes // size, 1)
    # A tile that does not divide its loop is not vectorized, with peeling or without: 30 to 100 times slower. A vector
    # lies along the innermost loop of the result.
    channels_last = dispatch.outputs[-1][-1] == channel
    rows = divisors(width if channels_last else channels, most=facts.vector_registers)
    across = lane_tiles(channels if channels_last else width, lanes)
    knobs = (
        Knob("vector_width", rows if channels_last else across),
        Knob("vector_channel", across if channels_last else rows),
        Knob("vector_input", divisors(dispatch.loops[inputs[0]], most=32) if inputs else (1,)),
        # A row of the filter at once pays only where there are no input channels to sum over.
        Knob("vector_filter", (1,) if inputs else tuple(sorted({1, dispatch.loops[filter_place]}))),
        Knob("workgroup_height", tuple(sorted({*divisors(height), *(1 << i for i in range(height.bit_length()))}))),
        Knob("tiles_width", divisors(width, most=64)),
        Knob("tiles_channel", divisors(channels, most=64)),
    )
    possible = [r * -(-a // lanes) for r in rows for a in across]
    least = min(_ENOUGH_ACCUMULATORS, max(p for p in (1, *possible) if p <= facts.vector_registers))

    def accumulators_fit_registers(c: Columns) -> Mask:
        row, lane = c["vector_width"], c["vector_channel"]
        accumulators = row * -(-lane // lanes) if channels_last else lane * -(-row // lanes)
        return (accumulators <= facts.vector_registers) & (accumulators >= least)

    def no_large_vector(c: Columns) -> Mask:
        elements = c["vector_width"] * c["vector_channel"] * c["vector_input"] * c["vector_filter"]
        return elements * size < vector_limit(facts)

    def whole_tiles(c: Columns) -> Mask:
        over = width % (c["vector_width"] * c["tiles_width"]) + channels % (c["vector_channel"] * c["tiles_channel"])
        return np.asarray(over == 0)

    def enough_workgroups(c: Columns) -> Mask:
        vectors = (width // c["vector_width"]) * (channels // c["vector_channel"])
        groups = batch * -(-height // c["workgroup_height"]) * (vectors // (c["tiles_width"] * c["tiles_channel"]))
        return np.asarray(groups >= np.minimum(cores, batch * height * vectors))

    tiles = (
        # A batch of one is left alone, as the compiler does.
        Tile(WORK, entry, (min(batch - 1, 1),)),
        # More than one row of the image or of the filter at once cannot be decomposed.
        *ones(VECTOR, loops=(entry, line)),
        *ones(VECTOR_SUM, loops=(filter_line,)),
        Tile(VECTOR, place, ("vector_width",), 1),
        Tile(VECTOR, channel, ("vector_channel",), 1),
        Tile(VECTOR_SUM, filter_place, ("vector_filter",), 1),
        *(Tile(VECTOR_SUM, loop, ("vector_input",), 1) for loop in inputs),
        Tile(WORK, line, ("workgroup_height",), height),
        Tile(WORK, place, ("vector_width", "tiles_width"), width),
        Tile(WORK, channel, ("vector_channel", "tiles_channel"), channels),
    )
    rules = (accumulators_fit_registers, no_large_vector, whole_tiles, enough_workgroups)
    # Tiles that divide their loops leave nothing to peel, so the compiler's own choice is as good as the other.
    return Part(_DECOMPOSE, knobs, rules, tiles, peel=PEELING in dispatch.translation_info)


# --- attention ------------------------------------------------------------------------------------------------------

_ENOUGH_QUERIES = 4
_ENOUGH_SCORES = 16
"""Scores (queries times keys) of a tile: with 8 attention takes 4 times as long as with 64, with fewer still longer."""


def _attention(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Part | None:
    """The space of the fused operation: tiles of queries (m), of keys (k2) and of the result's width (n).

    None where keys or the result's width are more than one loop.
    """
    if len(dispatch.dims("n")) != 1 or len(dispatch.dims("k2")) != 1:
        return None
    (across,), (seen,), rows = dispatch.dims("n"), dispatch.dims("k2"), dispatch.dims("m")[-1:]
    width, keys = dispatch.loops[across], dispatch.loops[seen]
    queries = dispatch.loops[rows[0]] if rows else 1  # a single query has no loop
    depth = math.prod(dispatch.sizes("k1"))
    outer = dispatch.work // (queries * width * keys * depth)
    size = 4  # scores, sums and the result are f32 inside the dispatch, whatever the operands are
    lanes = max(facts.vector_bytes // size, 1)
    limit = vector_limit(facts)
    # The sums are kept in registers; up to twice as many still gain by reading fewer keys.
    registers = max(2 * facts.vector_registers, -(-width // lanes))
    # Each part of the width computes the scores anew: halves take nearly twice as long, unless more queries fit then.
    crowded = _ENOUGH_QUERIES * -(-width // lanes) > registers and width % (2 * lanes) == 0

    def no_large_vector(c: Columns) -> Mask:
        # Neither product of the two may have a whole iteration space of that size.
        scores = c["vector_m"] * c["vector_k2"] * size
        return (scores * depth < limit) & (scores * c["vector_n"] < limit)

    def near_the_registers(c: Columns) -> Mask:
        return c["vector_m"] * -(-c["vector_n"] // lanes) <= registers

    def enough_scores(c: Columns) -> Mask:
        # Where the head is deep or vectors are short, the compiler allows few: half of them must do.
        most = (limit - 1) // (size * max(depth, width))
        return c["vector_m"] * c["vector_k2"] >= min(_ENOUGH_SCORES, queries * keys, most // 2)

    def within_the_problem(c: Columns) -> Mask:
        mask: Mask = c["vector_m"] * c["tiles_m"] < queries + c["vector_m"]
        return mask & (c["vector_n"] * c["tiles_n"] <= width)

    def enough_workgroups(c: Columns) -> Mask:
        groups = outer * -(-queries // (c["vector_m"] * c["tiles_m"])) * (width // (c["vector_n"] * c["tiles_n"]))
        return np.asarray(groups >= np.minimum(cores, outer * -(-queries // c["vector_m"])))

    tiles = (
        *ones(WORK, VECTOR, loops=(*dispatch.dims("batch"), *dispatch.dims("m")[:-1])),
        Tile(VECTOR, across, ("vector_n",), width),
        Tile(WORK, across, ("vector_n", "tiles_n"), width),
        *(Tile(VECTOR, loop, ("vector_m",), queries) for loop in rows),
        *(Tile(WORK, loop, ("vector_m", "tiles_m"), queries) for loop in rows),
        # k1 stays whole: IREE computes wrong results where it is tiled.
        Tile(VECTOR_SUM, seen, ("vector_k2",), keys),
    )
    rules = (no_large_vector, near_the_registers, enough_scores, within_the_problem, enough_workgroups)
    return Part("LinalgExtTileAndVectorize", _attention_knobs(queries, keys, width, crowded=crowded), rules, tiles)


def _attention_knobs(queries: int, keys: int, width: int, *, crowded: bool) -> tuple[Knob, ...]:
    # Remainders of queries are cheap. Those of keys are not: 7 of 2048 at a time take 2.6 times as long as 8.
    query_tiles = tuple(sorted({*divisors(queries, most=16), *below(queries, (1, 2, 4, 6, 8, 12, 16))}))
    key_tiles = divisors(keys, least=4, most=32) or below(keys, (1, 2, 4, 8, 16))[-3:]
    return (
        Knob("vector_m", query_tiles),
        Knob("vector_n", (width // 2, width) if crowded else (width,)),
        Knob("vector_k2", key_tiles),
        Knob("tiles_m", (1, 2, 4, 8, 16, 32, 64)),
        Knob("tiles_n", (1, 2) if crowded else (1,)),
    )


_PARTS: Mapping[str, Callable[[Dispatch, CpuFacts, int], Part | None]] = {
    "contraction": _product,
    "convolution": _convolution,
    "attention": _attention,
}
"""Spaces by the kind of a dispatch."""


@dataclass(frozen=True)
class CpuSpace:
    """The configurations of one dispatch, and how each becomes tile sizes."""

    dispatch: Dispatch
    space: Space
    part: Part

    @classmethod
    def declare(cls, dispatch: Dispatch, facts: CpuFacts, *, cores: int) -> CpuSpace | None:
        """The space of a dispatch; None where it has no knobs (a matrix-vector product or a grouped convolution,
        say)."""
        part = _PARTS[dispatch.kind](dispatch, facts, cores)
        if part is None:
            return None
        every = cls(dispatch, part.space(), part)
        if part.twins is None or not len(every.space):
            return every
        keep = ~part.twins(every.space.columns())
        if (own := every.default()) is not None:  # the compiler's own choice stays
            keep[every.space.index(own)] = True
        return replace(every, space=every.space.keep(keep))

    def tiling(self, config: Config) -> CpuTiling:
        values = {name: int(value) for name, value in config.items if isinstance(value, int)}
        return self.part.tiling(values, loops=len(self.dispatch.loops))

    def default(self) -> Config | None:
        """The legal configuration that is nearest to the compiler's own choice."""
        own = self.dispatch.lowering_config
        if not len(self.space) or not own.startswith("#iree_cpu.lowering_config"):
            return None
        wanted = self.part.read(tile_levels(own), peel=PEELING in self.dispatch.translation_info)
        return self.space[self.space.nearest(wanted)]
