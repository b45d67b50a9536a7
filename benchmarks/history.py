"""How long `autotune history` and its like take on a store of many timings, the start of the command included.

    python -m benchmarks.history [--timings 100000] [--repeats 5] [--all] [--only LAYOUT] [--keep DIR]

The same number of timings in three layouts, each a store of its own: many runs of one problem each, one suite of many
parts, one long run. The figures are medians of whole
processes; where the machine has other work, their CPU time is what a quiet one takes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Table, insert

from autotuner.space.table import Config
from autotuner.store.database import connect, locate, writer
from autotuner.store.rows import BUILDS, CANDIDATES, ENVIRONMENT, RUNS, TIMINGS
from autotuner.store.store import Store
from benchmarks.machine import machine

TIMINGS_EACH = 2
"""Of a candidate: its screening and a block of a race."""
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
SHAPES = ("512x512x1024", "1024x1024x1024", "2048x2048x2048", "4096x4096x4096")
AT_ONCE = 10_000
COMMANDS = {
    "history": ["history"],
    "all runs": ["history", "--limit", "100000"],
    "filtered": ["history", "--op", "gemm", "--shape", SHAPES[0]],
    "one run": ["history", "RUN"],
    "export --csv": ["export", "--csv"],
    "export --json": ["export", "--json"],
    "report": ["report", "-o", "PAGE"],
}
SLOW = ("one run", "export --csv", "export --json", "report")
"""These read every candidate: they are timed once, and only with --all."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """So many runs of so many candidates, each on its own or all of them parts of one suite."""

    name: str
    runs: int
    candidates: int
    suite: bool = False


def layouts(timings: int) -> list[Layout]:
    candidates = timings // TIMINGS_EACH
    return [
        Layout("many runs", candidates // 500, 500),
        Layout("one suite", candidates // 50, 50, suite=True),
        Layout("one run", 1, candidates),
    ]


def fill(workspace: Path, layout: Layout) -> str:
    """Writes such a store, many rows a statement; gives the id of its first run."""
    Store.open(None, workspace=workspace).close()
    engine = connect(locate(None, workspace))
    runs = list(_runs(layout))
    rows: dict[Table, Iterator[Record]] = {
        RUNS: iter(runs),
        ENVIRONMENT: ({"run": run["id"], "document": {"iree": "3.13.0", "host": "vm"}} for run in runs),
        CANDIDATES: _candidates(layout),
        BUILDS: _builds(layout),
        TIMINGS: _timings(layout),
    }
    with writer(engine).begin() as connection:
        for table, records in rows.items():
            while batch := list(islice(records, AT_ONCE)):
                connection.execute(insert(table), batch)
    engine.dispose()
    return str(runs[0]["id"])


def _id(run: int) -> str:
    return f"{FIRST + timedelta(minutes=run):%Y%m%d-%H%M%S}-{run:06x}"


def _runs(layout: Layout) -> Iterator[Record]:
    """The suite is the one before the first."""
    for run in range(-1 if layout.suite else 0, layout.runs):
        shape, started = SHAPES[run % len(SHAPES)], FIRST + timedelta(minutes=run)
        suite = run < 0
        problem = {"op": "suite", "name": "all"} if suite else {"op": "gemm", "name": f"gemm_{shape}_f16_f32_nn"}
        yield {
            "id": f"{started:%Y%m%d-%H%M%S}-ffffff" if suite else _id(run),
            "kind": "suite" if suite else "single",
            "parent": f"{FIRST - timedelta(minutes=1):%Y%m%d-%H%M%S}-ffffff" if layout.suite and not suite else None,
            "key": f"{run:016x}-{run:016x}",
            "workspace": "",
            "command": ["autotune", "gemm", "--shape", shape],
            "problem": {**problem, "flops": 10**9, "bytes": 10**6},
            "target": "sm_80",
            "device": "cuda",
            "seed": 0,
            "status": "finished",
            "started": started.isoformat(timespec="microseconds"),
            "ended": (started + timedelta(seconds=50)).isoformat(timespec="microseconds"),
            "space_size": 1000,
            "result": _result(run),
        }


def _result(run: int) -> Record:
    speedup = {"median": 1.5 + run % 7 / 100, "low": 1.4, "high": 1.7, "confidence": 0.95}
    counts = {"space": 1000, "asked": 500, "built": 500, "timed": 500, "failed": {}}
    notes = ["of the length that the documents of real runs have " * 3] * 10
    best = {"us": 66.0 + run % 5, "config": dict(_config(run).items), "flags": [], "kind": "codegen"}
    facts = {"verdict": "win", "baseline": {"us": 100.0, "flags": []}, "best": best, "speedup": speedup}
    return {**facts, "counts": counts, "notes": notes, "spec": "specs/a.mlir"}


def _config(number: int) -> Config:
    sizes = {f"tile_{name}": 1 << (number // 7**place) % 7 for place, name in enumerate("mnk")}
    return Config.of({**sizes, "pipeline": f"pipeline_{number % 3}", "prefetch": number % 3, "pad": bool(number % 2)})


def _candidates(layout: Layout) -> Iterator[Record]:
    dice = random.Random(0)
    for run in range(layout.runs):
        for ordinal in range(layout.candidates):
            config = _config(ordinal)
            yield {
                "run": _id(run),
                "ordinal": ordinal,
                "config_key": config.key,
                "config": config.as_dict(),
                "kind": "codegen" if ordinal else "baseline",
                "route": "default",
                "state": "timed",
                "failure": "",
                "stderr": "",
                "error": 1e-7,
                "us": 100.0 * dice.lognormvariate(0.0, 0.2),
                "spec": f"candidates/{_id(run)}/c{ordinal}/spec.mlir",
            }


def _builds(layout: Layout) -> Iterator[Record]:
    command = [
        "iree-compile",
        "problem.mlir",
        "--iree-hal-target-device=cuda",
        "--iree-cuda-target=sm_80",
        "-o",
        "a.vmfb",
    ]
    for candidate in range(1, layout.runs * layout.candidates + 1):
        facts = {"seconds": 0.5, "cached": False, "binary": f"{candidate:064x}", "applied": 1, "vmfb": "a.vmfb"}
        yield {"candidate": candidate, **facts, "command": command, "isa": {"registers": 128, "mma": 64}}


def _timings(layout: Layout) -> Iterator[Record]:
    sample = {"mhz": 1980.0, "watts": 350.0, "celsius": 55.0}
    conditions = {"state": "sustained", "cache": "warm", "before": sample, "after": sample}
    for candidate in range(1, layout.runs * layout.candidates + 1):
        at = (FIRST + timedelta(milliseconds=candidate)).isoformat(timespec="microseconds")
        for phase in ("screen", "race")[:TIMINGS_EACH]:
            facts = {"phase": phase, "block": 0, "time": at, "conditions": conditions}
            yield {"candidate": candidate, **facts, "repetitions_us": [100.0 + n / 7 for n in range(5)]}


@dataclass(frozen=True)
class Taken:
    """By one process, in seconds."""

    wall: float
    cpu: float


def time_command(workspace: Path, words: list[str], *, repeats: int) -> list[Taken]:
    """Whole processes, one after the other; of several the first one warms the file's pages and does not count."""
    taken = []
    # As installed: no process compiles the package anew.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(repeats + 1 if repeats > 1 else 1):
        wall, cpu = time.perf_counter(), _cpu()
        command = [sys.executable, "-m", "autotuner", *words, "--workspace", str(workspace)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        taken.append(Taken(time.perf_counter() - wall, _cpu() - cpu))
    return taken[1:] or taken


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timings", type=int, default=100_000, help="in each store, at least 1000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="also what reads every candidate")
    parser.add_argument("--only", choices=[layout.name for layout in layouts(1000)], help="one of the stores")
    parser.add_argument("--keep", type=Path, help="a folder for the stores, which stay there")
    arguments = parser.parse_args()
    print(f"machine: {machine()}")
    with ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for layout in layouts(arguments.timings):
            if arguments.only not in (None, layout.name):
                continue
            workspace = folder / layout.name.replace(" ", "-")
            start = time.perf_counter()
            first = fill(workspace, layout)
            took = time.perf_counter() - start
            size = (workspace / "results" / "autotune.db").stat().st_size / 2**20
            shape = f"{layout.runs} x {layout.candidates} candidates"
            print(f"{layout.name}: {arguments.timings} timings, {shape}, {size:.0f} MiB, in {took:.1f} s", flush=True)
            for name, words in COMMANDS.items():
                if name in SLOW and not arguments.all:
                    continue
                page = workspace / "page.html"
                words = [{"RUN": first, "PAGE": str(page)}.get(word, word) for word in words]
                taken = time_command(workspace, words, repeats=1 if name in SLOW else arguments.repeats)
                wall, cpu = median(one.wall for one in taken), median(one.cpu for one in taken)
                size = f", {page.stat().st_size / 1e6:.1f} MB" if name == "report" else ""
                print(f"  {name:<14} {wall:.2f} s ({cpu:.2f} s of CPU){size}", flush=True)


if __name__ == "__main__":
    main()
