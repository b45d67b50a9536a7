"""Matrix products on llvm-cpu: operands as they are, or already in tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from autotuner.iree.mlir import Dispatch
from autotuner.iree.processor import CpuFacts
from autotuner.space.cpu_tiling import (
    MAX_WORKGROUPS,
    PEELING,
    CpuTiling,
    Levels,
    Mask,
    Part,
    below,
    out_bytes,
    tile,
    vector_limit,
)
from autotuner.space.table import Columns, Knob, Space

DOUBLE_TILING = "DoubleTilingExpert"
MMT4D = "Mmt4dTilingExpert"
_MICROKERNEL_TYPES = (
    ("f32", "f32", "f32"),
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("bf16", "bf16", "bf16"),
    ("i8", "i8", "i32"),
)
"""Of operands and result: what IREE's microkernel of mmt4d computes."""


def gemm_part(dispatch: Dispatch) -> Part | None:
    """None where the dispatch has no such knobs (a matrix-vector product, say)."""
    if not all(dispatch.dims(role) for role in ("m", "n", "k")):
        return None
    # mmt4d and its kin have inner loops of their own.
    return _PACKED if dispatch.packed else _TILED


# --- operands as they are: DoubleTilingExpert ------------------------------------------------------------------


def _tiled_space(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Space:
    m, n, k = (dispatch.loops[group[-1]] for group in (dispatch.dims("m"), dispatch.dims("n"), dispatch.dims("k")))
    around = (*dispatch.sizes("batch"), *dispatch.sizes("m")[:-1], *dispatch.sizes("n")[:-1])
    outer = math.prod(around)
    size = out_bytes(dispatch)
    lanes = max(facts.vector_bytes // size, 1)
    widths = tuple(lanes * i for i in (1, 2, 3, 4)) if n >= lanes else (_power_below(n),)
    # A width that does not divide N leaves a remainder in every row of workgroups: 10 to 50 times slower.
    widths = tuple(w for w in widths if n % w == 0) or widths[:2]
    knobs = [
        Knob("vector_m", below(m, (1, 2, 4, 6, 8, 10, 12, 14, 16))),
        Knob("vector_n", widths),
        Knob("vector_k", below(k, (1, 2, 4, 8, 16))),
        Knob("vectors_m", (0, 1, 2, 4, 8)),
        Knob("vectors_n", (0, 1, 2, 4, 8)),
        Knob("cache_k", (0, *below(max(k // 2, 1), (32, 64, 128, 256, 512)))),
        Knob("tiles_m", (1, 2, 4, 8, 16, 32)),
        Knob("tiles_n", (1, 2, 4, 8, 16)),
        Knob("peel", (0, 1)),
    ]

    def fits_registers(c: Columns) -> Mask:
        mask: Mask = c["vector_m"] * -(-c["vector_n"] // lanes) <= facts.vector_registers
        return mask

    def cache_level_is_whole(c: Columns) -> Mask:
        mask: Mask = (c["vectors_m"] == 0) == (c["vectors_n"] == 0)
        return mask

    def within_the_problem(c: Columns) -> Mask:
        tile_m, tile_n = _workgroup(c)
        # One step of rounding up is allowed; a tile of twice the problem is another tile's twin.
        mask: Mask = (tile_m < m + c["vector_m"]) & (tile_n < n + c["vector_n"]) & (c["cache_k"] < k)
        return mask

    def enough_workgroups(c: Columns) -> Mask:
        tile_m, tile_n = _workgroup(c)
        groups = outer * -(-m // tile_m) * -(-n // tile_n)
        mask: Mask = (groups >= min(cores, outer * m * n)) & (groups <= MAX_WORKGROUPS * outer)
        return mask

    def no_large_vector(c: Columns) -> Mask:
        # With a cache-level reduction the fill is not tiled below the cache tile: it becomes one vector of it.
        tile_m, tile_n = _workgroup(c)
        limit = vector_limit(facts)
        inner_m = np.where(c["vectors_m"] > 0, c["vectors_m"] * c["vector_m"], tile_m)
        inner_n = np.where(c["vectors_n"] > 0, c["vectors_n"] * c["vector_n"], tile_n)
        mask: Mask = (c["cache_k"] == 0) | (inner_m * inner_n * size < limit)
        return mask & (c["vector_m"] * c["vector_n"] * c["vector_k"] * size < limit)

    rules = [fits_registers, cache_level_is_whole, within_the_problem, enough_workgroups, no_large_vector]
    return Space.product(knobs, rules)


def _power_below(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)


def _workgroup(c: Columns) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    return (
        c["vector_m"] * np.maximum(c["vectors_m"], 1) * c["tiles_m"],
        c["vector_n"] * np.maximum(c["vectors_n"], 1) * c["tiles_n"],
    )


def _tiled_tiling(dispatch: Dispatch, v: Mapping[str, int]) -> CpuTiling:
    cache_m, cache_n = v["vector_m"] * v["vectors_m"], v["vector_n"] * v["vectors_n"]
    work_m = v["vector_m"] * max(v["vectors_m"], 1) * v["tiles_m"]
    work_n = v["vector_n"] * max(v["vectors_n"], 1) * v["tiles_n"]
    levels = [("distribution", _spread(dispatch, work_m, work_n, 0, fill=1))]
    if cache_m and cache_n:
        levels.append(("cache_parallel", _spread(dispatch, cache_m, cache_n, 0, fill=1)))
    if v["cache_k"]:
        levels.append(("cache_reduction", _spread(dispatch, 0, 0, v["cache_k"], fill=0)))
    levels.append(("vector_common_parallel", _spread(dispatch, v["vector_m"], v["vector_n"], 0, fill=1)))
    levels.append(("vector_reduction", _spread(dispatch, 0, 0, v["vector_k"], fill=0)))
    return CpuTiling(DOUBLE_TILING, tuple(levels), bool(v["peel"]))


def _spread(dispatch: Dispatch, m: int, n: int, k: int, *, fill: int) -> tuple[int, ...]:
    """Tile sizes over all loops: the innermost of each group is tiled, outer parallel loops get `fill`."""
    tiles = [0] * len(dispatch.loops)
    for group in (dispatch.dims("batch"), dispatch.dims("m")[:-1], dispatch.dims("n")[:-1]):
        for loop in group:
            tiles[loop] = fill
    for loop in dispatch.dims("k")[:-1]:
        tiles[loop] = 1 if k else 0
    tiles[dispatch.dims("m")[-1]], tiles[dispatch.dims("n")[-1]], tiles[dispatch.dims("k")[-1]] = m, n, k
    return tuple(tiles)


def _tiled_knobs(dispatch: Dispatch, levels: Levels) -> dict[str, int]:
    m, n, k = dispatch.dims("m")[-1], dispatch.dims("n")[-1], dispatch.dims("k")[-1]
    vector_m = tile(levels, "vector_common_parallel", m, 1)
    vector_n = tile(levels, "vector_common_parallel", n, 1)
    cache_m = tile(levels, "cache_parallel", m, 0) // vector_m
    cache_n = tile(levels, "cache_parallel", n, 0) // vector_n
    return {
        "vector_m": vector_m,
        "vector_n": vector_n,
        "vector_k": tile(levels, "vector_reduction", k, 1),
        "vectors_m": cache_m,
        "vectors_n": cache_n,
        "cache_k": tile(levels, "cache_reduction", k, 0),
        "tiles_m": max(tile(levels, "distribution", m, dispatch.loops[m]) // (vector_m * max(cache_m, 1)), 1),
        "tiles_n": max(tile(levels, "distribution", n, dispatch.loops[n]) // (vector_n * max(cache_n, 1)), 1),
        "peel": int(PEELING in dispatch.translation_info),
    }


def _tiled_form(dispatch: Dispatch, c: Columns) -> Columns:
    """Without a level of tiles whose loops run once, and without peeling where nothing is left over."""
    if dispatch.dynamic:
        return c  # how often a loop runs, and what is left over, is known only when the program runs
    m, n, k = (dispatch.loops[group[-1]] for group in (dispatch.dims("m"), dispatch.dims("n"), dispatch.dims("k")))
    tile_m, tile_n = _workgroup(c)
    whole = (m % tile_m == 0) & (n % tile_n == 0)
    idle = whole & _cache_level_is_idle(c)
    depth = np.where(c["cache_k"] > 0, c["cache_k"], k)
    even = whole & (k % depth == 0) & (depth % c["vector_k"] == 0)
    return {
        **c,
        "vectors_m": np.where(idle, 0, c["vectors_m"]),
        "vectors_n": np.where(idle, 0, c["vectors_n"]),
        "tiles_m": np.where(idle, tile_m // c["vector_m"], c["tiles_m"]),
        "tiles_n": np.where(idle, tile_n // c["vector_n"], c["tiles_n"]),
        "peel": np.where(even, 0, c["peel"]),
    }


def _cache_level_is_idle(c: Columns) -> Mask:
    """Its loops run once each, or those below it do."""
    one_tile = (c["tiles_m"] == 1) & (c["tiles_n"] == 1)
    # The loop over parts of K stands between the two levels: only without it they can be one.
    one_vector = (c["vectors_m"] == 1) & (c["vectors_n"] == 1) & (c["cache_k"] == 0)
    mask: Mask = (c["vectors_m"] > 0) & (one_tile | one_vector)
    return mask


_TILED = Part(_tiled_space, _tiled_tiling, _tiled_knobs, _tiled_form)


# --- operands already packed: Mmt4dTilingExpert ----------------------------------------------------------------


def _packed_space(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Space:
    m, n, k = (
        dispatch.loops[dispatch.dims("m")[0]],
        dispatch.loops[dispatch.dims("n")[0]],
        dispatch.loops[dispatch.dims("k")[0]],
    )
    outer = math.prod(dispatch.sizes("batch"))
    steps = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    knobs = [
        Knob("workgroup_m", below(m, steps)),
        Knob("workgroup_n", below(n, steps)),
        # A microkernel runs over all of K by itself.
        Knob("unroll_k", (1,) if _called(dispatch, facts) else below(k, (1, 2, 4))),
    ]

    def enough_workgroups(c: Columns) -> Mask:
        mask: Mask = outer * -(-m // c["workgroup_m"]) * -(-n // c["workgroup_n"]) >= min(cores, outer * m * n)
        return mask

    return Space.product(knobs, [enough_workgroups])


def _called(dispatch: Dispatch, facts: CpuFacts) -> bool:
    """IREE puts a call of its microkernel in the place of the operation."""
    known = dispatch.op in ("linalg.mmt4d", "linalg.batch_mmt4d") and dispatch.element_types in _MICROKERNEL_TYPES
    return known and facts.calls_mmt4d


def _packed_tiling(dispatch: Dispatch, v: Mapping[str, int]) -> CpuTiling:
    loops = range(len(dispatch.loops))
    workgroup, vector, reduction = [0] * len(loops), [0] * len(loops), [0] * len(loops)
    for loop in dispatch.dims("batch"):
        workgroup[loop] = vector[loop] = 1
    for group, size in ((dispatch.dims("m"), v["workgroup_m"]), (dispatch.dims("n"), v["workgroup_n"])):
        workgroup[group[0]] = size
        vector[group[0]] = 1
        for inner in group[1:]:
            vector[inner] = dispatch.loops[inner]
    reduction[dispatch.dims("k")[0]] = v["unroll_k"]
    for inner in dispatch.dims("k")[1:]:
        reduction[inner] = dispatch.loops[inner]
    levels = (
        ("distribution", tuple(workgroup)),
        ("vector_common_parallel", tuple(vector)),
        ("vector_reduction", tuple(reduction)),
    )
    return CpuTiling(MMT4D, levels, peel=False)


def _packed_knobs(dispatch: Dispatch, levels: Levels) -> dict[str, int]:
    workgroup = levels.get("distribution", (0,) * len(dispatch.loops))
    m, n = dispatch.dims("m")[0], dispatch.dims("n")[0]
    return {
        "workgroup_m": workgroup[m] or dispatch.loops[m],
        "workgroup_n": workgroup[n] or dispatch.loops[n],
        "unroll_k": 1,
    }


_PACKED = Part(_packed_space, _packed_tiling, _packed_knobs)
