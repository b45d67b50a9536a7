"""The guided sampler: a model of the timings chooses among neighbours of the best and random rows; some are random."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial

from autotuner.search.grid import NONE, Grid, WholeSampler
from autotuner.search.model import GOOD, Floats, Rows, Similarity, Surrogate
from autotuner.space.table import Space

MEMORY = 200
"""The most results in the model, which bounds its cost."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sampler's settings, measured in results/reference/replay.txt (`python -m benchmarks.replay`)."""

    startup: int = 8
    """Configurations that are known or under way before the model is used."""
    scatter: int = 3
    """Random draws at the start, of which the one least like those tried is taken; 1: plain random."""
    parents: int = 5
    """The number of best rows whose neighbours are considered."""
    neighbours: int = 150
    """The most neighbours considered, those that differ in one knob before those that differ in two."""
    anywhere: int = 150
    """The number of random rows considered beside them."""
    dice: int = 4
    """Every n-th proposal is a random neighbour in one knob, which leaves local optima of the model. 1: always; 0:
    never."""
    hopeless: int = 6
    """A knob's value that failed this often and never worked is not tried again; 0: it is."""
    shared: float = 0.7
    """The least similarity of two configurations that differ in one knob."""
    boldness: float = 1.0
    """The standard deviations by which an unknown row is rated better than expected."""
    good: float = GOOD


DEFAULT = Settings()


class GuidedSampler(WholeSampler):
    """Proposes rows unlike each other first, then those that the model ranks best. Its state is the study."""

    def __init__(self, space: Space, *, seed: int, settings: Settings = DEFAULT) -> None:
        super().__init__(Grid(space))
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._likeness = Similarity(space.knobs, shared=settings.shared)
        self._model = Surrogate(self._likeness, boldness=settings.boldness, good=settings.good)
        self._values: dict[int, float] = {}
        """By row; NaN where it failed."""
        self._pending: dict[int, None] = {}
        self._open: list[int] = []
        self._read = 0
        """The trials that are known and have no result yet, and how many are known at all."""
        self._best: list[int] = []
        """What worked, the fastest first."""
        self._lost: list[int] = []
        """What failed."""
        self._choices: Iterator[int] = iter(())
        """What the model would choose next, as long as nothing new is known."""
        self._proposed = -1
        self._turn = 0
        """How many were chosen since the start."""
        most = max((len(knob.values) for knob in space.knobs), default=0)
        self._worked, self._failed = (np.zeros((len(space.knobs), most), np.int64) for _ in range(2))
        """How often, by knob and value."""
        self._knobs = np.arange(len(space.knobs))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A configuration that is not in the study; any one, when all are."""
        del trial, search_space
        self._learn(study.get_trials(deepcopy=False))
        row = self._next()
        self._proposed = int(self._rng.integers(len(self._grid))) if row is None else row
        return self._grid.params(self._proposed)

    def _learn(self, trials: Sequence[FrozenTrial]) -> None:
        """Takes new results. The first result of a configuration counts; those outside this space are ignored."""
        new = [*(trials[number] for number in self._open), *trials[self._read :]]
        self._read, self._open = len(trials), [trial.number for trial in new if not trial.state.is_finished()]
        told = False
        for trial in new:
            row = self._grid.row_of(trial.params)
            if row is None or row in self._values:
                continue
            told |= trial.state.is_finished() or not (row in self._pending or row == self._proposed)
            self._grid.take(row)
            if not trial.state.is_finished():
                self._pending[row] = None
                continue
            self._pending.pop(row, None)
            self._values[row] = trial.value if trial.value is not None else math.nan
            if trial.value is None:
                self._lost.append(row)
            else:
                insort(self._best, row, key=self._values.__getitem__)
            tally = self._failed if trial.value is None else self._worked
            tally[self._knobs, self._grid.space.indices[row]] += 1
        if told:
            self._choices = iter(())

    def _next(self) -> int | None:
        """The next row; None: all were proposed."""
        if len(self._values) + len(self._pending) < self._settings.startup or not self._best:
            return self._scattered()
        parents, row = self._best[: self._settings.parents], None
        if self._settings.dice and self._turn % self._settings.dice == 0:
            row = self._thrown(parents)
        if row is None:
            row = next((one for one in self._choices if self._grid.free[one]), None)
        if row is None:
            self._choices = self._most_promising(self._considered(parents))
            row = next(self._choices, None)
        self._turn += 1
        return row

    def _scattered(self) -> int | None:
        """A random row unlike those before it."""
        rolls = self._grid.random_free(self._settings.scatter, self._rng)
        tried = np.array([*self._values, *self._pending], np.int64)
        if not len(rolls) or not len(tried):
            return int(rolls[0]) if len(rolls) else None
        indices = self._grid.space.indices
        unlike = (indices[rolls][:, None] != indices[tried][None]).sum(axis=2).min(axis=1)
        return int(rolls[unlike.argmax()])

    def _thrown(self, parents: Sequence[int]) -> int | None:
        """A random new neighbour of one of the best; None: there is none."""
        rows = self._hopeful(self._grid.free_of([self._grid.around(parent)[0] for parent in parents]))
        return int(self._rng.choice(rows)) if len(rows) else None

    def _considered(self, parents: Sequence[int]) -> Rows:
        """New neighbours of the best, and new random rows."""
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
        """The rows without values that always failed."""
        if not self._settings.hopeless:
            return rows
        hopeless = (self._failed >= self._settings.hopeless) & (self._worked == 0)
        hopeful: Rows = rows[~hopeless[self._knobs, self._grid.space.indices[rows]].any(axis=1)]
        return hopeful

    def _most_promising(self, pool: Rows) -> Iterator[int]:
        """The model's choice from the pool."""
        known = _remembered(self._best, self._lost)
        values: Floats = np.array([self._values[int(row)] for row in known])
        rows = np.concatenate([np.array([*self._pending], np.int64), pool])
        known_features, features = (self._likeness.rows(self._grid.space.indices[some]) for some in (known, rows))
        choices = self._model.choices(known_features, values, features, pending=len(self._pending))
        return (int(rows[place]) for place in choices)

    def _some(self, rows: Rows, count: int) -> Rows:
        return rows if len(rows) <= count else self._rng.choice(rows, size=max(count, 0), replace=False)


def _remembered(best: Sequence[int], lost: Sequence[int]) -> Rows:
    """All results, or the best half of what fits and an even sample of the rest; no others are looked at."""
    count, half = len(best) + len(lost), MEMORY // 2
    places = np.arange(count)
    if count > MEMORY:
        places = np.concatenate([places[:half], np.linspace(half, count - 1, MEMORY - half).astype(np.int64)])
    ranked = (best[place] if place < len(best) else lost[place - len(best)] for place in places.tolist())
    return np.fromiter(ranked, np.int64, len(places))
