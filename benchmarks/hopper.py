"""A suite, `hopper` unless named, on this machine's NVIDIA GPU: IREE's default, the best of the search, and torch.

    python -m benchmarks.hopper OUT.json [--seconds 800] [--workspace DIR] [--part 1/2] [--only TEXT]
    python -m benchmarks.hopper OUT.json --suite hopper-f8 --target sm_89 --allow-precision f16
    python -m benchmarks.hopper OUT.json… --table

Each problem is tuned by one command in a short budget; then `autotune bench` times default, the best that was found and
torch in turns, in one state of the device, with the same types of results: that is the table. A best that the search
had no time to give a verdict on is timed there, too. OUT.json is written after each problem. When `--seconds` are near
their end, the problems that are left are named and not tuned. Needs torch. `--table` prints the table of such files;
`python -m benchmarks.winners` ships what won in them.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotuner.build.ship import write_parts
from autotuner.carriers.outputs import MICROKERNEL, Outputs
from autotuner.jobs.suite.load import problems_of
from autotuner.microkernels.variants import kernel_chip
from autotuner.problems import Problem
from autotuner.problems.accuracy import known_precision
from autotuner.system import process
from autotuner.targets import Target
from benchmarks.winners import SHIPPED, built

BEST, CODEGEN = "best", "codegen"
BENCH_SECONDS = 11.0
"""Kept for each tuned problem's comparison."""
STARTING = 15.0
"""The comparison may end so much later than its budget."""
MOST_SECONDS = 100.0
"""One command may take so long."""
MANY = 1 << 32
"""Of a product with more operations arithmetic takes the time, not memory and the launch."""
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=800.0)
    parser.add_argument("--budget", default="26s", help="of one problem's tuning")
    parser.add_argument("--trials", default="16", help="of one problem's tuning; the first ten are by estimate")
    parser.add_argument("--workspace", type=Path, default=Path("hopper-workspace"))
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--suite", choices=SHIPPED, default=SHIPPED[0])
    parser.add_argument("--allow-precision", default="", help="as autotune has it")
    parser.add_argument("--part", default="1/1", help="2/3: every third problem, from the second on")
    parser.add_argument("--only", default="", help="problems whose name has this text")
    parser.add_argument("--table", action="store_true", help="print the table of OUT.json, run nothing")
    given = parser.parse_args(argv)
    if given.table:
        print(table([json.loads(path.read_text()) for path in given.out]))
        return
    began = time.monotonic()
    first, every = map(int, given.part.split("/"))
    allowed = known_precision(given.allow_precision)
    suite = [problem.accepting(allowed) for problem in problems_of(given.suite)]
    problems = [p for p in suite[first - 1 :: every] if given.only in p.name]
    (out,) = given.out
    command_line = ["python", "-m", "benchmarks.hopper", *(argv or sys.argv[1:])]
    found: Row = {"command": command_line, "allow_precision": allowed, "problems": {}, "left": []}
    shared = ["--target", given.target, "--cache", "warm", "--workspace", str(given.workspace)]
    for problem in problems:
        left = given.seconds - (time.monotonic() - began) - BENCH_SECONDS * (len(found["problems"]) + 1)
        if left < 20.0:
            found["left"].append(problem.name)
            continue
        tuning = ["--microkernels", "auto", "--budget", given.budget, "--trials", given.trials]
        row = tuned(problem, [*tuning, *shared], timeout=min(left, MOST_SECONDS))
        found["problems"][problem.name] = row
        write_spec(problem, row, Target.parse(given.target), given.workspace)
        out.write_text(json.dumps(found, indent=1))
        print(f"{time.monotonic() - began:5.0f} s  {problem.name}: {row['verdict']}", file=sys.stderr, flush=True)
    candidates, _ = command(["export", "--json", "--workspace", str(given.workspace)], timeout=60)
    note_codegen(found["problems"], candidates)
    workload = out.with_suffix(".csv")
    write_workload(workload, [p for p in problems if p.name in found["problems"]])
    bench = ["bench", str(workload), "--backends", "iree,tuned,torch", "--spec", str(given.workspace / BEST)]
    left = max(given.seconds - (time.monotonic() - began), 60.0)
    allowing = ["--allow-precision", allowed] if allowed else []
    document, seconds = command([*bench, *shared, *allowing, "--budget", f"{left - STARTING:.0f}s"], timeout=left)
    found["bench"], found["bench_seconds"] = document, seconds
    found["seconds"] = round(time.monotonic() - began, 1)
    out.write_text(json.dumps(found, indent=1))
    print(table([found]))


