"""Half TPE, half unseen neighbours of the best: the one finds the region, the other the bottom of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotuner.search.grid import Grid, Rows
from autotuner.search.surrogate import promise
from autotuner.search.tpe import Tpe
from autotuner.space.table import Config

STARTUP = 12
"""So many configurations come from the dice before anything is concluded."""
SCATTER = 3
"""Of so many dice rolls, the one least like what was tried is taken."""
PARENTS = 5
REACH = 2
"""Neighbours differ from one of the best in at most so many knobs."""
POOL = 400
"""At most so many neighbours are compared, the nearer ones first: the cost of a candidate stays bounded."""
MEMORY = 300
"""At most so many results, the best, take part in the comparison, for the same reason."""


class HybridSearch:
    """TPE and neighbours take turns; both are told everything."""

    def __init__(self, grid: Grid, *, seed: int, first: Sequence[int]) -> None:
        self._grid = grid
        self._rng = np.random.default_rng(seed)
        self._first = list(dict.fromkeys(first))
        self._tpe = Tpe(grid, seed=int(self._rng.integers(2**31)))
        self._values: dict[int, float | None] = {}
        self._pending: dict[int, None] = {}
        self._around: dict[int, list[Rows]] = {}
        self._neighbours_turn = False

    def ask(self, count: int) -> list[Config]:
        batch: list[int] = []
        while len(batch) < count:
            row = self._next()
            if row is None:
                break
            self._grid.take(row)
            self._tpe.start(row)
            self._pending[row] = None
            batch.append(row)
        return [self._grid.config(row) for row in batch]

    def tell(self, config: Config, value: float | None) -> None:
        """The first word on a configuration stands; one that is not of this space says nothing about it."""
        row = self._grid.space.index(config)
        if row is None or row in self._values:
            return
        self._grid.take(row)
        self._pending.pop(row, None)
        self._values[row] = value
        self._tpe.finish(row, value)

    def _next(self) -> int | None:
        while self._first:
            row = self._first.pop(0)
            if self._grid.free[row]:
                return row
        known = len(self._values) + len(self._pending)
        if known < STARTUP or not any(value is not None for value in self._values.values()):
            return self._scattered()
        self._neighbours_turn = not self._neighbours_turn
        pool = self._neighbours() if self._neighbours_turn else np.zeros(0, np.int64)
        return self._most_promising(pool if len(pool) else self._proposed())

    def _proposed(self) -> Rows:
        """What TPE proposes, repaired: the unseen rows nearest to it, the proposal itself if it is one."""
        return self._grid.nearest_free(self._tpe.propose())

    def _scattered(self) -> int | None:
        """A random row unlike those before it."""
        free = np.flatnonzero(self._grid.free)
        if not len(free):
            return None
        rolls = self._rng.choice(free, size=min(SCATTER, len(free)), replace=False)
        tried = np.array([*self._values, *self._pending], np.int64)
        if not len(tried):
            return int(rolls[0])
        return int(rolls[self._grid.distances(rolls, tried).min(axis=1).argmax()])

    def _neighbours(self) -> Rows:
        """The unseen rows around the best; none when all around them was seen."""
        parents = [row for _, row in self._ranked()[:PARENTS]]
        for parent in parents:
            if parent not in self._around:
                self._around[parent] = self._grid.around(parent, reach=REACH)
        pool = np.zeros(0, np.int64)
        for step in range(REACH):
            ring = np.unique(np.concatenate([self._around[parent][step] for parent in parents]))
            ring = np.setdiff1d(ring[self._grid.free[ring]], pool, assume_unique=True)
            pool = np.concatenate([pool, self._some(ring, POOL - len(pool))])
        return pool

    def _most_promising(self, pool: Rows) -> int | None:
        if len(pool) <= 1:
            return int(pool[0]) if len(pool) else None
        pool = self._some(pool, POOL)
        ranked = self._ranked()
        # A failure is as bad as the worst that ran: the surroundings of failures are not to be sought out.
        failed = [(ranked[-1][0], row) for row, value in self._values.items() if value is None]
        told = [*ranked, *failed][:MEMORY]
        known = np.array([row for _, row in told], np.int64)
        values = np.array([value for value, _ in told])
        score = promise(self._grid, pool, known=known, values=values, pending=list(self._pending))
        return int(pool[score.argmax()])

    def _ranked(self) -> list[tuple[float, int]]:
        return sorted((value, row) for row, value in self._values.items() if value is not None)

    def _some(self, rows: Rows, count: int) -> Rows:
        return rows if len(rows) <= count else self._rng.choice(rows, size=count, replace=False)
