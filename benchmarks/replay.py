"""Replay the search on recorded spaces: best found over the optimum, after so many evaluations.

    python -m benchmarks.replay --first-seed 7000          on the spaces that the search was chosen on
    python -m benchmarks.replay --left-out                 on others
    python -m benchmarks.replay --methods ablation         what each part of the search contributes
    python -m benchmarks.replay --keep FOLDER              goes on where the same command was interrupted
    python -m benchmarks.replay --choose --jobs 16         settings chosen on all spaces but the one they are judged on,
                                                           and on other seeds; then those chosen on all, on the others

An evaluation is a candidate that is asked for, whether it works or fails or is a binary that was seen before. The time
of a candidate is the processor's: what else runs on the machine does not count.
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from autotuner.search.grid import Grid
from autotuner.search.guided import GuidedSampler, Settings
from autotuner.search.study import Search, make_search
from autotuner.space.table import Config, Knob, Space
from benchmarks.recording import RESULTS, TIME

MARKS = (25, 50, 100, 200)
BATCH = 4
"""As many as the tuning loop asks for at a time."""
HERE = Path(__file__).parent / "replay"
LEFT_OUT = HERE / "left_out"
"""What the search was not chosen on."""


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


class Asked(Protocol):
    """What is replayed: the search, and what it is compared with."""

    def ask(self, count: int) -> list[Config]: ...

    def tell(self, config: Config, value: float | None) -> None: ...


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
        pools = [self._grid.around(row)[0] for row in best]
        pool = np.unique(np.concatenate(pools)) if pools else np.zeros(0, np.int64)
        pool = pool[self._grid.free[pool]]
        row = int(self._rng.choice(pool if len(pool) else np.flatnonzero(self._grid.free)))
        self._asked += 1
        self._grid.take(row)
        return self._grid.space[row]

    def tell(self, config: Config, value: float | None) -> None:
        row = self._grid.space.index(config)
        if row is not None and value is not None:
            self._told[row] = value


def guided(**changed: float) -> Callable[[Space, int], Asked]:
    return lambda space, seed: Search(space, GuidedSampler(space, seed=seed, settings=Settings(**changed)))  # type: ignore[arg-type]


def sampler(name: str) -> Callable[[Space, int], Asked]:
    """As --sampler names it."""
    return lambda space, seed: make_search(space, seed=seed, sampler=name)


METHODS: Mapping[str, Callable[[Space, int], Asked]] = {
    "random legal": lambda space, seed: RandomLegal(space, seed=seed),
    "neighbours only": lambda space, seed: Neighbours(space, seed=seed),
    "this search": sampler("guided"),
}
ABLATION: Mapping[str, Callable[[Space, int], Asked]] = {
    "this search": guided(),
    "without dice": guided(dice=0),
    "without neighbours": guided(neighbours=0, anywhere=300),
    "without rows from anywhere": guided(neighbours=300, anywhere=0),
    "without giving up on failing values": guided(hopeless=0),
    "all values told apart": guided(good=1.0),
    "a start by dice alone": guided(scatter=1),
    "a start of 12": guided(startup=12),
    "rows apart in one knob little alike": guided(shared=0.1),
    "half as bold": guided(boldness=0.5),
}
OPTUNA: Mapping[str, Callable[[Space, int], Asked]] = {
    "--sampler guided": sampler("guided"),
    "--sampler tpe": sampler("tpe"),
    "--sampler random": sampler("random"),
}
GP = {"--sampler gp": sampler("gp")}
"""It needs torch and scipy, and minutes where the others take seconds."""
GROUPS = {"all": METHODS, "ablation": ABLATION, "optuna": OPTUNA, "gp": GP}
CHOICES: Mapping[str, Callable[[Space, int], Asked]] = {
    f"shared {shared}, startup {startup}, dice {dice}": guided(shared=shared, startup=startup, dice=dice)
    for shared, startup, dice in product((0.6, 0.7, 0.8), (6, 8, 12), (3, 4))
}
"""What --choose chooses from."""
CHOOSING_SEEDS = range(9000, 9020)
EVERYTHING = {**METHODS, **ABLATION, **OPTUNA, **GP, **CHOICES}


def replay(recording: Recording, search: Asked, *, evaluations: int = MARKS[-1]) -> list[float]:
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
    columns = recording.space.indices.T
    times = recording.times.copy()
    while np.isnan(times).mean() < share:
        row, (one, two) = int(rng.integers(len(times))), rng.choice(len(columns), size=2, replace=False)
        times[(columns[one] == columns[one][row]) & (columns[two] == columns[two][row])] = math.nan
    return Recording(f"{recording.name}, {np.isnan(times).mean():.0%} failing", recording.space, times)


def line(label: str, courses: npt.NDArray[np.float64]) -> str:
    marks = [mark - 1 for mark in MARKS if mark <= courses.shape[1]]
    means = np.exp(np.log(courses[:, marks]).mean(axis=0))
    return f"{label:48}" + "".join(f"{mean:9.3f}" for mean in means)


def run(
    recording: Recording,
    start: Callable[[Space, int], Asked],
    seeds: Iterable[int],
    *,
    evaluations: int = MARKS[-1],
) -> npt.NDArray[np.float64]:
    """A course for each seed. Where nothing worked yet, the result is as bad as a hundred times the optimum."""
    courses = [replay(recording, start(recording.space, seed), evaluations=evaluations) for seed in seeds]
    return np.minimum(courses, 100.0)


@dataclass(frozen=True)
class Part:
    """What one worker does at a time: a method on a space, from some seeds on."""

    method: str
    path: Path
    failing: float
    seeds: tuple[int, ...]
    evaluations: int
    keep: Path | None

    def work(self) -> tuple[npt.NDArray[np.float64], float]:
        """The courses, and the processor's seconds; as they were kept, where they were."""
        words = f"{self.method}-{self.path.name}-{self.failing}-{self.seeds}-{self.evaluations}"
        kept = self.keep / f"{words}.npz" if self.keep else None
        if kept is not None and kept.is_file():
            with np.load(kept) as file:
                return file["courses"], float(file["seconds"])
        recording = _recording(self.path, self.failing)
        began = time.process_time()
        courses = run(recording, EVERYTHING[self.method], self.seeds, evaluations=self.evaluations)
        seconds = time.process_time() - began
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.savez(kept, courses=courses, seconds=seconds)
        return courses, seconds


