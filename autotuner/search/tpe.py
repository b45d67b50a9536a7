"""Optuna's TPE over the knobs of a grid, by ask and tell, in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from autotuner.search.grid import Grid

ORDINAL = False
FAIL = "worst"

@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna reports each study and warns of each experiment; neither is news to who tunes a kernel."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


class Tpe:
    """Proposes points of value indices, legal or not; is told what really ran.

    Rows under way are RUNNING trials, so that the liar keeps the next proposals of a batch away from them.
    """

    def __init__(self, grid: Grid, *, seed: int) -> None:
        self._grid = grid
        self._distributions: dict[str, BaseDistribution] = {
            knob.name: IntDistribution(0, len(knob.values) - 1)
            if ORDINAL and knob.ordered
            else CategoricalDistribution(range(len(knob.values)))
            for knob in grid.knobs
        }
        with _quiet():
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1)
            self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._running: dict[int, int] = {}
        self._worst = -np.inf

    def propose(self) -> npt.NDArray[np.int64]:
        with _quiet():
            trial = self._study.ask(self._distributions)
            # The proposal may be illegal or taken; the row that it is repaired to enters as its own trial.
            self._study.tell(trial, state=TrialState.FAIL)
        return np.array([trial.params[knob.name] for knob in self._grid.knobs], np.int64)

    def start(self, row: int) -> None:
        params = {k.name: int(c[row]) for k, c in zip(self._grid.knobs, self._grid.columns, strict=True)}
        trial = optuna.trial.create_trial(
            state=TrialState.RUNNING, params=params, distributions=self._distributions
        )
        self._study.add_trial(trial)
        self._running[row] = len(self._study.get_trials(deepcopy=False)) - 1

    def finish(self, row: int, value: float | None) -> None:
        if row not in self._running:
            self.start(row)
        number = self._running.pop(row)
        with _quiet():
            if value is not None:
                self._worst = max(self._worst, value)
                self._study.tell(number, value)
            elif FAIL == "worst":
                self._study.tell(number, max(self._worst, 0.) + 1.0)
            else:
                self._study.tell(number, state=TrialState.FAIL)
