"""Learning from before: what other shapes' timings say of this one's configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotuner.search.likeness import Floats, Likeness
from autotuner.search.surrogate import Surrogate
from autotuner.space.table import Config, Space, Value

SUGGESTED = 10
"""So many configurations come from earlier runs."""
RUNS = 20
"""At most so many runs are asked, the nearest ones."""
RESULTS = 200
"""At most so many results of each: the better half, and an even sample of the rest."""
WINNERS = 3
"""So many of the nearest runs give their best."""
LEAST = 8
"""A run with fewer results has no model."""
CONSIDERED = 5000
"""At most so many rows are ranked; of a larger space, a random sample and what was good before."""
_OTHER_TYPES = 2.0
"""How far apart other types are, in doublings of a size."""
_REACH = 2.0
"""At so many doublings a run counts for 1/e of what one of the same shape would."""


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
    """The winners of the nearest runs, then what all near runs together predict to be the fastest.

    Each run has a model of its own, of times over its best. Their predictions are averaged, nearer shapes count more.
    """
    near = [(shape.distance(run.shape), run) for run in earlier if _has_knobs_of(space, run)]
    near = sorted((pair for pair in near if math.isfinite(pair[0])), key=lambda pair: pair[0])[:RUNS]
    if not near or not len(space):
        return Suggestions()
    best = [space.nearest(run.configs[int(np.argmin(run.us))]) for _, run in near]
    ranked = _ranked(space, [(distance, run) for distance, run in near if len(run.us) >= LEAST], best)
    chosen = list(dict.fromkeys([*best[:WINNERS], *ranked]))[:count]
    return Suggestions(tuple(space[row] for row in chosen), tuple(run.name for _, run in near))


def _has_knobs_of(space: Space, run: Earlier) -> bool:
    own = {knob.name for knob in space.knobs}
    return bool(run.us) and 2 * len(own & {*run.configs[0]}) > len(own)


def _ranked(space: Space, near: Sequence[tuple[float, Earlier]], best: Sequence[int]) -> list[int]:
    """The rows by what they are predicted to take, the fastest first; none where no run has enough results."""
    if not near:
        return []
    likeness = Likeness(space.knobs)
    rows = np.unique(np.concatenate([_sample(space), np.array(best, np.int64)]))
    features, predicted = likeness.rows(space.indices[rows]), np.zeros(len(rows))
    for distance, run in near:
        predicted += math.exp(-distance / _REACH) * _prediction(likeness, run, features)
    return [int(row) for row in rows[np.argsort(predicted, kind="stable")]]


def _sample(space: Space) -> np.ndarray[Any, np.dtype[np.int64]]:
    rows = np.arange(len(space), dtype=np.int64)
    return rows if len(rows) <= CONSIDERED else np.random.default_rng(0).choice(rows, CONSIDERED, replace=False)


def _prediction(likeness: Likeness, run: Earlier, rows: Floats) -> Floats:
    """The logarithm of the time over the run's best, for rows of another space."""
    order = np.argsort(run.us, kind="stable")
    if len(order) > RESULTS:
        order = np.concatenate([order[: RESULTS // 2], order[RESULTS // 2 :: len(order) // (RESULTS // 2)]])
    times = np.log(np.array(run.us)[order])
    known = likeness.configs([run.configs[int(place)] for place in order])
    return Surrogate(likeness).predict(known, times - times[0], rows)
