"""A space laid out for the search: value indices by column, and which rows are taken."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotuner.space.table import Config, Space

Rows = npt.NDArray[np.int64]


class Grid:
    """The legal rows, those of them that were never proposed, and distances between them.

    Columns lie one after the other in memory: every question here is asked of whole columns, once or more a
    candidate, and that is what keeps it near a millisecond for tens of thousands of rows.
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
        self._steps = np.array([1.0 / max(len(k.values) - 1, 1) if k.ordered else 0.0 for k in self.knobs], np.float32)

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

    def nearest_free(self, point: Rows) -> Rows:
        """The free rows that differ from a point of value indices in the fewest knobs."""
        differing = np.zeros(len(self), np.int16)
        for column, wanted in zip(self.columns, point, strict=True):
            differing += column != wanted
        differing[~self.free] = len(self.knobs) + 1
        smallest = differing.min(initial=len(self.knobs) + 1)
        return np.flatnonzero(differing == smallest) if smallest <= len(self.knobs) else np.zeros(0, np.int64)

    def around(self, row: int, *, reach: int) -> list[Rows]:
        """The rows that differ from this one in one knob, in two, and so on up to `reach`."""
        differing = np.zeros(len(self), np.int16)
        for column in self.columns:
            differing += column != column[row]
        return [np.flatnonzero(differing == knobs) for knobs in range(1, reach + 1)]

    def distances(self, rows: Rows, others: Rows) -> npt.NDArray[np.float64]:
        """How unlike: each knob that differs counts a half, and up to as much again for how far, if ordered."""
        total = np.zeros((len(rows), len(others)))
        for column, step in zip(self.columns, self._steps, strict=True):
            apart = np.abs(column[rows][:, None] - column[others][None, :])
            total += (apart > 0) * 0.5 + apart * (0.5 * step) if step else apart > 0
        return total
