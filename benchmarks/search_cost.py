"""What the search itself costs a candidate, reading and fitting the history included, in whole spaces of today.

    python -m benchmarks.search_cost [--most MS]       with --most: exit 1 where a candidate costs more than that

A store has twenty earlier runs of 200 candidates each on the same chip. A run of 100 candidates reads them, fits them,
begins with what they suggest and goes on with the search, four at a time. The times are made up: what a search costs
depends little on them. Milliseconds are the processor's: what else runs on the machine does not count.
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sqlalchemy import Connection, insert

from autotuner.build import Builder
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.search.history import Shape, suggest
from autotuner.search.study import make_search
from autotuner.space.table import Space
from autotuner.store.rows import CANDIDATES, NewRun
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.tuning.earlier import earlier_runs
from autotuner.tuning.plan import Plan
from benchmarks.machine import machine
from benchmarks.success import make_plan

SPACES = (("2048x2048x2048", "sm_80"), ("1536x1536x1536", "sm_80"), ("2048x2048x2048", "gfx942"))
RUNS, RESULTS, ASKED, BATCH = 20, 200, 100, 4
SIDES = (512, 768, 1024, 1536, 2048, 3072, 4096)
CHIP = "a chip"


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a run."""

    reading: float
    fitting: float
    searching: float
    wall: float
    """Of all three; they are the processor's."""

    @property
    def each(self) -> float:
        return (self.reading + self.fitting + self.searching) / ASKED

    @classmethod
    def mean(cls, costs: Sequence[Self]) -> Cost:
        parts = zip(*((c.reading, c.fitting, c.searching, c.wall) for c in costs), strict=True)
        return Cost(*(sum(part) / len(costs) for part in parts))

    def line(self, label: str) -> str:
        parts = f"reading {self.reading:4.0f} ms, fitting {self.fitting:4.0f}, searching {self.searching:4.0f}"
        return f"{label:52} {parts}: {self.each:.2f} ms a candidate ({self.wall / ASKED:.2f} by the clock)"


def made_up(space: Space, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Microseconds of all rows: every value of a knob has its factor."""
    logs = sum(rng.normal(0.0, 0.3, len(knob.values))[space.indices[:, i]] for i, knob in enumerate(space.knobs))
    us: np.ndarray[tuple[int], np.dtype[np.float64]] = 100.0 * np.exp(logs)
    return us


def fill(store: Store, space: Space, problem: Gemm, target: str) -> None:
    rng = np.random.default_rng(0)
    for number in range(RUNS):
        m, n, k = (int(side) for side in rng.choice(SIDES, 3))
        shape = Shape(problem.kind, problem.types, {**problem.variables(), "m": m, "n": n, "k": k})
        facts = {"op": "gemm", "name": f"gemm_{m}x{n}x{k}", "shape": shape.to_json()}
        run = store.start_run(NewRun("single", f"{number}", (), facts, target, "cuda", 0))
        store.record_environment(run, {"device_name": CHIP})
        us = made_up(space, rng)
        rows = [
            {
                "run": run,
                "ordinal": ordinal,
                "config_key": (config := space[int(row)]).key,
                "config": config.as_dict(),
                "kind": "codegen",
                "route": "default",
                "state": "timed",
                "failure": "",
                "stderr": "",
                "us": float(us[row]),
                "spec": "",
            }
            for ordinal, row in enumerate(space.sample(RESULTS, rng))
        ]
        store.write(partial(_insert, rows))


def _insert(rows: Sequence[Mapping[str, Any]], connection: Connection) -> None:
    connection.execute(insert(CANDIDATES), rows)


def measure(store: Store, plan: Plan, problem: Gemm, *, seed: int) -> Cost:
    space, target = plan.space, plan.target.name
    us = made_up(space, np.random.default_rng(100 + seed))
    values = {config: math.log(us[row]) for row, config in enumerate(space)}
    shape = Shape(problem.kind, problem.types, problem.variables())
    clock, began = time.perf_counter(), time.process_time()
    earlier = earlier_runs(store, shape, target=target, device_name=CHIP, but="")
    read = time.process_time()
    first = suggest(space, shape, earlier).configs
    fitted = time.process_time()
    search, asked = make_search(space, seed=seed, first=(*plan.first, *plan.seeds, *first)), 0
    while asked < ASKED:
        for config in search.ask(BATCH):
            asked += 1
            search.tell(config, values[config])
    ended, stopped = time.process_time(), time.perf_counter()
    parts = (read - began, fitted - read, ended - fitted, stopped - clock)
    return Cost(*(1e3 * part for part in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=sorted({target for _, target in SPACES}), help="only spaces of this one")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--most", type=float, metavar="MS", help="exit 1 where a candidate costs more")
    options = parser.parse_args()
    print(f"machine: {machine()}")
    most = 0.0
    for sides, target in SPACES:
        if options.target not in (None, target):
            continue
        problem = Gemm.parse(shape=sides, dtype="f16")
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
            builder = Builder(Tools.find(), Cache(Path(folder) / "cache"))
            plan = make_plan(problem, target, builder, executor)
            with Store.open(None, workspace=Path(folder)) as store:
                fill(store, plan.space, problem, target)
                costs = [measure(store, plan, problem, seed=seed) for seed in range(options.repeats)]
        mean = Cost.mean(costs)
        print(mean.line(f"{problem.name}-{target}, {len(plan.space)} rows"), flush=True)
        most = max(most, mean.each)
    if options.most is not None and most > options.most:
        sys.exit(f"a candidate costs {most:.2f} ms, more than {options.most:g}")


if __name__ == "__main__":
    main()
