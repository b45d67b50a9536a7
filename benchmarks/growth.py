"""How time and memory grow with what autotune is given: `python -m benchmarks.growth [--only SUBJECT] [--most SIZE]`.

Each size is measured in a process of its own: seconds of what is done, of the wall and of the processor, and the most
memory that the process, or one that it started, had. The exponent is that of the processor's seconds at the last two
sizes: 1 is linear, and other work on the machine does not count. Workers are those of benchmarks.cluster.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np

from autotuner.jobs.suite.load import load
from autotuner.search.study import make_search
from autotuner.space.table import Knob, Space
from benchmarks.history import Layout, fill
from benchmarks.machine import machine
from tests.support.logs import line

ROWS_OF_A_CANDIDATE = 4
"""Itself, its build and two timings."""
AUTOTUNE = [sys.executable, "-m", "autotuner"]
Work = Callable[[], object]


@dataclass(frozen=True)
class Subject:
    """Something that may be large."""

    sizes: tuple[int, ...]
    counts: str
    """What the size counts."""
    does: str
    """What is timed."""
    prepared: Callable[[int, Path], Work]
    """Makes what is given, and returns what is to be timed."""


def command(*words: str | Path, cwd: Path) -> Work:
    return lambda: subprocess.run([*AUTOTUNE, *map(str, words)], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def space(size: int, folder: Path) -> Work:
    del folder
    side = math.ceil(size ** (1 / 4))
    knobs = [Knob(name, tuple(range(1, side + 1))) for name in "abcd"]

    def search() -> None:
        made = make_search(Space.product(knobs, [lambda c: c["a"] + c["b"] > 1]), seed=0)
        for config in made.ask(4):
            made.tell(config, float(np.log(config["a"])))
        made.ask(4)

    return search


def store(size: int, folder: Path) -> Work:
    candidates = size // ROWS_OF_A_CANDIDATE
    fill(folder, Layout("many runs", max(1, candidates // 250), min(250, candidates)))
    command("history", cwd=folder)()  # reads the file once
    return command("history", cwd=folder)


def model(size: int, folder: Path) -> Work:
    widths = [16 + 8 * n for n in range(size + 1)]
    template = jinja2.Template(Path(__file__).with_name("chain.mlir.j2").read_text())
    (folder / "chain.mlir").write_text(template.render(widths=widths))
    return command("model", "chain.mlir", "--dry-run", cwd=folder)


def suite(size: int, folder: Path) -> Work:
    rows = "".join(f"gemm,{8 * (n // 50 + 1)}x{8 * (n % 50 + 1)}x64,f32\n" for n in range(size))
    (folder / "shapes.csv").write_text(f"op,shape,dtype\n{rows}")
    return command("suite", "shapes.csv", "--list", cwd=folder)


def log(size: int, folder: Path) -> Work:
    many = "".join(f"{line(m=8 * (n % 400 + 1), n=8 * (n // 400 + 1))}\n" for n in range(2000)).encode()
    with (folder / "log.yaml").open("wb") as file:
        for _ in range(max(1, size // len(many))):
            file.write(many[:size])
    return lambda: load(str(folder / "log.yaml"))


def workers(size: int, folder: Path) -> Work:
    del folder
    words = ["-m", "benchmarks.cluster", "--workers", str(size), "--each", "5", "--slower", "4"]

    def run() -> None:
        said = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout
        found = re.search(r"([0-9.]+) % of linear", said)
        print(f"  {size} workers: {found and found[1]} % of linear", file=sys.stderr)

    return run


SUBJECTS: Mapping[str, Subject] = {
    "space": Subject((10**3, 10**4, 10**5, 10**6, 10**7), "configurations", "enumerate and ask twice", space),
    "store": Subject((10**3, 10**4, 10**5, 10**6), "rows", "autotune history", store),
    "model": Subject((1, 8, 64, 500), "dispatches", "autotune model --dry-run", model),
    "suite": Subject((1, 20, 200, 2000), "rows", "autotune suite --list", suite),
    "log": Subject((10**6, 10**7, 10**8, 10**9), "bytes", "read a hipBLASLt log", log),
    "workers": Subject((1, 16, 64, 256), "workers", "five candidates for each, four times as slow", workers),
}


@dataclass(frozen=True)
class Taken:
    """By one size."""

    size: int
    seconds: float
    cpu: float
    mib: float


def measured(name: str, size: int) -> Taken:
    """In a process of its own, which another one measures."""
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        work = SUBJECTS[name].prepared(size, Path(folder))
        began, used = time.perf_counter(), cpu()
        work()
        seconds, used = time.perf_counter() - began, cpu() - used
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Taken(size, seconds, used, most / 1024)


def cpu() -> float:
    """Of this process and those that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def exponent(one: Taken, other: Taken) -> float:
    return math.log(other.cpu / one.cpu) / math.log(other.size / one.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="may be repeated")
    parser.add_argument("--most", type=float, default=math.inf, help="no larger sizes")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(measured(asked.only[0], asked.one).__dict__))
        return
    print(f"machine: {machine()}")
    # As installed: without compiled modules all would be read anew by each process, which takes longer than `history`.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for name in asked.only or SUBJECTS:
        subject, taken = SUBJECTS[name], list[Taken]()
        print(f"\n{name}: {subject.does}", flush=True)
        for size in (size for size in subject.sizes if size <= asked.most):
            words = [sys.executable, "-m", "benchmarks.growth", "--only", name, "--one", str(size)]
            said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
            taken.append(Taken(**json.loads(said.splitlines()[-1])))
            now = taken[-1]
            spent = f"{now.seconds:8.2f} s {now.cpu:8.2f} s of the processor {now.mib:8.0f} MiB"
            print(f"  {now.size:>12,} {subject.counts:<14} {spent}", flush=True)
        if len(taken) > 1:
            grows = exponent(*taken[-2:])
            print(f"  exponent {grows:.2f}{': worse than linear' if grows > 1.1 else ''}", flush=True)


if __name__ == "__main__":
    main()