def command(words: Sequence[str], *, timeout: float) -> tuple[Any, float]:
    """The JSON of one command of autotune, or why there is none; and its seconds."""
    done = process.run([sys.executable, "-m", "autotuner", *words, "--json"], timeout=timeout)
    try:
        return json.loads(done.stdout), round(done.seconds, 1)
    except ValueError:
        return {"verdict": "failed", "error": done.why()[-400:]}, round(done.seconds, 1)


def tuned(problem: Problem, options: Sequence[str], *, timeout: float) -> Row:
    """One problem, by one command."""
    document, seconds = command([*problem.arguments(), *options], timeout=timeout)
    names = ("verdict", "baseline", "best", "speedup", "counts", "error", "environment")
    return {"seconds": seconds, **{name: document.get(name) for name in names}}


def note_codegen(searches: Mapping[str, Row], candidates: object) -> None:
    """The fastest of the compiler's own code, beside its default, that each search timed."""
    for row in candidates if isinstance(candidates, list) else []:
        search = searches.get(row["problem"])
        if search is not None and row["kind"] == CODEGEN:
            search["codegen_us"] = min(row["us"], search.get("codegen_us", math.inf))


def write_spec(problem: Problem, row: Row, target: Target, workspace: Path) -> None:
    """The best microkernel of a search as `autotune bench --spec` takes it, whatever the verdict."""
    best = row["best"] or {}
    if best.get("kind") != "microkernel":
        return
    carrier = built(problem, best["config"], kernel_chip(target, ""), workspace)
    files = Outputs(workspace / BEST / f"{problem.name}-{target.name}.mlir", MICROKERNEL)
    shutil.rmtree(files.objects, ignore_errors=True)  # of an earlier search
    write_parts(files, carrier.parts())


def write_workload(path: Path, problems: Sequence[Problem]) -> None:
    """As `autotune bench` reads it: an option a column."""
    rows = []
    for problem in problems:
        op, *words = problem.allowing("").arguments()  # a file of shapes has no column for it
        row = {"op": op}
        for word, value in zip(words, [*words[1:], "--"], strict=True):
            if word.startswith("--"):
                row[word.removeprefix("--")] = "true" if value.startswith("--") else value
        rows.append(row)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def table(files: Sequence[Mapping[str, Any]]) -> str:
    """Microseconds by the comparison, but for the compiler's best, which is the search's; torch ÷ tuned; seconds. Of a
    problem in several files the last one counts."""
    searches = {name: row for found in files for name, row in found["problems"].items()}
    compared = {row["name"]: row for found in files for row in (found.get("bench") or {}).get("problems", [])}
    left = [name for found in files for name in found.get("left", [])]
    names = ("problem", "default", "codegen", "tuned", "by", "torch", "torch ÷ tuned", "seconds")
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    ratios: dict[str, list[float]] = {}
    for row in sorted(compared.values(), key=lambda row: list(searches).index(row["name"])):
        us = {backend["backend"]: backend["us"] for backend in row["backends"] if backend["us"]}
        name = row["name"]
        search = searches[name]
        ratio = us["torch"] / us["tuned"] if {"torch", "tuned"} <= us.keys() else math.nan
        if not math.isnan(ratio):
            size = f"gemm, {'more' if row['flops'] > MANY else 'fewer'} operations"
            for group in (row["op"], *((size,) if row["op"] == "gemm" else ())):
                ratios.setdefault(group, []).append(ratio)
        kind = ((search.get("best") or {}).get("kind") or search.get("verdict") or "").replace("microkernel", "kernel")
        cells = [f"{us[side]:.1f}" if side in us else "—" for side in ("iree", "tuned", "torch")]
        codegen = f"{search['codegen_us']:.1f}" if "codegen_us" in search else "—"
        took = f"{ratio:.2f} | {search.get('seconds', 0):.0f}"
        lines.append(f"| {name} | {cells[0]} | {codegen} | {cells[1]} | {kind} | {cells[2]} | {took} |")
    for group, some in sorted(ratios.items()):
        mean = math.exp(math.fsum(map(math.log, some)) / len(some))
        lines.append(f"| {group}: geometric mean of {len(some)} | | | | | | {mean:.2f} | |")
    return "\n".join([*lines, *(f"not tuned for want of time: {name}" for name in left)])


if __name__ == "__main__":
    main()
