"""A model of what was timed chooses among neighbours of the best and rows from anywhere; the dice keep it honest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotuner.search.grid import NONE, Grid
from autotuner.search.model import GOOD, Floats, Likeness, Rows, Surrogate
from autotuner.space.table import Config

MEMORY = 200
"""The model knows at most so many results: the cost of a candidate stays bounded."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the parts of the search are worth is in results/reference/replay.txt (`python -m benchmarks.replay`)."""

    startup: int = 8
    """So many configurations are known or under way before the model is asked."""
    scatter: int = 3
    """Of so many dice rolls, the one least like what was tried is taken; 1: the dice alone."""
    parents: int = 5
    """The best, whose neighbours are considered."""
    neighbours: int = 150
    """At most so many of them, those that differ in one knob before those that differ in two."""
    anywhere: int = 150
    """So many rows from anywhere are considered beside them."""
    dice: int = 4
    """Every so manyth is a random neighbour that differs in one knob: a model that is sure of the wrong thing stays
    where it is, the dice do not. 1: the dice alone; 0: the model alone."""
    hopeless: int = 6
    """A knob's value that failed so often and never worked is not tried again; 0: it is."""
    shared: float = 0.7
    """What two configurations have in common, at the least, when they differ in one knob."""
    boldness: float = 1.0
    """How many standard deviations an unknown row is given the benefit of."""
    good: float = GOOD


DEFAULT = Settings()


class GuidedSearch:
    """First rows that are unlike each other, then what the model finds most promising; it is told everything."""

    def __init__(self, grid: Grid, *, seed: int, first: Sequence[int], settings: Settings = DEFAULT) -> None:
        self._grid, self._settings = grid, settings
        self._rng = np.random.default_rng(seed)
        self._first = list(dict.fromkeys(first))
        self._likeness = Likeness(grid.knobs, shared=settings.shared)
        self._model = Surrogate(self._likeness, boldness=settings.boldness, good=settings.good)
        self._values: dict[int, float] = {}
        """By row; NaN where it failed."""
        self._pending: dict[int, None] = {}
        self._turn = self._dice = 0
        """How many were chosen since the start, and how often the dice were asked for one of them."""
        most = max((len(knob.values) for knob in grid.knobs), default=0)
        self._worked, self._failed = (np.zeros((len(grid.knobs), most), np.int64) for _ in range(2))
        """How often, by knob and value."""
        self._knobs = np.arange(len(grid.knobs))

    def ask(self, count: int) -> list[Config]:
        batch: list[int] = []
        while len(batch) < count:
            rows = self._next(count - len(batch))
            if not rows:
                break
            for row in rows:
                self._grid.take(row)
                self._pending[row] = None
            batch += rows
        return [self._grid.config(row) for row in batch]

    def tell(self, config: Config, value: float | None) -> None:
        """The first word on a configuration stands; one that is not of this space says nothing about it."""
        row = self._grid.space.index(config)
        if row is None or row in self._values:
            return
        self._grid.take(row)
        self._pending.pop(row, None)
        self._values[row] = math.nan if value is None else value
        tally = self._failed if value is None else self._worked
        tally[self._knobs, self._grid.space.indices[row]] += 1

    def _next(self, count: int) -> list[int]:
        while self._first:
            row = self._first.pop(0)
            if self._grid.free[row]:
                return [row]
        best = self._best()
        if len(self._values) + len(self._pending) < self._settings.startup or not best:
            return self._scattered()
        parents, rows = best[: self._settings.parents], list[int]()
        # The dice of a batch come first: what the model chooses of it is then one question.
        if self._settings.dice and -(-(self._turn + count) // self._settings.dice) > self._dice:
            self._dice += 1
            rows = self._thrown(parents)
        if not rows:
            rows = self._most_promising(self._considered(parents), best, count=count)
        self._turn += len(rows)
        return rows

    def _best(self) -> list[int]:
        """What worked, the fastest first."""
        return sorted(
            (row for row, value in self._values.items() if not math.isnan(value)), key=self._values.__getitem__
        )

    def _scattered(self) -> list[int]:
        """A random row unlike those before it."""
        rolls = self._grid.random_free(self._settings.scatter, self._rng)
        tried = np.array([*self._values, *self._pending], np.int64)
        if not len(rolls) or not len(tried):
            return [int(row) for row in rolls[:1]]
        indices = self._grid.space.indices
        unlike = (indices[rolls][:, None] != indices[tried][None]).sum(axis=2).min(axis=1)
        return [int(rolls[unlike.argmax()])]

    def _thrown(self, parents: Sequence[int]) -> list[int]:
        """A random unseen neighbour of one of the best; none when all were seen."""
        rows = self._hopeful(self._grid.free_of([self._grid.around(parent)[0] for parent in parents]))
        return [int(self._rng.choice(rows))] if len(rows) else []

    def _considered(self, parents: Sequence[int]) -> Rows:
        """Unseen neighbours of the best, and unseen rows from anywhere."""
        pool = NONE
        for ring in zip(*(self._grid.around(parent) for parent in parents), strict=True):
            rows = self._some(self._grid.free_of(ring, but=pool), self._settings.neighbours - len(pool))
            pool = np.concatenate([pool, rows])
        anywhere = self._settings.anywhere if len(pool) else max(self._settings.anywhere, 1)
        if anywhere:
            pool = self._grid.free_of([pool, self._grid.random_free(anywhere, self._rng)])
        hopeful = self._hopeful(pool)
        return hopeful if len(hopeful) else pool

    def _hopeful(self, rows: Rows) -> Rows:
        """Those without a value that always failed."""
        if not self._settings.hopeless:
            return rows
        hopeless = (self._failed >= self._settings.hopeless) & (self._worked == 0)
        hopeful: Rows = rows[~hopeless[self._knobs, self._grid.space.indices[rows]].any(axis=1)]
        return hopeful

    def _most_promising(self, pool: Rows, best: Sequence[int], *, count: int) -> list[int]:
        failed = [row for row, value in self._values.items() if math.isnan(value)]
        known = _remembered([*best, *failed])
        values: Floats = np.array([self._values[int(row)] for row in known])
        rows = np.concatenate([np.array([*self._pending], np.int64), pool])
        known_features, features = (self._likeness.rows(self._grid.space.indices[some]) for some in (known, rows))
        chosen = self._model.choose(known_features, values, features, pending=len(self._pending), count=count)
        return [int(rows[place]) for place in chosen]

    def _some(self, rows: Rows, count: int) -> Rows:
        return rows if len(rows) <= count else self._rng.choice(rows, size=max(count, 0), replace=False)


def _remembered(ranked: Sequence[int]) -> Rows:
    """All, or the better half of what fits and an even sample of the rest."""
    rows = np.array(ranked, np.int64)
    if len(rows) <= MEMORY:
        return rows
    half = MEMORY // 2
    rest = np.linspace(half, len(rows) - 1, MEMORY - half).astype(np.int64)
    return np.concatenate([rows[:half], rows[rest]])
