"""What the knobs of a product's kernel on a GPU come to: a workgroup's tile, and how many workgroups there are.

Runs that are over are known by the names and values of their knobs alone, so it is by these that the tile is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
_USUAL = (16, 8)
"""Rows and columns of the matrix instruction where there is no choice: there is one on NVIDIA only."""


@dataclass(frozen=True)
class _Knobs:
    """The knobs of some configurations, a value for each of them; ABSENT where they have none of that name."""

    names: frozenset[str]
    numbers: Mapping[str, Ints]
    units: Ints
    """Rows and columns of each configuration's matrix instruction."""

    def __getitem__(self, name: str) -> Ints:
        return self.numbers.get(name, np.full(len(self.units), ABSENT, np.int64))


def of_rows(space: Space, rows: npt.NDArray[np.integer[Any]], sizes: Mapping[str, int]) -> Floats:
    """Of rows of a space: rows and columns of a workgroup's tile, and the number of workgroups, in doublings; 0 where
    they are not known."""
    places, numbers = space.indices[rows], dict[str, Ints]()
    units = _usual(len(rows))
    for column, knob in enumerate(space.knobs):
        if knob.name == _INSTRUCTION:
            units = np.array([_unit(value) for value in knob.values], np.int64)[places[:, column]]
        elif _counts(knob.name):
            numbers[knob.name] = np.array([_number(value) for value in knob.values], np.int64)[places[:, column]]
    return _tilings(_Knobs(frozenset(knob.name for knob in space.knobs), numbers, units), sizes)


def of_configs(configs: Sequence[Mapping[str, Value]], sizes: Mapping[str, int]) -> Floats:
    """The same of configurations, whichever spaces they are from."""
    names = frozenset().union(*configs)
    numbers = {
        name: np.array([_number(config.get(name, ABSENT)) for config in configs], np.int64)
        for name in names
        if _counts(name)
    }
    if _INSTRUCTION in names:
        units = np.array([_unit(config.get(_INSTRUCTION, ABSENT)) for config in configs], np.int64)
    else:
        units = _usual(len(configs))
    return _tilings(_Knobs(names, numbers, units), sizes)


def _tilings(knobs: _Knobs, sizes: Mapping[str, int]) -> Floats:
    loops = _loops(knobs.names)
    tilings = np.zeros((len(knobs.units), QUANTITIES))
    if len(loops) < 2 or not {"m", "n"} <= sizes.keys():
        return tilings
    tiles = [
        _tile(knobs, loop, count, knobs.units[:, i]) for i, (loop, count) in enumerate(zip(loops, _COUNTS, strict=True))
    ]
    known = (tiles[0] > 0) & (tiles[1] > 0)
    rows, columns = (tile[known] for tile in tiles)
    workgroups = sizes.get("batch", 1) * -(-sizes["m"] // rows) * -(-sizes["n"] // columns)
    tilings[known] = np.log2(np.stack([rows, columns, np.maximum(workgroups, 1)], axis=1))
    return tilings


def _loops(names: Iterable[str]) -> list[int]:
    """The last two loops that are distributed: the rows and the columns of the result."""
    return sorted({int(found[1]) for name in names if (found := _LOOP.fullmatch(name))})[-2:]


def _tile(knobs: _Knobs, loop: int, count: str, unit: Ints) -> Ints:
    """What a workgroup takes of a loop: said as it is, or by subgroups in matrix instructions; 0 where neither is."""
    own, per_subgroup, subgroups = knobs[f"wg_{loop}"], knobs[f"sg_{loop}"], knobs[count]
    counted = np.where((per_subgroup > 0) & (subgroups > 0), per_subgroup * subgroups * unit, 0)
    tile: Ints = np.where(own > 0, own, counted)
    return tile


@cache
def _counts(name: str) -> bool:
    return name in _COUNTS or _LOOP.fullmatch(name) is not None


def _number(value: Value) -> int:
    return value if isinstance(value, int) else ABSENT


@cache
def _unit(instruction: Value) -> tuple[int, int]:
    found = _UNITS.search(str(instruction))
    return (int(found[1]), int(found[2])) if found else _USUAL


def _usual(count: int) -> Ints:
    return np.tile(np.array(_USUAL, np.int64), (count, 1))
