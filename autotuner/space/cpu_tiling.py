"""What the declared spaces of llvm-cpu have in common: tilings, and the limits of the compiler and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotuner.iree.mlir import Dispatch
from autotuner.iree.processor import CpuFacts
from autotuner.space.table import Columns, Space

Mask = npt.NDArray[np.bool_]
Levels = Mapping[str, tuple[int, ...]]
PEELING = "enable_loop_peeling"
MAX_WORKGROUPS = 8192
"""For each entry of a batch: more are too small to be worth their start."""
_LARGE_VECTOR = 512
"""Native vectors: the compiler refuses a function that holds a vector this large."""
_BYTES = {"f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i8": 1}


@dataclass(frozen=True, slots=True)
class CpuTiling:
    """A configuration in the compiler's terms: tile sizes by level, a pipeline and its options."""

    pipeline: str
    levels: tuple[tuple[str, tuple[int, ...]], ...]
    peel: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One way to tile a dispatch: its knobs, what they mean, and how the compiler's own tiles read as knobs."""

    space: Callable[[Dispatch, CpuFacts, int], Space]
    """Of a dispatch on a processor with so many cores."""
    tiling: Callable[[Dispatch, Mapping[str, int]], CpuTiling]
    knobs: Callable[[Dispatch, Levels], dict[str, int]]
    form: Callable[[Dispatch, Columns], Columns] = lambda _, columns: columns
    """What is left of the knobs when those that change nothing are set to one value: equal forms give equal code."""


def out_bytes(dispatch: Dispatch) -> int:
    """Of one element of the result: vectors of the accumulator are what fills the registers."""
    return _BYTES.get(dispatch.element_types[-1], 4)


def vector_limit(facts: CpuFacts) -> int:
    """The bytes that no vector may reach."""
    return _LARGE_VECTOR * facts.vector_bytes


def below(limit: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """The choices up to a limit; the first of them at least."""
    return tuple(c for c in choices if c <= limit) or (choices[0],)


def divisors(n: int, *, least: int = 1, most: int | None = None) -> tuple[int, ...]:
    return tuple(d for d in range(least, min(n, most or n) + 1) if n % d == 0)


def spread(dispatch: Dispatch, tiles: Mapping[int, int]) -> tuple[int, ...]:
    """Tile sizes over all loops of a dispatch; 0, not tiled, where none is given."""
    return tuple(tiles.get(loop, 0) for loop in range(len(dispatch.loops)))


def tile(levels: Levels, level: str, loop: int, default: int) -> int:
    """The tile of one loop, or the default where the level does not tile it."""
    sizes = levels.get(level, ())
    return (sizes[loop] if loop < len(sizes) else 0) or default
