"""What the knobs of a product's kernel on a GPU come to: a workgroup's tile, and how many workgroups there are."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from autotuner.search.likeness import Floats
from autotuner.space.table import ABSENT, Value

_LOOP = re.compile(r"(?:wg|sg)_(\d+)")
_INSTRUCTION = re.compile(r"_(\d+)x(\d+)x\d+")
_USUAL = (16, 8)
"""Rows and columns of the matrix instruction where there is no choice: there is one on NVIDIA only."""
_REACHES = np.array([4.0, 4.0, 3.0])
"""At so many doublings of the tile's rows, its columns and the number of workgroups two kernels are 1/e as alike."""


def tilings(configs: Sequence[Mapping[str, Value]], sizes: Mapping[str, int]) -> Floats:
    """Rows and columns of a workgroup's tile and the number of workgroups, in doublings; 0 where they are not known."""
    return np.array([_tiling(config, sizes) for config in configs], np.float64).reshape(-1, len(_REACHES))


def alike(some: Floats, others: Floats) -> Floats:
    """How alike kernels are by their tilings."""
    apart = sum(np.abs(some[:, i, None] - others[None, :, i]) / reach for i, reach in enumerate(_REACHES))
    likeness: Floats = np.exp(-apart)
    return likeness


def _tiling(config: Mapping[str, Value], sizes: Mapping[str, int]) -> tuple[float, float, float]:
    # The last two loops that are distributed are the rows and the columns of the result.
    loops = sorted({int(found[1]) for name in config if (found := _LOOP.fullmatch(name))})[-2:]
    units = _INSTRUCTION.search(str(config.get("mma", "")))
    unit = (int(units[1]), int(units[2])) if units else _USUAL
    tile = [
        _tile(config, loop, count, size)
        for loop, count, size in zip(loops, ("sg_m_cnt", "sg_n_cnt"), unit, strict=False)
    ]
    if len(tile) < 2 or not all(tile) or not {"m", "n"} <= sizes.keys():
        return 0.0, 0.0, 0.0
    rows, columns = tile
    workgroups = sizes.get("batch", 1) * -(-sizes["m"] // rows) * -(-sizes["n"] // columns)
    return math.log2(rows), math.log2(columns), math.log2(max(workgroups, 1))


def _tile(config: Mapping[str, Value], loop: int, count: str, unit: int) -> int:
    """What a workgroup takes of a loop: said as it is, or by subgroups in matrix instructions; 0 where neither is."""
    own, per_subgroup, subgroups = (config.get(name, ABSENT) for name in (f"wg_{loop}", f"sg_{loop}", count))
    if isinstance(own, int) and own > 0:
        return own
    if isinstance(per_subgroup, int) and isinstance(subgroups, int) and per_subgroup > 0 and subgroups > 0:
        return per_subgroup * subgroups * unit
    return 0
