"""Learning from before: what other shapes' timings say of this one's configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotuner.search.likeness import Floats, Likeness
from autotuner.search.surrogate import standardized
from autotuner.search.tiles import alike, tilings
from autotuner.space.table import Config, Space, Value

SUGGESTED = 10
"""So many configurations come from earlier runs."""
RUNS = 20
"""At most so many runs are asked, the nearest ones."""
RESULTS = 40
"""At most so many results of each: the better half, and an even sample of the rest."""
WINNERS = 1
"""So many of the nearest runs give their best before what is predicted."""
LEAST = 8
"""A run with fewer results says too little of what is good there."""
CONSIDERED = 2000
"""At most so many rows are ranked; of a larger space, a random sample and what was good before."""
_OTHER_TYPES = 2.0
"""How far apart other types are, in doublings of a size."""
_REACH = 1.0
"""At so many doublings the results of a run are taken for e times as noisy as those of the same shape."""
_SHARED = 0.5
"""What two configurations have in common when they differ in one knob: less than in a search, for more is known."""
_NOISE = 0.05
"""The share of variance taken for noise in results of the same shape."""


@dataclass(frozen=True)
class Shape:
    """What a kernel computes, as far as runs are compared by it."""

    kind: str
    """What IREE calls the operation: contraction, convolution, attention."""
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
        """In doublings of its sizes; infinite where there is nothing to compare."""
        if self.kind != other.kind or self.sizes.keys() != other.sizes.keys():
            return math.inf
        apart = [math.log2(max(size, 1) / max(other.sizes[role], 1)) for role, size in self.sizes.items()]
        return math.hypot(*apart, _OTHER_TYPES if self.types != other.types else 0.0)


@dataclass(frozen=True)
class Earlier:
    """What an earlier run timed."""

    name: str
    shape: Shape
    configs: Sequence[Mapping[str, Value]]
    us: Sequence[float]


@dataclass(frozen=True)
class Suggestions:
    """Configurations to begin with, the most promising first, and the runs that they come from."""

    configs: tuple[Config, ...] = ()
    sources: tuple[str, ...] = ()


def suggest(space: Space, shape: Shape, earlier: Sequence[Earlier], *, count: int = SUGGESTED) -> Suggestions:
    """The winner of the nearest run, then what all near runs together predict to be the fastest.

    One model knows the results of all, each over those of its own run, nearer shapes for less noisy. Configurations are
    alike by their knobs and by what these come to: the same knobs are other numbers of workgroups for another shape.
    """
    near = [(shape.distance(run.shape), run) for run in earlier if _has_knobs_of(space, run)]
    near = sorted((pair for pair in near if math.isfinite(pair[0])), key=lambda pair: pair[0])[:RUNS]
    if not near or not len(space):
        return Suggestions()
    best = [space.nearest(run.configs[int(np.argmin(run.us))]) for _, run in near]
    ranked = _ranked(space, shape, [(distance, run) for distance, run in near if len(run.us) >= LEAST], best)
    chosen = list(dict.fromkeys([*best[:WINNERS], *ranked, *best]))[:count]
    return Suggestions(tuple(space[row] for row in chosen), tuple(run.name for _, run in near))


def _has_knobs_of(space: Space, run: Earlier) -> bool:
    own = {knob.name for knob in space.knobs}
    return bool(run.us) and 2 * len(own & {*run.configs[0]}) > len(own)


def _ranked(space: Space, shape: Shape, near: Sequence[tuple[float, Earlier]], best: Sequence[int]) -> list[int]:
    """The rows by what they are predicted to take, the fastest first; none where no run has enough results."""
    if not near:
        return []
    likeness, kept = Likeness(space.knobs, shared=_SHARED), [_kept(run) for _, run in near]
    rows = np.unique(np.concatenate([_sample(space), np.array(best, np.int64)]))
    known = np.concatenate([likeness.configs(configs) for configs, _ in kept])
    known_tilings = np.concatenate(
        [tilings(configs, run.shape.sizes) for (configs, _), (_, run) in zip(kept, near, strict=True)]
    )
    values = np.concatenate([standardized(times) for _, times in kept])
    noise = np.concatenate(
        [np.full(len(times), distance) for (_, times), (distance, _) in zip(kept, near, strict=True)]
    )
    covariance = likeness.between(known, known) * alike(known_tilings, known_tilings)
    weights = np.linalg.solve(covariance + np.diag(_NOISE * np.exp(noise / _REACH)), values)
    own = tilings([space[int(row)].as_dict() for row in rows], shape.sizes)
    predicted = (likeness.between(likeness.rows(space.indices[rows]), known) * alike(own, known_tilings)) @ weights
    return [int(row) for row in rows[np.argsort(predicted, kind="stable")]]


def _sample(space: Space) -> np.ndarray[Any, np.dtype[np.int64]]:
    rows = np.arange(len(space), dtype=np.int64)
    return rows if len(rows) <= CONSIDERED else np.random.default_rng(0).choice(rows, CONSIDERED, replace=False)


def _kept(run: Earlier) -> tuple[list[Mapping[str, Value]], Floats]:
    """Configurations of a run and the logarithms of their times."""
    order, half = np.argsort(run.us, kind="stable"), RESULTS // 2
    if len(order) > RESULTS:
        rest = np.linspace(half, len(order) - 1, RESULTS - half).astype(np.int64)
        order = np.concatenate([order[:half], order[rest]])
    return [run.configs[int(place)] for place in order], np.log(np.array(run.us)[order])
