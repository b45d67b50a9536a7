"""A space laid out for the search: which rows are taken, and what is near."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotuner.search.likeness import Rows
from autotuner.space.table import Config, Space

NONE: Rows = np.zeros(0, np.int64)


class Grid:
    """The legal rows and those of them that were never proposed. No question here costs more in a larger space,
    but for `nearest_free`."""

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

    def nearest_free(self, point: Rows) -> Rows:
        """The free rows that differ from a point of value indices in the fewest knobs."""
        free = np.flatnonzero(self.free)
        differing = (self.space.indices[free] != point).sum(axis=1)
        return free[differing == differing.min()] if len(free) else free
