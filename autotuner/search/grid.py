"""A search space for samplers: Optuna's parameters, the proposed rows, and neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from autotuner.search.model import Rows
from autotuner.space.table import Config, Space, Value

NONE: Rows = np.zeros(0, np.int64)


class Grid:
    """The legal rows, and those not proposed yet. No query takes longer in a larger space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.choices = {knob.name: knob.values for knob in space.knobs if len(knob.values) > 1}
        self._fixed = {knob.name: knob.values[0] for knob in space.knobs}
        self.free = np.ones(len(space), bool)
        self._around: dict[int, tuple[Rows, Rows]] = {}
        self._places = np.zeros(len(space), np.int64)
        """Of rows among others, for a moment: numpy's sets take several times as long."""

    def __len__(self) -> int:
        return len(self.space)

    def row_of(self, params: Mapping[str, Any]) -> int | None:
        """The row of a trial; None: it is not legal here, or unknown."""
        if not params.keys() >= self.choices.keys():
            return None
        return self.space.index(Config.of({**self._fixed, **params}))

    def params(self, row: int) -> dict[str, Value]:
        """The trial parameters of a row."""
        config = self.space[row].as_dict()
        return {name: config[name] for name in self.choices}

    def take(self, row: int) -> None:
        self.free[row] = False

    def random_free(self, count: int, rng: np.random.Generator) -> Rows:
        """About `count` random rows that were not proposed; all of them when few are left."""
        rolls = np.unique(rng.integers(len(self), size=count)) if len(self) else np.zeros(0, np.int64)
        rolls = rolls[self.free[rolls]]
        if len(rolls):
            return rng.permutation(rolls)
        return rng.permutation(np.flatnonzero(self.free))[:count]

    def free_of(self, parts: Sequence[Rows], *, but: Rows = NONE) -> Rows:
        """The rows of `parts` that were not proposed, once and in order, without those of `but`."""
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


class WholeSampler(BaseSampler):
    """Chooses all knobs at once, since legality depends on all.

    Numbers are categories, too: in replay TPE found better rows that way, at a third of the cost.
    """

    def __init__(self, grid: Grid, *, category: type[CategoricalDistribution] = CategoricalDistribution) -> None:
        self._grid = grid
        self.distributions: dict[str, BaseDistribution] = {
            name: category(values) for name, values in grid.choices.items()
        }

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        del study, trial
        return self.distributions

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        del study, trial, param_distribution
        raise ValueError(f"{param_name} is no knob of the space that is searched")
