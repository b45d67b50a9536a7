"""What is likely to be fast, judged by what was timed: a Gaussian process over rows that are more or less alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotuner.search.likeness import Floats, Likeness, Singles

NUGGET = 0.01
"""The share of variance taken for noise; it also keeps the equations solvable."""
GOOD = 0.5
"""The share of results whose values are told apart."""
BOLDNESS = 1.0
"""How many standard deviations an unknown row is given the benefit of."""


class Surrogate:
    """Times are alike where rows are.

    All knobs count alike. Weights that followed the likelihood of what was seen were tried in replay: no better
    after 100 evaluations, worse after 200. A likeness by the distance over all knobs together was worse after 100.
    """

    def __init__(self, likeness: Likeness, *, boldness: float = BOLDNESS, good: float = GOOD) -> None:
        self._likeness, self._boldness, self._good = likeness, boldness, good

    def choose(self, known: Singles, values: Floats, rows: Singles, *, pending: int, count: int) -> list[int]:
        """The most promising of some rows, best first; the first `pending` of them are under way already.

        What is under way or chosen has no value yet, but it makes its surroundings less unknown: that spreads a batch.
        """
        belief = _Belief.of(self._likeness, known, standardized(values, good=self._good), rows)
        open_ = np.arange(len(rows)) >= pending
        for row in range(pending):
            belief.expect(row)
        chosen: list[int] = []
        while len(chosen) < count and open_.any():
            score = self._boldness * belief.deviation - belief.mean
            best = int(np.where(open_, score, -np.inf).argmax())
            open_[best] = False
            chosen.append(best)
            belief.expect(best)
        return chosen


def standardized(values: Floats, *, good: float = GOOD) -> Floats:
    """All but the best count as equally bad: how bad they are says nothing about the best, and in a space that
    spans a factor of a hundred it would drown what does. A failure (NaN) is one of them."""
    worked = np.sort(values[~np.isnan(values)])
    worst = np.interp(good * (len(worked) - 1), np.arange(len(worked)), worked)  # a tenth of what np.nanquantile takes
    clipped = np.fmin(values, worst)
    target: Floats = (clipped - clipped.mean()) / (float(clipped.std()) or 1.0)
    return target


@dataclass
class _Belief:
    """What the values at some points say of others."""

    likeness: Likeness
    rows: Singles
    near: Singles
    """Covariance of the rows with the known points."""
    mean: Floats
    scale: float
    _explained: Floats
    _variance: Floats
    _expected: list[Floats]

    @classmethod
    def of(cls, likeness: Likeness, known: Singles, target: Floats, rows: Singles) -> _Belief:
        covariance = likeness.between(known, known) + NUGGET * np.eye(len(known))
        inverse = np.linalg.inv(covariance).astype(np.float64)
        near = likeness.between(rows, known)
        explained = near @ inverse
        scale = max(float(target @ inverse @ target) / len(target), 1e-6)
        variance = 1.0 - np.einsum("ij,ij->i", explained, near)
        return cls(likeness, rows, near, explained @ target, scale, explained, variance, [])

    @property
    def deviation(self) -> Floats:
        deviation: Floats = np.sqrt(self.scale * np.maximum(self._variance, 1e-9))
        return deviation

    def expect(self, row: int) -> None:
        """From here on this row counts as known: its value will be what is believed of it."""
        shared = self.likeness.between(self.rows, self.rows[row : row + 1])[:, 0] - self._explained @ self.near[row]
        for earlier in self._expected:
            shared -= earlier * earlier[row]
        shared /= np.sqrt(max(float(self._variance[row]), 1e-6) + NUGGET)
        self._expected.append(shared)
        self._variance = self._variance - shared**2
