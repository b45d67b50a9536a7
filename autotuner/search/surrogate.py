"""What is likely to be fast, judged by what was timed: a Gaussian process over unlikeness of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotuner.search.grid import Grid, Rows

LENGTH = 3.0
"""Over how much unlikeness (see Grid.distances) times stay alike."""
NUGGET = 0.01
"""The share of variance taken for noise; it also keeps the equations solvable."""
GOOD = 0.3
"""The share of results whose values are told apart."""
BOLDNESS = 0.5
"""How many standard deviations an unknown row is given the benefit of."""


def promise(
    grid: Grid, rows: Rows, *, known: Rows, values: npt.NDArray[np.float64], pending: Sequence[int]
) -> npt.NDArray[np.float64]:
    """A score for each row, higher for what is likelier to be fast or less known.

    All but the best count as equally bad: how bad they are says nothing about the best, and in a space that
    spans a factor of a hundred it would drown what does. Rows under way have no value yet, but
    they make their surroundings less unknown, which spreads a batch.
    """
    clipped = np.minimum(values, np.quantile(values, GOOD))
    spread = float(clipped.std()) or 1.0
    target = (clipped - clipped.mean()) / spread
    seen = np.concatenate([known, np.array(pending, np.int64)])
    near = np.exp(-grid.distances(rows, seen) / LENGTH)
    among = np.exp(-grid.distances(seen, seen) / LENGTH) + NUGGET * np.eye(len(seen))
    told = len(known)
    mean = near[:, :told] @ np.linalg.solve(among[:told, :told], target)
    explained = np.einsum("ij,ji->i", near, np.linalg.solve(among, near.T))
    deviation = np.sqrt(np.maximum(1.0 - explained, 0.0))
    score: npt.NDArray[np.float64] = BOLDNESS * deviation - mean
    return score
