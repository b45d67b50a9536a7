"""A Gaussian process over configurations: their similarity, and the choice of promising rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotuner.space.table import ABSENT, Knob, Value

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
"""Single precision: similarities only rank, so half the digits choose the same rows in less time."""

NUGGET = 0.01
"""The share of noise in the variance; it also keeps the equations solvable."""
GOOD = 0.5
"""The share of results whose values are distinguished."""


class Similarity:
    """The similarity of rows: a factor for each knob, 1 where they agree, less for distant values.

    No factor is less than `shared`: the other knobs still tell something of a row that is far away in one of them.
    Knobs of numbers go by the place of a value among the others; of the rest two values are alike or they are not, and
    so is the absence of a knob.
    """

    def __init__(self, knobs: Sequence[Knob], *, shared: float) -> None:
        self._knobs = knobs
        widths = [len(knob.values) + 1 for knob in knobs]  # one place for values of other spaces
        self._first = np.cumsum([0, *widths], dtype=np.int64)
        self._logs = np.zeros((int(self._first[-1]),) * 2, np.float32)
        """For two knob values, the logarithm of their factor; of different knobs, nothing."""
        for knob, first, width in zip(knobs, self._first, widths, strict=False):
            factor = np.log(shared + (1.0 - shared) * _alike(knob))
            self._logs[first : first + width, first : first + width] = factor

    def rows(self, indices: npt.NDArray[np.integer]) -> Singles:
        """Rows of value indices in one-hot encoding."""
        features = np.zeros((len(indices), len(self._logs)), np.float32)
        features[np.arange(len(indices))[:, None], indices + self._first[:-1]] = 1.0
        return features

    def configs(self, configs: Sequence[Mapping[str, Value]]) -> Singles:
        """Configurations of another space in this encoding; unknown values are unlike all others."""
        features = np.zeros((len(configs), len(self._logs)), np.float32)
        for knob, first, last in zip(self._knobs, self._first, self._first[1:], strict=False):
            places: dict[Value | None, int] = {}
            chosen = [places.setdefault(config.get(knob.name), len(places)) for config in configs]
            features[:, first:last] = np.array([_shares(knob, value) for value in places])[chosen]
        return features

    def toward(self, others: Singles) -> Singles:
        """The matrix that gives log similarities to other rows by a product."""
        toward: Singles = self._logs @ others.T
        return toward

    def between(self, some: Singles, others: Singles) -> Singles:
        likeness: Singles = np.exp(some @ self.toward(others))
        return likeness


def _alike(knob: Knob) -> Floats:
    """The similarities of a knob's values, and of unknown ones."""
    count = len(knob.values)
    alike = np.eye(count + 1)
    if knob.ordered:
        first = int(count > 1 and knob.values[0] == ABSENT)
        place = np.arange(count - first)
        apart = np.abs(place[:, None] - place[None, :]) / max(count - first - 1, 1)
        alike[first:count, first:count] = np.exp(-apart)
    return alike


def _shares(knob: Knob, value: Value | None) -> list[float]:
    """The weights of a value over a knob's values (itself, or the two that it lies between), and last over unknown."""
    shares = [0.0] * (len(knob.values) + 1)
    present = [int(v) for v in knob.values if v != ABSENT] if knob.ordered else []
    if value in knob.values:
        shares[knob.values.index(value)] = 1.0
    elif not isinstance(value, int) or value == ABSENT or not present:
        shares[-1] = 1.0
    else:
        place = float(np.interp(value, present, range(len(present)))) + len(knob.values) - len(present)
        below, share = int(place), place % 1.0
        shares[below] = 1.0 - share
        shares[below + 1] += share
    return shares


class Surrogate:
    """A model of times by similarity of rows.

    All knobs count alike. Weights that followed the likelihood of what was seen were tried in replay: no better
    after 100 evaluations, worse after 200. A likeness by the distance over all knobs together was worse after 100.
    """

    def __init__(self, likeness: Similarity, *, boldness: float, good: float = GOOD) -> None:
        self._likeness, self._boldness, self._good = likeness, boldness, good

    def choices(self, known: Singles, values: Floats, rows: Singles, *, pending: int) -> Iterator[int]:
        """The most promising rows; the first `pending` of them are under way already.

        What is under way or chosen has no value yet, but it makes its surroundings less unknown: that spreads a batch.
        """
        belief = _Posterior.of(self._likeness, known, standardized(values, good=self._good), rows)
        open_ = np.arange(len(rows)) >= pending
        for row in range(pending):
            belief.expect(row)
        while open_.any():
            score = self._boldness * belief.deviation - belief.mean
            best = int(np.where(open_, score, -np.inf).argmax())
            open_[best] = False
            yield best
            belief.expect(best)


def standardized(values: Floats, *, good: float = GOOD) -> Floats:
    """Standardized values in which all but the best are equally bad: in a space that spans a factor of a hundred, their
    differences would drown those of the best. A failure (NaN) is bad, too."""
    worked = np.sort(values[~np.isnan(values)])
    worst = np.interp(good * (len(worked) - 1), np.arange(len(worked)), worked)  # a tenth of what np.nanquantile takes
    clipped = np.fmin(values, worst)
    target: Floats = (clipped - clipped.mean()) / (float(clipped.std()) or 1.0)
    return target


@dataclass
class _Posterior:
    """The posterior at some rows, given known values."""

    likeness: Similarity
    rows: Singles
    near: Singles
    """Covariance of the rows with the known points."""
    mean: Floats
    scale: float
    _explained: Floats
    _variance: Floats
    _expected: list[Floats]

    @classmethod
    def of(cls, likeness: Similarity, known: Singles, target: Floats, rows: Singles) -> _Posterior:
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
        """Treats a row as known, with its expected value."""
        shared = self.likeness.between(self.rows, self.rows[row : row + 1])[:, 0] - self._explained @ self.near[row]
        for earlier in self._expected:
            shared -= earlier * earlier[row]
        shared /= np.sqrt(max(float(self._variance[row]), 1e-6) + NUGGET)
        self._expected.append(shared)
        self._variance = self._variance - shared**2
