"""Learning from before: what other shapes' timings say of this one's configurations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotuner.search.likeness import Rows, Singles
from autotuner.search.prediction import Prediction, Results
from autotuner.space.table import Config, Space, Value

SUGGESTED = 20
"""So many configurations come from earlier runs."""
RUNS = 20
"""At most so many runs are asked, the nearest ones."""
RESULTS = 40
"""At most so many results of each."""
FASTEST = 20
"""So many of these are its fastest; the others are an even sample of the rest."""
LEAST = 8
"""A run with fewer results says too little of what is good there."""
CONSIDERED = 1000
"""A space of at most so many rows is ranked whole."""
SAMPLED = 500
"""Of a larger one so many random rows are, and what was good before; then, for so many rounds, what differs in one
knob from so many of the best: the rows found are nearly as good as if all were ranked."""
ROUNDS = 3
PARENTS = 10
_OTHER_TYPES = 2.0
"""How far apart other types are, in doublings of a size."""


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
    """What all near runs together predict to be the fastest, after the winner of a run on the very same shape."""
    near = [(shape.distance(run.shape), run) for run in earlier if _has_knobs_of(space, run)]
    near = sorted((pair for pair in near if math.isfinite(pair[0])), key=lambda pair: pair[0])[:RUNS]
    if not near or not len(space):
        return Suggestions()
    best = [_row(space, run.configs[int(np.argmin(run.us))]) for _, run in near]
    known = [_results(distance, run) for distance, run in near if len(run.us) >= LEAST]
    ranked = _ranked(space, Prediction(space, shape.sizes, known), best) if known else []
    same = [row for row, (distance, _) in zip(best, near, strict=True) if not distance][:1]
    chosen = list(dict.fromkeys([*same, *ranked, *best]))[:count]
    return Suggestions(tuple(space[row] for row in chosen), tuple(run.name for _, run in near))


def _has_knobs_of(space: Space, run: Earlier) -> bool:
    own = {knob.name for knob in space.knobs}
    return bool(run.us) and 2 * len(own & {*run.configs[0]}) > len(own)


def _row(space: Space, config: Mapping[str, Value]) -> int:
    row = space.index(Config.of(config))
    return space.nearest(config) if row is None else row


def kept(us: Sequence[float]) -> list[int]:
    """The places of a run's results that are made use of, the fastest first."""
    order = np.argsort(us, kind="stable")
    if len(order) > RESULTS:
        rest = np.linspace(FASTEST, len(order) - 1, RESULTS - FASTEST).astype(np.int64)
        order = np.concatenate([order[:FASTEST], order[rest]])
    return [int(place) for place in order]


def _results(distance: float, run: Earlier) -> Results:
    places = kept(run.us)
    return Results(
        distance, run.shape.sizes, [run.configs[place] for place in places], [math.log(run.us[p]) for p in places]
    )


def _ranked(space: Space, prediction: Prediction, best: Sequence[int]) -> list[int]:
    """Rows by what they are predicted to take, the fastest first."""
    if len(space) <= CONSIDERED:
        rows = np.arange(len(space), dtype=np.int64)
        return _sorted(rows, prediction.of(rows))
    rows = np.union1d(space.sample(SAMPLED, np.random.default_rng(0)), np.array(best, np.int64))
    predicted, seen = prediction.of(rows), set[int]()
    for _ in range(ROUNDS):
        parents = [row for row in _sorted(rows, predicted)[:PARENTS] if row not in seen]
        seen.update(parents)
        around = [space.neighbours(row) for row in parents]
        new = np.setdiff1d(np.concatenate([np.zeros(0, np.int64), *around]), rows)
        if not len(new):
            break
        rows, predicted = np.concatenate([rows, new]), np.concatenate([predicted, prediction.of(new)])
    return _sorted(rows, predicted)


def _sorted(rows: Rows, predicted: Singles) -> list[int]:
    return [int(row) for row in rows[np.argsort(predicted, kind="stable")]]
