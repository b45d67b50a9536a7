"""Optuna's TPE over the knobs of a grid, by ask and tell, in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

from autotuner.search.grid import Grid, Rows


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna reports each study and warns of what is experimental; neither is news to who tunes a kernel."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


class Tpe:
    """Proposes points of value indices, legal or not, and is told of the rows that really ran.

    Every knob is categorical, ordered ones too: in replay that found better rows, and at a third of the
    cost. Rows under way are RUNNING trials, so that Optuna's constant liar keeps the rest of a batch off them.
    """

    def __init__(self, grid: Grid, *, seed: int) -> None:
        self._grid = grid
        # Knobs go by number: a name may be anything, and indices of values are all that TPE needs.
        self._distributions: dict[str, BaseDistribution] = {
            str(number): CategoricalDistribution(range(len(knob.values))) for number, knob in enumerate(grid.knobs)
        }
        with _quiet():
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1)
            self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._trials = 0
        self._running: dict[int, int] = {}
        self._failed: list[int] = []
        self._worst: float | None = None

    def propose(self) -> Rows:
        """A point to try. Its trial ends here: what it is repaired to enters by `start`, as a trial of its own."""
        with _quiet():
            trial = self._study.ask(self._distributions)
            self._study.tell(trial, state=TrialState.FAIL)
        self._trials += 1
        return np.array([trial.params[number] for number in self._distributions], np.int64)

    def start(self, row: int) -> None:
        """This row is under way."""
        values = [int(column[row]) for column in self._grid.columns]
        self._study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.RUNNING,
                params=dict(zip(self._distributions, values, strict=True)),
                distributions=self._distributions,
            )
        )
        self._running[row] = self._trials
        self._trials += 1

    def finish(self, row: int, value: float | None) -> None:
        """This row came to a value, or failed: which TPE learns to avoid as worse than the worst so far."""
        if row not in self._running:
            self.start(row)
        if value is not None:
            self._worst = value if self._worst is None else max(self._worst, value)
            self._tell(row, value)
        else:
            self._failed.append(row)
        # Before the first value nothing says what is bad: till then failures stay under way, and so avoided.
        while self._failed and self._worst is not None:
            self._tell(self._failed.pop(), self._worst + 1.0)

    def _tell(self, row: int, value: float) -> None:
        with _quiet():
            self._study.tell(self._running.pop(row), value)
