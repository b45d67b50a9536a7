"""Optuna's TPE over the knobs of a grid, by ask and tell, in memory: the search that others are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

from autotuner.search.grid import Grid
from autotuner.search.model import Rows
from autotuner.space.table import Config

STARTUP = 12
"""So many configurations come from the dice before anything is concluded."""


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna reports each study and warns of what is experimental; neither is news to who tunes a kernel."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


class TpeSearch:
    """Asks for the unseen row nearest to what TPE proposes, and tells it of the rows that really ran.

    Every knob is categorical, ordered ones too: in replay that found better rows, and at a third of the
    cost. Rows under way are RUNNING trials, so that Optuna's constant liar keeps the rest of a batch off them.
    """

    def __init__(self, grid: Grid, *, seed: int, first: Sequence[int]) -> None:
        self._grid = grid
        self._rng = np.random.default_rng(seed)
        self._first = list(dict.fromkeys(first))
        # Knobs go by number: a name may be anything, and indices of values are all that TPE needs.
        self._distributions: dict[str, BaseDistribution] = {
            str(number): CategoricalDistribution(range(len(knob.values))) for number, knob in enumerate(grid.knobs)
        }
        with quiet():
            sampler = optuna.samplers.TPESampler(seed=int(self._rng.integers(2**31)), n_startup_trials=STARTUP)
            self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._trials = 0
        self._running: dict[int, int] = {}
        self._told: set[int] = set()
        self._failed: list[int] = []
        self._worst: float | None = None

    def ask(self, count: int) -> list[Config]:
        batch: list[int] = []
        while len(batch) < count and self._grid.free.any():
            row = self._next()
            self._start(row)
            batch.append(row)
        return [self._grid.config(row) for row in batch]

    def tell(self, config: Config, value: float | None) -> None:
        """The first word on a configuration stands; one that is not of this space says nothing about it."""
        row = self._grid.space.index(config)
        if row is None or row in self._told:
            return
        self._told.add(row)
        if row not in self._running:
            self._start(row)
        if value is None:
            self._failed.append(row)
        else:
            self._worst = value if self._worst is None else max(self._worst, value)
            self._finish(row, value)
        # TPE learns to avoid failures as worse than the worst so far. Before the first value nothing says what is bad:
        # till then failures stay under way, and so avoided.
        while self._failed and self._worst is not None:
            self._finish(self._failed.pop(), self._worst + 1.0)

    def _next(self) -> int:
        while self._first:
            row = self._first.pop(0)
            if self._grid.free[row]:
                return row
        return int(self._rng.choice(self._nearest_free(self._propose())))

    def _nearest_free(self, point: Rows) -> Rows:
        """The free rows that differ from a point of value indices in the fewest knobs."""
        free = np.flatnonzero(self._grid.free)
        differing = (self._grid.space.indices[free] != point).sum(axis=1)
        return free[differing == differing.min()] if len(free) else free

    def _propose(self) -> Rows:
        """A point of value indices, legal or not. Its trial ends here: what it is repaired to is one of its own."""
        with quiet():
            trial = self._study.ask(self._distributions)
            self._study.tell(trial, state=TrialState.FAIL)
        self._trials += 1
        return np.array([trial.params[number] for number in self._distributions], np.int64)

    def _start(self, row: int) -> None:
        self._grid.take(row)
        values = [int(index) for index in self._grid.space.indices[row]]
        self._study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.RUNNING,
                params=dict(zip(self._distributions, values, strict=True)),
                distributions=self._distributions,
            )
        )
        self._running[row] = self._trials
        self._trials += 1

    def _finish(self, row: int, value: float) -> None:
        with quiet():
            self._study.tell(self._running.pop(row), value)
