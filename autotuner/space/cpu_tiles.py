"""Tiles on llvm-cpu as data: which knobs make up the tile of each loop at each level.

They translate a configuration to the compiler's tile sizes, and the compiler's own tile sizes to knobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotuner.iree.mlir import Dispatch
from autotuner.iree.processor import CpuFacts
from autotuner.space.table import Columns, Knob, Space

Mask = npt.NDArray[np.bool_]
Rule = Callable[[Columns], Mask]
Levels = Mapping[str, tuple[int, ...]]
WORK, CACHE, CACHE_SUM, VECTOR, VECTOR_SUM = (
    *("distribution", "cache_parallel", "cache_reduction"),
    *("vector_common_parallel", "vector_reduction"),
)
"""Levels of tiles: of a workgroup, of a cache, and of a vector step; the last two also for reduction loops."""
PEELING = "enable_loop_peeling"
_LARGE_VECTOR = 512
"""Native vectors in a vector of this size: the compiler refuses functions that have one."""


@dataclass(frozen=True, slots=True)
class CpuTiling:
    """A configuration in the compiler's terms: tile sizes by level, a pipeline and its options."""

    pipeline: str
    levels: tuple[tuple[str, tuple[int, ...]], ...]
    peel: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of a loop at a level: a product of knobs and numbers.

    The last factor may be 0: then there is no such level. Other factors of 0 count as 1.
    """

    level: str
    loop: int
    factors: tuple[str | int, ...]
    untiled: int = 0
    """Its value where the compiler's own configuration does not tile the loop at this level."""

    def of(self, values: Mapping[str, int]) -> int:
        *inner, last = (values[one] if isinstance(one, str) else one for one in self.factors)
        return math.prod(max(size, 1) for size in inner) * last

    @property
    def knob(self) -> str:
        """The knob that decides it; empty: it is fixed."""
        last = self.factors[-1]
        return last if isinstance(last, str) else ""


@dataclass(frozen=True)
class Part:
    """One way to tile a dispatch."""

    pipeline: str
    knobs: tuple[Knob, ...]
    rules: tuple[Rule, ...]
    tiles: tuple[Tile, ...]
    """Tiles by loop and level; factors of others come first."""
    peel: bool | None = False
    """Whether remainders are peeled; None: a knob says it."""
    twins: Rule | None = None
    """Configurations that give the code of another one, which stays; None: there are none."""

    def space(self) -> Space:
        return Space.product(self.knobs, self.rules)

    def tiling(self, values: Mapping[str, int], *, loops: int) -> CpuTiling:
        """The tile sizes of a configuration."""
        absent = {tile.level for tile in self.tiles if tile.knob and not tile.of(values)}
        levels = []
        for level in (WORK, CACHE, CACHE_SUM, VECTOR, VECTOR_SUM):
            sizes = {tile.loop: tile.of(values) for tile in self.tiles if tile.level == level}
            if sizes and level not in absent:
                levels.append((level, tuple(sizes.get(loop, 0) for loop in range(loops))))
        return CpuTiling(self.pipeline, tuple(levels), bool(values["peel"]) if self.peel is None else self.peel)

    def read(self, levels: Levels, *, peel: bool) -> dict[str, int]:
        """The knobs that give these tile sizes, of the compiler or of a spec."""
        values = {"peel": int(peel)} if self.peel is None else {}
        for tile in self.tiles:
            if tile.knob and tile.knob not in values:
                sizes = levels.get(tile.level, ())
                size = (sizes[tile.loop] if tile.loop < len(sizes) else 0) or tile.untiled
                values[tile.knob] = max(size // tile.of({**values, tile.knob: 1}), min(tile.untiled, 1))
        return values


def below(limit: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """The choices up to a limit, and at least the first."""
    return tuple(c for c in choices if c <= limit) or (choices[0],)


def divisors(n: int, *, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    return tuple(d for d in range(least, min(n, most or n) + 1) if n % d == 0)


def lane_tiles(size: int, lanes: int) -> tuple[int, ...]:
    """Tiles of the loop that vectors lie along: multiples of a native vector, else the nearest sizes."""
    widest = 4 * lanes
    whole = tuple(d for d in divisors(size, most=widest) if d % lanes == 0)
    if whole:
        return whole
    # Wider than a native vector and no multiple of it is split badly: 20 or 40 floats on 16 lanes take 8 to 10 times as
    # long as 10. That is still better than a scalar, which is all that 37 channels leave.
    narrow = divisors(size, most=lanes)
    if 2 * narrow[-1] >= lanes:
        return tuple(d for d in narrow if 2 * d >= lanes)
    return (narrow[-1], *divisors(size, least=lanes + 1, most=widest))


def ones(*levels: str, loops: tuple[int, ...]) -> tuple[Tile, ...]:
    """One iteration of these loops at a time."""
    return tuple(Tile(level, loop, (1,)) for level in levels for loop in loops)


def out_bytes(dispatch: Dispatch) -> int:
    """Bytes of an element of the result: vectors of the accumulator fill the registers."""
    return {"f16": 2, "bf16": 2, "i8": 1}.get(dispatch.element_types[-1], 4)


def vector_limit(facts: CpuFacts) -> int:
    """The bytes that no vector may reach."""
    return _LARGE_VECTOR * facts.vector_bytes
