"""What a history of other shapes is worth: recorded spaces, each left out in its turn.

    python -m benchmarks.learning benchmarks/replay/iree benchmarks/replay/shapes
    python -m benchmarks.learning FOLDER... --today                   only rows that the spaces of today have: what the
                                                                      pruning rules reject by now is asked no more
    python -m benchmarks.learning FOLDER... --left-out FOLDER...      judged on these alone; all are history

The history of a shape is what a run of 100 candidates by this search would have left of it. With that of all other
shapes of the same operation, how good are the first 10 candidates on the one left out, and how many are needed without?
"""

from __future__ import annotations

import argparse
import json
import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotuner.build import Builder
from autotuner.iree.tools import Tools
from autotuner.problems import Operation
from autotuner.problems.operations import OPERATIONS
from autotuner.search.history import EarlierRun, Shape, suggest
from autotuner.search.study import make_search
from autotuner.space import Config
from autotuner.system.cache import Cache
from benchmarks.replay import Recording, load, replay
from benchmarks.success import make_plan

MARKS = (1, 5, 10, 25, 50, 100)
HISTORY = 100
"""Candidates of an earlier run."""


@dataclass(frozen=True)
class Recorded:
    """A recorded space and what it is of."""

    problem: Operation
    recording: Recording

    @property
    def shape(self) -> Shape:
        return Shape(self.problem.kind, self.problem.types, self.problem.variables())


def read(folders: Sequence[Path]) -> list[Recorded]:
    found = []
    for path in sorted(path for folder in folders for path in folder.glob("*.csv.gz")):
        words = json.loads(path.with_name(path.name.replace(".csv.gz", ".json")).read_text())["command"].split()
        options = dict(zip(words[1::2], words[2::2], strict=False))
        problem = OPERATIONS[words[0]].parse(
            **{name[2:].replace("-", "_"): value for name, value in options.items() if name not in ("--target",)}
        )
        found.append(Recorded(problem, load(path)))
    return found


def of_today(recorded: Recorded, builder: Builder, executor: Executor) -> Recorded:
    """Without the rows that are in this problem's space no more."""
    recording = recorded.recording
    space = make_plan(recorded.problem, recording.name.rpartition("-")[2], builder, executor).space
    kept = np.array([recording.space[row] in space for row in range(len(recording.space))])
    return replace(recorded, recording=Recording(recording.name, recording.space.keep(kept), recording.times[kept]))


def left_by(recorded: Recorded, *, seed: int) -> EarlierRun:
    """What a run on this space leaves behind."""
    recording = recorded.recording
    search, configs, us = make_search(recording.space, seed=seed), list[Config](), list[float]()
    asked = 0
    while asked < HISTORY and (batch := search.ask(min(4, HISTORY - asked))):
        asked += len(batch)
        for config in batch:
            row = recording.space.index(config)
            ms = math.nan if row is None else float(recording.times[row])
            search.tell(config, None if math.isnan(ms) else math.log(ms))
            if not math.isnan(ms):
                configs.append(config)
                us.append(1e3 * ms)
    return EarlierRun(recording.name, recorded.shape, [config.as_dict() for config in configs], us)


def courses(recorded: Recorded, history: Sequence[EarlierRun], *, seed: int) -> tuple[list[float], list[float], float]:
    """Best over optimum after each candidate: without the history, with it; and the seconds that asking it took."""
    recording, most = recorded.recording, min(MARKS[-1], len(recorded.recording.space))
    without = replay(recording, make_search(recording.space, seed=seed), evaluations=most)
    began = time.process_time()
    first = suggest(recording.space, recorded.shape, history).configs
    spent = time.process_time() - began
    search = make_search(recording.space, seed=seed, first=first)
    return without, replay(recording, search, evaluations=most), spent


def line(label: str, values: npt.NDArray[np.float64]) -> str:
    return f"{label:52}" + "".join(f"{value:8.3f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--left-out", type=Path, nargs="+", default=[], help="folders to judge by; the others are history"
    )
    parser.add_argument("--today", action="store_true", help="only rows that the spaces of today have")
    options = parser.parse_args()
    all_recorded = read([*options.folders, *options.left_out])
    judged = {recorded.recording.name for recorded in read(options.left_out or options.folders)}
    if options.today:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
            builder = Builder(Tools.find(), Cache(Path(folder)))
            all_recorded = [of_today(recorded, builder, executor) for recorded in all_recorded]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    history = {seed: [left_by(recorded, seed=1000 + seed) for recorded in all_recorded] for seed in seeds}
    print(f"{'best / optimum, geometric mean':52}" + "".join(f"{mark:8}" for mark in MARKS))
    everything, seconds = [], []
    for place, recorded in enumerate(all_recorded):
        others = sum(math.isfinite(recorded.shape.distance(other.shape)) for other in all_recorded) - 1
        if not others or recorded.recording.name not in judged:
            continue
        logs = []
        for seed in seeds:
            known = [run for number, run in enumerate(history[seed]) if number != place]
            without, with_, spent = courses(recorded, known, seed=seed)
            seconds.append(spent)
            logs.append([[math.log(c[min(mark, len(c)) - 1]) for mark in MARKS] for c in (without, with_)])
        means = np.exp(np.array(logs).mean(axis=0))
        print(line(f"{recorded.recording.name}, without", means[0]))
        print(line(f"{'':8}with {others} others", means[1]), flush=True)
        everything.append(np.array(logs))
    if everything:
        means = np.exp(np.array(everything).mean(axis=(0, 1)))
        print(line("all, without", means[0]))
        print(line("all, with", means[1]))
        print(f"{1e3 * float(np.mean(seconds)):.0f} ms to ask the history, once a run")


if __name__ == "__main__":
    main()
