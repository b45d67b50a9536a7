"""Everything once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotuner.search.grid import Grid
from autotuner.space.table import Config


class ExhaustiveSearch:
    """The rows of `first`, then all others in an order that the seed gives."""

    def __init__(self, grid: Grid, *, seed: int, first: Sequence[int]) -> None:
        self._grid = grid
        order = np.random.default_rng(seed).permutation(len(grid))
        self._queue = list(dict.fromkeys([*first, *(int(row) for row in order)]))

    def ask(self, count: int) -> list[Config]:
        waiting = [row for row in self._queue if self._grid.free[row]]
        batch, self._queue = waiting[:count], waiting[count:]
        for row in batch:
            self._grid.take(row)
        return [self._grid.config(row) for row in batch]

    def tell(self, config: Config, value: float | None) -> None:
        del value
        row = self._grid.space.index(config)
        if row is not None:
            self._grid.take(row)
