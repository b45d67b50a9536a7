"""Replay the search on recorded spaces: best found over the optimum, after so many evaluations."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from autotuner.search import Search, make_search
from autotuner.search.grid import Grid
from autotuner.space.table import Config, Knob, Space
from benchmarks.recording import RESULTS, TIME

MARKS = (25, 50, 100, 200)
BATCH = 4
"""As many as the tuning loop asks for at a time."""
HERE = Path(__file__).parent / "replay"


@dataclass(frozen=True)
class Recording:
    name: str
    space: Space
    times: npt.NDArray[np.float64]
    """By row of the space; NaN where it failed."""


def load(path: Path) -> Recording:
    """Columns are knobs, but for `time_ms` and the others of a recording."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    times = pd.to_numeric(frame[TIME]).to_numpy(np.float64)
    knobs, indices = [], []
    for name in [column for column in frame.columns if column not in RESULTS]:
        cells = [_value(cell) for cell in frame[name]]
        # As the tuner's own spaces have them: numbers ascending, then words.
        values = sorted(set(cells), key=lambda value: (isinstance(value, str), value))
        places = {value: place for place, value in enumerate(values)}
        knobs.append(Knob(name, tuple(values)))
        indices.append([places[cell] for cell in cells])
    rows = np.array(indices, np.int64).T
    space = Space(knobs, rows)
    if len(space) != len(frame):
        raise ValueError(f"{path} has a configuration twice")
    return Recording(path.name.removesuffix(".csv.gz"), space, times[np.lexsort(rows.T[::-1])])


def _value(cell: str) -> int | str:
    return int(cell) if cell.lstrip("-").isdecimal() else cell


class RandomLegal:
    """The baseline that any search has to beat: legal rows in random order."""

    def __init__(self, space: Space, *, seed: int) -> None:
        self._space = space
        self._order = [int(row) for row in np.random.default_rng(seed).permutation(len(space))]

    def ask(self, count: int) -> list[Config]:
        batch, self._order = self._order[:count], self._order[count:]
        return [self._space[row] for row in batch]

    def tell(self, config: Config, value: float | None) -> None:
        """Learns nothing."""


class Neighbours:
    """Twelve random rows, then only ever random unseen neighbours of the best five."""

    def __init__(self, space: Space, *, seed: int) -> None:
        self._grid = Grid(space)
        self._rng = np.random.default_rng(seed)
        self._told: dict[int, float] = {}
        self._asked = 0

    def ask(self, count: int) -> list[Config]:
        return [self._one() for _ in range(count)]

    def _one(self) -> Config:
        best = sorted(self._told, key=lambda row: self._told[row])[:5] if self._asked >= 12 else []
        pools = [self._grid.around(row, reach=1)[0] for row in best]
        pool = np.unique(np.concatenate(pools)) if pools else np.zeros(0, np.int64)
        pool = pool[self._grid.free[pool]]
        row = int(self._rng.choice(pool if len(pool) else np.flatnonzero(self._grid.free)))
        self._asked += 1
        self._grid.take(row)
        return self._grid.config(row)

    def tell(self, config: Config, value: float | None) -> None:
        row = self._grid.space.index(config)
        if row is not None and value is not None:
            self._told[row] = value


METHODS: Mapping[str, Callable[[Space, int], Search]] = {
    "random legal": lambda space, seed: RandomLegal(space, seed=seed),
    "neighbours only": lambda space, seed: Neighbours(space, seed=seed),
    "this search": lambda space, seed: make_search(space, seed=seed),
}


def replay(recording: Recording, search: Search, *, evaluations: int = MARKS[-1]) -> list[float]:
    """Best over optimum after each evaluation; a failure is an evaluation too."""
    optimum, best = float(np.nanmin(recording.times)), math.inf
    course: list[float] = []
    while len(course) < evaluations:
        for config in search.ask(min(BATCH, evaluations - len(course))):
            row = recording.space.index(config)
            if row is None:
                raise AssertionError(f"an illegal configuration was proposed: {config}")
            ms = float(recording.times[row])
            search.tell(config, None if math.isnan(ms) else math.log(ms))
            best = best if math.isnan(ms) else min(best, ms)
            course.append(best / optimum)
    return course


def with_failures(recording: Recording, *, share: float, seed: int) -> Recording:
    """The same space in which the rows that share some pairs of knob values fail, as compilers fail."""
    rng = np.random.default_rng(seed)
    columns = Grid(recording.space).columns
    times = recording.times.copy()
    while np.isnan(times).mean() < share:
        row, (one, two) = int(rng.integers(len(times))), rng.choice(len(columns), size=2, replace=False)
        times[(columns[one] == columns[one][row]) & (columns[two] == columns[two][row])] = math.nan
    return Recording(f"{recording.name}, {np.isnan(times).mean():.0%} failing", recording.space, times)


def line(label: str, courses: npt.NDArray[np.float64]) -> str:
    means = np.exp(np.log(courses[:, [mark - 1 for mark in MARKS]]).mean(axis=0))
    return f"{label:44}" + "".join(f"{mean:9.3f}" for mean in means)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("AUTOTUNE_REPLAY", HERE)))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--failing", type=float, default=0.0, help="share of rows made to fail")
    options = parser.parse_args()
    recordings = [load(path) for path in sorted(options.data.glob("*.csv.gz"))]
    if not recordings:
        parser.error(f"no *.csv.gz in {options.data}")
    if options.failing:
        recordings = [with_failures(r, share=options.failing, seed=0) for r in recordings]
    print(f"{'best / optimum, geometric mean':44}" + "".join(f"{mark:9}" for mark in MARKS))
    for method, start in METHODS.items():
        both, began = [], time.perf_counter()
        for recording in recordings:
            seeds = range(options.first_seed, options.first_seed + options.seeds)
            courses = np.array([replay(recording, start(recording.space, seed)) for seed in seeds])
            print(line(f"{method}: {recording.name}", courses))
            both.append(courses)
        print(line(f"{method}: all", np.concatenate(both)))
        each = (time.perf_counter() - began) / (len(recordings) * options.seeds * MARKS[-1])
        print(f"{'':44}  {each * 1e3:.1f} ms a candidate")


if __name__ == "__main__":
    main()
