"""How alike configurations are: what a model of their times knows about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotuner.space.table import ABSENT, Knob, Value

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
"""Likenesses only rank: half the digits choose the same rows in less time."""

SHARED = 0.7
"""What two configurations have in common, at the least, when they differ in one knob, however much."""


class Likeness:
    """A factor for each knob: 1 where two rows agree, less the farther their values are apart.

    No factor is less than `shared`: the other knobs still tell something of a row that is far away in one of them.
    Knobs of numbers go by the place of a value among the others; of the rest two values are alike or they are not, and
    so is the absence of a knob.
    """

    def __init__(self, knobs: Sequence[Knob], *, shared: float = SHARED) -> None:
        self._knobs = knobs
        widths = [len(knob.values) + 1 for knob in knobs]  # one place for values of other spaces
        self._first = np.cumsum([0, *widths], dtype=np.int64)
        self._logs = np.zeros((int(self._first[-1]),) * 2, np.float32)
        """For two knob values, the logarithm of their factor; of different knobs, nothing."""
        for knob, first, width in zip(knobs, self._first, widths, strict=False):
            factor = np.log(shared + (1.0 - shared) * _alike(knob))
            self._logs[first : first + width, first : first + width] = factor

    def rows(self, indices: npt.NDArray[np.integer]) -> Singles:
        """Rows of value indices as a model takes them: a 1 for each value that they have."""
        features = np.zeros((len(indices), len(self._logs)), np.float32)
        features[np.arange(len(indices))[:, None], indices + self._first[:-1]] = 1.0
        return features

    def configs(self, configs: Sequence[Mapping[str, Value]]) -> Singles:
        """The same of configurations of another space; what this one does not know is unlike all that it has."""
        features = np.zeros((len(configs), len(self._logs)), np.float32)
        for knob, first, last in zip(self._knobs, self._first, self._first[1:], strict=False):
            places: dict[Value | None, int] = {}
            chosen = [places.setdefault(config.get(knob.name), len(places)) for config in configs]
            features[:, first:last] = np.array([_shares(knob, value) for value in places])[chosen]
        return features

    def toward(self, others: Singles) -> Singles:
        """What rows are multiplied with for the logarithms of their likeness to others."""
        toward: Singles = self._logs @ others.T
        return toward

    def between(self, some: Singles, others: Singles) -> Singles:
        likeness: Singles = np.exp(some @ self.toward(others))
        return likeness


def _alike(knob: Knob) -> Floats:
    """Of two values, and of the one for which there is no place."""
    count = len(knob.values)
    alike = np.eye(count + 1)
    if knob.ordered:
        first = int(count > 1 and knob.values[0] == ABSENT)
        place = np.arange(count - first)
        apart = np.abs(place[:, None] - place[None, :]) / max(count - first - 1, 1)
        alike[first:count, first:count] = np.exp(-apart)
    return alike


def _shares(knob: Knob, value: Value | None) -> list[float]:
    """By a knob's values, and last by what is none of them: which one a value is, or which two it lies between."""
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
