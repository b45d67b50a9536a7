"""What the results of other shapes predict of this one's configurations: one Gaussian process of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotuner.search.likeness import Floats, Likeness, Rows, Singles
from autotuner.search.surrogate import standardized
from autotuner.space import workgroups
from autotuner.space.table import Space, Value

_SHARED = 0.5
"""What two configurations have in common when they differ in one knob: less than in a search, for more is known."""
_REACHES = np.array([4.0, 4.0, 3.0])
"""At so many doublings of the tile's rows, its columns and the number of workgroups two kernels are 1/e as alike."""
_REACH = 1.0
"""At so many doublings the results of a run are taken for e times as noisy as those of the same shape."""
_NOISE = 0.05
"""The share of variance taken for noise in results of the same shape."""
_STEPS = 30
_CLOSE = 1e-3
"""The equations are solved until so much of them is left, in at most so many steps: more finds nothing better."""


@dataclass(frozen=True)
class Results:
    """What is known of another shape."""

    distance: float
    """Of that shape from this one, in doublings."""
    sizes: Mapping[str, int]
    configs: Sequence[Mapping[str, Value]]
    logs: Sequence[float]
    """The logarithms of their times."""


class Prediction:
    """Each result counts over those of its own shape, nearer shapes for less noisy. Configurations are alike by their
    knobs and by what these come to: the same knobs are other numbers of workgroups for another shape."""

    def __init__(self, space: Space, sizes: Mapping[str, int], known: Sequence[Results]) -> None:
        self._space, self._sizes = space, sizes
        self._likeness = Likeness(space.knobs, shared=_SHARED)
        features = self._likeness.configs([config for results in known for config in results.configs])
        # Log-likenesses add up, so that of knobs and that of tiles take one exponential.
        self._toward = self._likeness.toward(features)
        tilings = [workgroups.of_configs(results.configs, results.sizes) for results in known]
        self._tilings = _scaled(np.concatenate(tilings))
        values = np.concatenate([standardized(np.array(results.logs)) for results in known])
        noise = [np.full(len(results.logs), _NOISE * math.exp(results.distance / _REACH)) for results in known]
        covariance = self._alike(features, self._tilings)
        covariance[np.diag_indices(len(covariance))] += np.concatenate(noise).astype(np.float32)
        self._weights = _solved(covariance, values.astype(np.float32))

    def of(self, rows: Rows) -> Singles:
        """What these rows are predicted to take, in no unit: less is faster."""
        features = self._likeness.rows(self._space.indices[rows])
        tilings = _scaled(workgroups.of_rows(self._space, rows, self._sizes))
        predicted: Singles = self._alike(features, tilings) @ self._weights
        return predicted

    def _alike(self, features: Singles, tilings: Singles) -> Singles:
        """How alike some configurations are to those that are known."""
        logs: Singles = features @ self._toward
        apart = np.empty_like(logs)  # once, as fresh pages for each quantity would take most of the time
        for own, known in zip(tilings.T, self._tilings.T, strict=True):
            logs -= np.abs(np.subtract(own[:, None], known[None, :], out=apart), out=apart)
        np.exp(logs, out=logs)
        return logs


def _scaled(tilings: Floats) -> Singles:
    return np.asarray(tilings / _REACHES, np.float32)


def _solved(covariance: Singles, values: Singles) -> Singles:
    """By conjugate gradients: of 800 results a fifth of the time that a factorization takes."""
    scale: Singles = np.diagonal(covariance) ** np.float32(-0.5)
    left = values * scale
    solution, way = np.zeros_like(left), left.copy()
    length = first = float(left @ left)
    for _ in range(_STEPS):
        if length <= _CLOSE**2 * first:
            break
        image = scale * (covariance @ (scale * way))
        step = np.float32(length / float(way @ image))
        solution += step * way
        left -= step * image
        length, before = float(left @ left), length
        way = left + np.float32(length / before) * way
    return solution * scale
