"""Learns from earlier runs: predicts this shape's times from those of other shapes.

One Gaussian process over all of them predicts the times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotuner.search.model import Rows, Similarity, Singles, standardized
from autotuner.space.table import Config, Space, Value

SUGGESTED = 20
"""Configurations that come from earlier runs."""
RUNS = 20
"""The most runs that are used, the nearest ones."""
RESULTS = 40
"""The most results of each run."""
FASTEST = RESULTS // 2
"""The fastest among these; the others are an even sample of the rest."""
LEAST = 8
"""The fewest results of a useful run."""
CONSIDERED = 1000
"""The largest space that is ranked whole."""
SAMPLED = CONSIDERED // 2
"""For a larger one: random rows, rounds, and best rows. Random rows and earlier winners are ranked, then in each round
the neighbours in one knob of the best: the result is nearly as good as a full ranking."""
ROUNDS = 3
PARENTS = 10
_OTHER_TYPES = 2.0
"""The distance between types, in doublings of a size."""
_SHARED = 0.5
"""The similarity of two configurations that differ in one knob: less than in a search, as more is known."""
_REACH = 1.0
"""The distance in doublings at which results count as e times as noisy as those of the same shape."""
_NOISE = 0.05
"""The share of noise in the variance of results of the same shape."""


@dataclass(frozen=True)
class Shape:
    """The kind, types and sizes of a kernel, by which runs are compared."""

    kind: str
    """IREE's kind of operation: contraction, convolution, attention."""
    types: tuple[str, ...]
    sizes: Mapping[str, int]
    """The product of its loops, by role."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Shape:
        sizes = {str(role): int(size) for role, size in document["sizes"].items()}
        return cls(str(document["kind"]), tuple(str(name) for name in document["types"]), sizes)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "types": list(self.types), "sizes": dict(self.sizes)}

    def distance(self, other: Shape) -> float:
        """The distance in doublings of sizes; infinite where shapes cannot be compared."""
        if self.kind != other.kind or self.sizes.keys() != other.sizes.keys():
            return math.inf
        apart = [math.log2(max(size, 1) / max(other.sizes[role], 1)) for role, size in self.sizes.items()]
        return math.hypot(*apart, _OTHER_TYPES if self.types != other.types else 0.0)


@dataclass(frozen=True)
class EarlierRun:
    """The results of an earlier run."""

    name: str
    shape: Shape
    configs: Sequence[Mapping[str, Value]]
    us: Sequence[float]

    @property
    def kept(self) -> EarlierRun:
        """The run with only the results that are used, the fastest first."""
        places = kept(self.us)
        return replace(self, configs=[self.configs[one] for one in places], us=[self.us[one] for one in places])


@dataclass(frozen=True)
class Suggestions:
    """Configurations to begin with, the most promising first, and the runs that they come from."""

    configs: tuple[Config, ...] = ()
    sources: tuple[str, ...] = ()


def suggest(space: Space, shape: Shape, earlier: Sequence[EarlierRun], *, count: int = SUGGESTED) -> Suggestions:
    """The fastest configurations by the prediction of near runs, after the winner of a run on the same shape."""
    near = [(shape.distance(run.shape), run) for run in earlier if _has_knobs_of(space, run)]
    near = sorted((pair for pair in near if math.isfinite(pair[0])), key=lambda pair: pair[0])[:RUNS]
    if not near or not len(space):
        return Suggestions()
    best = [_row(space, run.configs[int(np.argmin(run.us))]) for _, run in near]
    known = [(distance, run.kept) for distance, run in near if len(run.us) >= LEAST]
    ranked = _ranked(space, Prediction(space, known), best) if known else []
    same = [row for row, (distance, _) in zip(best, near, strict=True) if not distance][:1]
    chosen = list(dict.fromkeys([*same, *ranked, *best]))[:count]
    return Suggestions(tuple(space[row] for row in chosen), tuple(run.name for _, run in near))


def _has_knobs_of(space: Space, run: EarlierRun) -> bool:
    own = {knob.name for knob in space.knobs}
    return bool(run.us) and 2 * len(own & {*run.configs[0]}) > len(own)


def _row(space: Space, config: Mapping[str, Value]) -> int:
    row = space.index(Config.of(config))
    return space.nearest(config) if row is None else row


def kept(us: Sequence[float]) -> list[int]:
    """The indices of a run's results that are used, the fastest first."""
    order = np.argsort(us, kind="stable")
    if len(order) > RESULTS:
        rest = np.linspace(FASTEST, len(order) - 1, RESULTS - FASTEST).astype(np.int64)
        order = np.concatenate([order[:FASTEST], order[rest]])
    return [int(place) for place in order]


def _ranked(space: Space, prediction: Prediction, best: Sequence[int]) -> list[int]:
    """Rows by predicted time, the fastest first."""
    if len(space) <= CONSIDERED:
        rows = np.arange(len(space), dtype=np.int64)
        return _sorted(rows, prediction.of(rows))
    rows = np.union1d(space.sample(SAMPLED, np.random.default_rng(0)), np.array(best, np.int64))
    predicted, seen = prediction.of(rows), set[int]()
    for _ in range(ROUNDS):
        parents = [row for row in _sorted(rows, predicted)[:PARENTS] if row not in seen]
        seen.update(parents)
        around = [space.around(row)[0] for row in parents]
        new = np.setdiff1d(np.concatenate([np.zeros(0, np.int64), *around]), rows)
        if not len(new):
            break
        rows, predicted = np.concatenate([rows, new]), np.concatenate([predicted, prediction.of(new)])
    return _sorted(rows, predicted)


def _sorted(rows: Rows, predicted: Singles) -> list[int]:
    return [int(row) for row in rows[np.argsort(predicted, kind="stable")]]


class Prediction:
    """Predicts times from results relative to their own shape; nearer shapes count as less noisy."""

    def __init__(self, space: Space, known: Sequence[tuple[float, EarlierRun]]) -> None:
        """`known` are runs, each with how far its shape is from this one."""
        self._space = space
        self._likeness = Similarity(space.knobs, shared=_SHARED)
        features = self._likeness.configs([config for _, run in known for config in run.configs])
        self._toward = self._likeness.toward(features)
        values = np.concatenate([standardized(np.log(run.us)) for _, run in known])
        noise = [np.full(len(run.us), _NOISE * math.exp(distance / _REACH)) for distance, run in known]
        covariance = self._alike(features) + np.diag(np.concatenate(noise))
        self._weights: Singles = np.linalg.solve(covariance, values).astype(np.float32)

    def of(self, rows: Rows) -> Singles:
        """The predicted times of rows, without a unit: less is faster."""
        features = self._likeness.rows(self._space.indices[rows])
        predicted: Singles = self._alike(features) @ self._weights
        return predicted

    def _alike(self, features: Singles) -> Singles:
        """The similarity of configurations to the known ones."""
        logs: Singles = features @ self._toward
        np.exp(logs, out=logs)
        return logs