@cache
def _recording(path: Path, failing: float) -> Recording:
    recording = load(path)
    return with_failures(recording, share=failing, seed=0) if failing else recording


@dataclass(frozen=True)
class Bench:
    """Replays by several processes; what it gives does not depend on how many."""

    jobs: int
    failing: float = 0.0
    evaluations: int = MARKS[-1]
    keep: Path | None = None
    """Where what is done is kept: an interrupted command goes on from there."""
    seeds_at_a_time: int = 5

    def courses(
        self, methods: Iterable[str], paths: Sequence[Path], seeds: Sequence[int]
    ) -> dict[str, list[tuple[npt.NDArray[np.float64], float]]]:
        """By method and space: the courses of all seeds, and the processor's seconds."""
        chunks = [tuple(seeds[i : i + self.seeds_at_a_time]) for i in range(0, len(seeds), self.seeds_at_a_time)]
        places = [(method, path) for method in methods for path in paths]
        known = (self.evaluations, self.keep)
        parts = [Part(method, path, self.failing, chunk, *known) for method, path in places for chunk in chunks]
        with get_context("fork").Pool(self.jobs) as pool:
            done = pool.map(Part.work, parts, chunksize=1)
        found: dict[str, list[tuple[npt.NDArray[np.float64], float]]] = {}
        for place, (method, _) in enumerate(places):
            own = done[place * len(chunks) : (place + 1) * len(chunks)]
            courses = np.concatenate([one for one, _ in own])
            found.setdefault(method, []).append((courses, sum(seconds for _, seconds in own)))
        return found

    def compare(self, methods: Iterable[str], paths: Sequence[Path], seeds: Sequence[int], *, brief: bool) -> None:
        for method in methods:
            [by_space] = self.courses([method], paths, seeds).values()
            if not brief:
                for path, (courses, _) in zip(paths, by_space, strict=True):
                    print(line(f"{method}: {path.name[:28].removesuffix('.csv.gz')}", courses), flush=True)
            each = sum(seconds for _, seconds in by_space) / (len(paths) * len(seeds) * self.evaluations)
            whole = np.concatenate([courses for courses, _ in by_space])
            print(line(f"{method}: all", whole) + f"   {each * 1e3:.1f} ms a candidate", flush=True)

    def choose(self, paths: Sequence[Path], left_out: Sequence[Path], seeds: Sequence[int]) -> None:
        """Each space by the settings that are the best on all others, on seeds that were not used to choose."""
        tried = self.courses(CHOICES, paths, CHOOSING_SEEDS)
        scores = {
            name: [float(np.log(courses[:, [99, -1]]).mean()) for courses, _ in by_space]
            for name, by_space in tried.items()
        }
        for name, score in scores.items():
            print(f"{name:48} chosen by {math.exp(sum(score) / len(score)):.4f}")
        everything = []
        for place, path in enumerate(paths):
            others = {name: sum(score[:place] + score[place + 1 :]) for name, score in scores.items()}
            chosen = min(others, key=lambda name: others[name])
            [(courses, _)] = self.courses([chosen], [path], seeds)[chosen]
            everything.append(courses)
            print(line(f"{path.name[:14]}: {chosen}", courses), flush=True)
        print(line("each left out in its turn: all", np.concatenate(everything)))
        best = min(scores, key=lambda name: sum(scores[name]))
        print(f"chosen on all of these and judged on others: {best}")
        self.compare([best], left_out, seeds, brief=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[HERE, HERE / "iree"], help="folders of recordings")
    parser.add_argument("--left-out", action="store_true", help="recordings that the search was not chosen on")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--failing", type=float, default=0.0, help="share of rows made to fail")
    parser.add_argument("--methods", choices=GROUPS, default="all")
    parser.add_argument("--brief", action="store_true", help="no line for each space")
    parser.add_argument("--choose", action="store_true", help="choose settings, each space left out in its turn")
    parser.add_argument("--evaluations", type=int, choices=MARKS[2:], default=MARKS[-1], help="of each replay")
    parser.add_argument("--keep", type=Path, help="a folder for what is done: the same command goes on from there")
    parser.add_argument("--jobs", type=int, default=1, help="processes that work at once")
    options = parser.parse_args()
    paths = _recorded([LEFT_OUT] if options.left_out else options.data)
    if not paths:
        parser.error(f"no *.csv.gz in {' '.join(map(str, options.data))}")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    bench = Bench(options.jobs, options.failing, options.evaluations, options.keep)
    marks = [mark for mark in MARKS if mark <= options.evaluations]
    print(f"{'best / optimum, geometric mean':48}" + "".join(f"{mark:9}" for mark in marks))
    if options.choose:
        bench.choose(paths, _recorded([LEFT_OUT]), seeds)
    else:
        bench.compare(GROUPS[options.methods], paths, seeds, brief=options.brief)


def _recorded(folders: Iterable[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.glob("*.csv.gz"))]


if __name__ == "__main__":
    main()
