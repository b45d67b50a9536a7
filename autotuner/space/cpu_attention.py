"""Attention on llvm-cpu: the fused operation, in tiles of queries (m), of keys (k2) and of the result's width (n)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from autotuner.iree.mlir import Dispatch
from autotuner.iree.processor import CpuFacts
from autotuner.space.cpu_tiling import (
    MAX_WORKGROUPS,
    CpuTiling,
    Levels,
    Mask,
    Part,
    below,
    divisors,
    spread,
    tile,
    vector_limit,
)
from autotuner.space.table import Columns, Knob, Space

LINALG_EXT = "LinalgExtTileAndVectorize"
_BYTES = 4
"""Scores, sums and the result are f32 inside the dispatch, whatever the operands are."""
_MOST_QUERIES = 16
_MOST_KEYS = 32
_ENOUGH_QUERIES = 4
_ENOUGH_SCORES = 16
"""Queries times keys at once: 8 take 4 times as long as 64, fewer still longer."""


def attention_part(dispatch: Dispatch) -> Part | None:
    """None where keys or the result's width are more than one loop."""
    return _PART if len(dispatch.dims("n")) == len(dispatch.dims("k2")) == 1 else None


def _space(dispatch: Dispatch, facts: CpuFacts, cores: int) -> Space:
    queries, (width,), (keys,) = _queries(dispatch), dispatch.sizes("n"), dispatch.sizes("k2")
    depth = math.prod(dispatch.sizes("k1"))
    outer = dispatch.work // (queries * width * keys * depth)
    lanes = max(facts.vector_bytes // _BYTES, 1)
    limit = vector_limit(facts)
    # The sums are kept in registers; up to twice as many still gain by reading fewer keys.
    registers = max(2 * facts.vector_registers, -(-width // lanes))
    # Each part of the width computes the scores anew: halves take nearly twice as long, unless more queries fit then.
    crowded = _ENOUGH_QUERIES * -(-width // lanes) > registers and width % (2 * lanes) == 0
    knobs = [
        Knob("vector_m", _query_tiles(queries)),
        Knob("vector_n", (width // 2, width) if crowded else (width,)),
        Knob("vector_k2", _key_tiles(keys)),
        Knob("tiles_m", (1, 2, 4, 8, 16, 32, 64)),
        Knob("tiles_n", (1, 2) if crowded else (1,)),
    ]

    def no_large_vector(c: Columns) -> Mask:
        # Neither product of the two may have a whole iteration space of that size.
        scores = c["vector_m"] * c["vector_k2"] * _BYTES
        mask: Mask = (scores * depth < limit) & (scores * c["vector_n"] < limit)
        return mask

    def near_the_registers(c: Columns) -> Mask:
        mask: Mask = c["vector_m"] * -(-c["vector_n"] // lanes) <= registers
        return mask

    def enough_scores(c: Columns) -> Mask:
        # Where the head is deep or vectors are short, the compiler allows few: half of them must do.
        most = (limit - 1) // (_BYTES * max(depth, width))
        mask: Mask = c["vector_m"] * c["vector_k2"] >= min(_ENOUGH_SCORES, queries * keys, most // 2)
        return mask

    def within_the_problem(c: Columns) -> Mask:
        mask: Mask = c["vector_m"] * c["tiles_m"] < queries + c["vector_m"]
        return mask & (c["vector_n"] * c["tiles_n"] <= width)

    def enough_workgroups(c: Columns) -> Mask:
        rows, columns = c["vector_m"] * c["tiles_m"], c["vector_n"] * c["tiles_n"]
        groups = outer * -(-queries // rows) * (width // columns)
        mask: Mask = groups >= np.minimum(cores, outer * -(-queries // c["vector_m"]))
        return mask & (groups <= MAX_WORKGROUPS * outer)

    rules = [no_large_vector, near_the_registers, enough_scores, within_the_problem, enough_workgroups]
    return Space.product(knobs, rules)


def _queries(dispatch: Dispatch) -> int:
    """The innermost loop over queries; a single query has none."""
    return dispatch.sizes("m")[-1] if dispatch.dims("m") else 1


def _query_tiles(queries: int) -> tuple[int, ...]:
    """Remainders are cheap here, so not only divisors."""
    return tuple(sorted({*divisors(queries, most=_MOST_QUERIES), *below(queries, (1, 2, 4, 6, 8, 12, 16))}))


def _key_tiles(keys: int) -> tuple[int, ...]:
    """Divisors: 7 of 2048 keys at a time take 2.6 times as long as 8."""
    whole = divisors(keys, least=4, most=_MOST_KEYS)
    return whole or below(keys, (1, 2, 4, 8, 16))[-3:]


def _tiling(dispatch: Dispatch, v: Mapping[str, int]) -> CpuTiling:
    (width,), (keys,) = dispatch.dims("n"), dispatch.dims("k2")
    ones = dict.fromkeys((*dispatch.dims("batch"), *dispatch.dims("m")[:-1]), 1)
    workgroup, vector = {**ones}, {**ones}
    workgroup[width], vector[width] = v["vector_n"] * v["tiles_n"], v["vector_n"]
    for loop in dispatch.dims("m")[-1:]:
        workgroup[loop], vector[loop] = v["vector_m"] * v["tiles_m"], v["vector_m"]
    # k1 stays whole: IREE computes wrong results where it is tiled.
    levels = (
        ("distribution", spread(dispatch, workgroup)),
        ("vector_common_parallel", spread(dispatch, vector)),
        ("vector_reduction", spread(dispatch, {keys: v["vector_k2"]})),
    )
    return CpuTiling(LINALG_EXT, levels, peel=False)


def _knobs(dispatch: Dispatch, levels: Levels) -> dict[str, int]:
    (width,), (keys,) = dispatch.dims("n"), dispatch.dims("k2")

    def vector(loop: int) -> int:
        return tile(levels, "vector_common_parallel", loop, dispatch.loops[loop])

    def tiles(loop: int) -> int:
        return max(tile(levels, "distribution", loop, dispatch.loops[loop]) // vector(loop), 1)

    rows = dispatch.dims("m")[-1:]
    return {
        "vector_m": vector(rows[0]) if rows else 1,
        "vector_n": vector(width),
        "vector_k2": tile(levels, "vector_reduction", keys, dispatch.loops[keys]),
        "tiles_m": tiles(rows[0]) if rows else 1,
        "tiles_n": tiles(width),
    }


_PART = Part(_space, _tiling, _knobs)
