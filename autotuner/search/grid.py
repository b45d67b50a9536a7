"""A space laid out for the search: which rows are taken, what is near, and rows as numbers for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotuner.space.table import Config, Knob, Space, Value

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Grid:
    """The legal rows and those of them that were never proposed. No question here costs more in a larger space,
    but for `nearest_free`."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.knobs = space.knobs
        self.free = np.ones(len(space), bool)
        self._around: dict[int, tuple[Rows, Rows]] = {}
        self._ordered = [knob.ordered for knob in self.knobs]

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

    def around(self, row: int) -> tuple[Rows, Rows]:
        """The rows that differ from this one in one knob, and in two."""
        if row not in self._around:
            self._around[row] = self.space.around(row)
        return self._around[row]

    def features(self, rows: Rows) -> Floats:
        """An ordered knob is its place between 0 and 1; two values of another are 1 apart."""
        return self._features(self.space.indices[rows].astype(np.float64))

    def features_of(self, configs: Sequence[Mapping[str, Value]]) -> Floats:
        """The same of configurations of another space; what this one does not know is unlike all that it has."""
        places = [[_place(knob, config.get(knob.name)) for knob in self.knobs] for config in configs]
        return self._features(np.array(places, np.float64).reshape(len(configs), len(self.knobs)))

    def _features(self, places: Floats) -> Floats:
        columns = [np.zeros((len(places), 0))]
        for knob, ordered, place in zip(self.knobs, self._ordered, places.T, strict=True):
            if ordered:
                columns.append(place[:, None] / max(len(knob.values) - 1, 1))
            else:
                columns.append((place[:, None] == np.arange(len(knob.values))) * np.sqrt(0.5))
        return np.concatenate(columns, axis=1)

    def nearest_free(self, point: Rows) -> Rows:
        """The free rows that differ from a point of value indices in the fewest knobs."""
        free = np.flatnonzero(self.free)
        differing = (self.space.indices[free] != point).sum(axis=1)
        return free[differing == differing.min()] if len(free) else free


def _place(knob: Knob, value: Value | None) -> float:
    """Where a value lies among a knob's; between two of them, or at an end, when it is none of them."""
    if not knob.ordered:
        return float(knob.values.index(value)) if value in knob.values else -1.0
    if not isinstance(value, int):
        return 0.0
    return float(np.interp(value, [int(v) for v in knob.values], range(len(knob.values))))
