"""What the knobs of a product's kernel on a GPU come to: a workgroup's tile, and how many workgroups there are.

Runs that are over are known by the names and values of their knobs alone, so it is by these that the tile is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.space.table import ABSENT, Space, Value

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

QUANTITIES = 3
"""Rows and columns of a workgroup's tile, and the number of workgroups."""
_LOOP = re.compile(r"(?:wg|sg)_(\d+)")
_COUNTS = ("sg_m_cnt", "sg_n_cnt")
_INSTRUCTION = "mma"
_UNITS = re.compile(r"_(\d+)x(\d+)x\d+")


Knobs = Mapping[str, tuple[Sequence[Value], npt.NDArray[np.integer[Any]]]]
"""By the names of knobs: values, and the place among them that each configuration has."""


def of_rows(space: Space, rows: npt.NDArray[np.integer[Any]], sizes: Mapping[str, int]) -> Floats:
    """Of rows of a space: rows and columns of a workgroup's tile, and the number of workgroups, in doublings; 0 where
    they are not known."""
    places = space.indices[rows]
    return _tilings({knob.name: (knob.values, places[:, i]) for i, knob in enumerate(space.knobs)}, sizes, len(rows))


def of_configs(configs: Sequence[Mapping[str, Value]], sizes: Mapping[str, int]) -> Floats:
    """The same of configurations, whichever spaces they are from."""
    every, names = np.arange(len(configs)), frozenset().union(*configs)
    knobs = {name: ([config.get(name, ABSENT) for config in configs], every) for name in names}
    return _tilings(knobs, sizes, len(configs))


def _tilings(knobs: Knobs, sizes: Mapping[str, int], count: int) -> Floats:
    tilings = np.zeros((count, QUANTITIES))
    loops = sorted({int(found[1]) for name in knobs if (found := _LOOP.fullmatch(name))})[-2:]
    if len(loops) < 2 or not {"m", "n"} <= sizes.keys():
        return tilings
    instructions, places = knobs.get(_INSTRUCTION, ((ABSENT,), np.zeros(count, np.int64)))
    units = np.array([_unit(instruction) for instruction in instructions], np.int64)[places]
    # The last two loops that are distributed: the rows and the columns of the result.
    tiles = [_tile(knobs, *of, units[:, i]) for i, of in enumerate(zip(loops, _COUNTS, strict=True))]
    known = (tiles[0] > 0) & (tiles[1] > 0)
    rows, columns = (tile[known] for tile in tiles)
    workgroups = sizes.get("batch", 1) * -(-sizes["m"] // rows) * -(-sizes["n"] // columns)
    tilings[known] = np.log2(np.stack([rows, columns, np.maximum(workgroups, 1)], axis=1))
    return tilings


def _tile(knobs: Knobs, loop: int, count: str, unit: Ints) -> Ints:
    """What a workgroup takes of a loop: said as it is, or by subgroups in matrix instructions; 0 where neither is."""
    own, per_subgroup, subgroups = (_numbers(knobs, name, len(unit)) for name in (f"wg_{loop}", f"sg_{loop}", count))
    counted = np.where((per_subgroup > 0) & (subgroups > 0), per_subgroup * subgroups * unit, 0)
    tile: Ints = np.where(own > 0, own, counted)
    return tile


def _numbers(knobs: Knobs, name: str, count: int) -> Ints:
    values, places = knobs.get(name, ((ABSENT,), np.zeros(count, np.int64)))
    return np.array([value if isinstance(value, int) else ABSENT for value in values], np.int64)[places]


@cache
def _unit(instruction: Value) -> tuple[int, int]:
    """Rows and columns of the matrix instruction: where there is no choice it is NVIDIA's only one."""
    found = _UNITS.search(str(instruction))
    return (int(found[1]), int(found[2])) if found else (16, 8)
