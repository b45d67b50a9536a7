"""What a search is, a space laid out for it (which rows are taken, what is near), and the one that tries everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from autotuner.search.model import Rows
from autotuner.space.table import Config, Space

NONE: Rows = np.zeros(0, np.int64)


class Search(Protocol):
    """One coordinator asks and tells; several may be asked for before the first is told."""

    def ask(self, count: int) -> list[Config]:
        """Up to `count` distinct configurations that were never asked or told; none when all were."""
        ...

    def tell(self, config: Config, value: float | None) -> None:
        """What a configuration came to: log(time), or None when it failed. It need not have been asked."""
        ...


class Grid:
    """The legal rows and those of them that were never proposed. No question here costs more in a larger space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.knobs = space.knobs
        self.free = np.ones(len(space), bool)
        self._around: dict[int, tuple[Rows, Rows]] = {}
        self._places = np.zeros(len(space), np.int64)
        """Of rows among others, for a moment: numpy's sets take several times as long."""

    def __len__(self) -> int:
        return len(self.space)

    def config(self, row: int) -> Config:
        return self.space[row]

    def repair(self, config: Config) -> int:
        """The row of a configuration, or of the nearest legal one."""
        row = self.space.index(config)
        return self.space.nearest(config.as_dict()) if row is None else row

    def take(self, row: int) -> None:
        self.free[row] = False

    def random_free(self, count: int, rng: np.random.Generator) -> Rows:
        """Distinct rows that were not proposed: about `count` of them, all that are left when they are few."""
        rolls = np.unique(rng.integers(len(self), size=count)) if len(self) else np.zeros(0, np.int64)
        rolls = rolls[self.free[rolls]]
        if len(rolls):
            return rng.permutation(rolls)
        return rng.permutation(np.flatnonzero(self.free))[:count]

    def free_of(self, parts: Sequence[Rows], *, but: Rows = NONE) -> Rows:
        """Those of these rows that were not proposed, each once and in order, without those of `but`."""
        rows = np.concatenate([NONE, *parts])
        rows = rows[self.free[rows]]
        places = np.arange(len(rows))
        self._places[rows] = places
        self._places[but] = -1
        return np.sort(rows[self._places[rows] == places])

    def around(self, row: int) -> tuple[Rows, Rows]:
        """The rows that differ from this one in one knob, and in two."""
        if row not in self._around:
            self._around[row] = self.space.around(row)
        return self._around[row]


class ExhaustiveSearch:
    """Everything once: the rows of `first`, then all others in an order that the seed gives."""

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
