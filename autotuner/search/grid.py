"""A space laid out for the search: value indices by column, and which rows are taken."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotuner.space.table import Config, Space

Rows = npt.NDArray[np.int64]


class Grid:
    """The legal rows, those of them that were never proposed, and distances between them.

    Columns lie one after the other in memory: every question here is asked of whole columns, once or more a
    candidate, and that is what keeps it well under a millisecond for tens of thousands of rows.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.knobs = space.knobs
        frame = space.frame()
        columns = []
        for knob in self.knobs:
            position = {value: index for index, value in enumerate(knob.values)}
            columns.append(frame[knob.name].map(position).to_numpy(np.int16))
        self.columns = np.stack(columns) if columns else np.zeros((0, len(space)), np.int16)
        self.free = np.ones(len(space), bool)
        self._steps = np.array(
            [1.0 / max(len(k.values) - 1, 1) if k.ordered else 0.0 for k in self.knobs], np.float32
        )

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

    def nearest_free(self, point: npt.NDArray[np.int64], rng: np.random.Generator) -> int | None:
        """The row nearest to a point of value indices that is still free; ties are broken by the dice."""
        free = np.flatnonzero(self.free)
        if not len(free):
            return None
        distance = np.zeros(len(self), np.float32)
        for column, wanted, step in zip(self.columns, point, self._steps, strict=True):
            if step:
                distance += np.abs(column - np.int16(wanted)) * step
            else:
                distance += column != wanted
        distance = distance[free]
        return int(rng.choice(free[distance <= distance.min() + 1e-6]))

    def neighbours(self, row: int) -> Rows:
        """Every row that differs from this one in exactly one knob."""
        differing = np.zeros(len(self), np.int16)
        for column in self.columns:
            differing += column != column[row]
        return np.flatnonzero(differing == 1)
