"""What is likely to be fast, judged by what was timed: a Gaussian process that learns which knobs matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotuner.search.grid import Floats, Rows

NUGGET = 0.01
"""The share of variance taken for noise; it also keeps the equations solvable."""
GOOD = 0.5
"""The share of results whose values are told apart."""
BOLDNESS = 0.5
"""How many standard deviations an unknown row is given the benefit of."""
RATE = 0.3
"""How far a weight may move in one step of learning, in its logarithm."""
RESTRAINT = 0.1
"""How hard the weights are drawn back to 1 while there is little to learn from."""
_MOMENTUM, _SCALING = 0.7, 0.9
_LEAST, _MOST = -3.0, 3.0
_SQRT5 = np.sqrt(5.0)


class Surrogate:
    """Times are alike where rows are; how much a knob counts for that is learned, one step for each choice."""

    def __init__(self, knob_of: Rows, *, boldness: float = BOLDNESS, rate: float = RATE, good: float = GOOD) -> None:
        self._knob_of = knob_of
        self._boldness, self._rate, self._good = boldness, rate, good
        knobs = int(knob_of.max(initial=-1)) + 1
        self._log_weights = np.zeros(knobs)
        self._slope, self._square = np.zeros(knobs), np.zeros(knobs)
        self._steps = 0

    def choose(self, known: Floats, values: Floats, rows: Floats, *, pending: int, count: int) -> list[int]:
        """The most promising of some rows, best first; the first `pending` of them are under way already.

        What is under way or chosen has no value yet, but it makes its surroundings less unknown: that spreads a batch.
        """
        belief = _Belief.of(known * self._weights, self._target(values), rows * self._weights)
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
        if self._rate:
            self._learn(belief)
        return chosen

    def predict(self, known: Floats, values: Floats, rows: Floats, *, steps: int) -> Floats:
        """What the values say of other rows, in their own units, after so many steps of learning."""
        target, none = self._target(values), rows[:0]
        for _ in range(steps):
            self._learn(_Belief.of(known * self._weights, target, none))
        belief = _Belief.of(known * self._weights, target, rows * self._weights)
        clipped = np.fmin(values, np.nanquantile(values, self._good))
        mean: Floats = belief.mean * float(clipped.std()) + float(clipped.mean())
        return mean

    @property
    def _weights(self) -> Floats:
        weights: Floats = np.exp(self._log_weights)[self._knob_of]
        return weights

    def _target(self, values: Floats) -> Floats:
        """All but the best count as equally bad: how bad they are says nothing about the best, and in a space that
        spans a factor of a hundred it would drown what does. A failure (NaN) is one of them."""
        worst = np.nanquantile(values, self._good)
        clipped = np.fmin(values, worst)
        target: Floats = (clipped - clipped.mean()) / (float(clipped.std()) or 1.0)
        return target

    def _learn(self, belief: _Belief) -> None:
        """One step up the likelihood of what was seen (Adam's rule), weight by weight."""
        by_feature = belief.slopes()
        slope = np.bincount(self._knob_of, by_feature, minlength=len(self._log_weights))
        slope -= RESTRAINT * self._log_weights * np.sqrt(len(belief.target))
        self._steps += 1
        self._slope = _MOMENTUM * self._slope + (1 - _MOMENTUM) * slope
        self._square = _SCALING * self._square + (1 - _SCALING) * slope**2
        mean = self._slope / (1 - _MOMENTUM**self._steps)
        size = np.sqrt(self._square / (1 - _SCALING**self._steps)) + 1e-3
        self._log_weights = np.clip(self._log_weights + self._rate * mean / size, _LEAST, _MOST)


@dataclass
class _Belief:
    """What the values at some points say of others, points being features times weights."""

    known: Floats
    target: Floats
    inverse: Floats
    """Of the known points' covariance."""
    rows: Floats
    near: Floats
    """Covariance of the rows with the known points."""
    mean: Floats
    scale: float
    _explained: Floats
    _variance: Floats
    _expected: list[Floats]

    @classmethod
    def of(cls, known: Floats, target: Floats, rows: Floats) -> _Belief:
        covariance = _matern(_distances(known, known)) + NUGGET * np.eye(len(known))
        inverse = np.linalg.inv(covariance).astype(np.float64)
        near = _matern(_distances(rows, known))
        explained = near @ inverse
        scale = max(float(target @ inverse @ target) / len(target), 1e-6)
        variance = 1.0 - np.einsum("ij,ij->i", explained, near)
        return cls(known, target, inverse, rows, near, explained @ target, scale, explained, variance, [])

    @property
    def deviation(self) -> Floats:
        deviation: Floats = np.sqrt(self.scale * np.maximum(self._variance, 1e-9))
        return deviation

    def expect(self, row: int) -> None:
        """From here on this row counts as known: its value will be what is believed of it."""
        shared = _matern(_distances(self.rows, self.rows[row : row + 1]))[:, 0] - self._explained @ self.near[row]
        for earlier in self._expected:
            shared -= earlier * earlier[row]
        shared /= np.sqrt(max(float(self._variance[row]), 1e-6) + NUGGET)
        self._expected.append(shared)
        self._variance = self._variance - shared**2

    def slopes(self) -> Floats:
        """Of the log likelihood, by the logarithm of each feature's weight."""
        pull = self.inverse @ self.target
        by_kernel = 0.5 * (np.outer(pull, pull) / self.scale - self.inverse)
        by_square = by_kernel * _matern_slope(_distances(self.known, self.known))
        total = by_square.sum(axis=1)[:, None] * self.known**2 - self.known * (by_square @ self.known)
        slopes: Floats = 4.0 * total.sum(axis=0)
        return slopes


def _distances(some: Floats, others: Floats) -> Floats:
    squares = (some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)[None, :] - 2.0 * some @ others.T
    distances: Floats = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _matern(distances: Floats) -> Floats:
    """Covariance by distance (Matérn 5/2): smooth, and not so smooth that one cliff spoils the rest."""
    scaled = _SQRT5 * distances
    kernel: Floats = (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)
    return kernel


def _matern_slope(distances: Floats) -> Floats:
    """Of `_matern`, by the square of the distance."""
    scaled = _SQRT5 * distances
    slope: Floats = -(5.0 / 6.0) * (1.0 + scaled) * np.exp(-scaled)
    return slope
