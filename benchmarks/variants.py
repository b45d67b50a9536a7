"""Times the variants of the kernels for products that fill a chip of 132 SMs about once, beside torch.

    python -m benchmarks.variants OUT.csv [--seconds 240] [--workspace DIR] [--only TEXT]

`autotune ab` goes through the whole space of gemm_hopper for each problem, and through the first of gemm_triton by
estimate; each result is checked. `autotune bench` then has torch's time (the same type of results). OUT.csv has the
columns of results/reference/h200/triton_variants.csv, and is written after each search. Needs an NVIDIA GPU and torch.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotuner.jobs.suite.load import problems_of
from autotuner.problems import Problem
from benchmarks.hopper import command, write_workload
from benchmarks.winners import SUITE

NAMES = (
    "gemm_1536x1536x2048_bf16_f32_nt",
    "gemm_640x1920x2560_f16_f32_nt",
    "gemm_512x768x1024_f16_f32_nn",
    "gemm_384x512x32768_bf16_f32_nt",
    "gemm_2008x2040x1976_f16_f32_nn",
)
TRIALS: Mapping[str, int] = {"gemm_hopper": 48, "gemm_triton": 12}
"""All of the one, the first by estimate of the other."""
WEIGHTS: Mapping[str, float] = {"gemm_hopper": 2.0, "gemm_triton": 1.0}
"""Of a search's share of the time."""
BENCH_SECONDS = 9.0
"""Kept for torch's time of each problem."""
COLUMNS = ("problem", "kernel", "parameters", "us", "vendor_us")
SHOWN = 5
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--workspace", type=Path, default=Path("variants-workspace"))
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--only", default="", help="problems whose name has this text")
    given = parser.parse_args(argv)
    began = time.monotonic()
    problems = [p for p in problems_of(SUITE) if p.name in NAMES and given.only in p.name]
    searches = [(problem, kernel) for problem in problems for kernel in TRIALS]
    rows: list[Row] = []
    for number, (problem, kernel) in enumerate(searches):
        left = given.seconds - (time.monotonic() - began) - BENCH_SECONDS * len(problems)
        share = WEIGHTS[kernel] / sum(WEIGHTS[other] for _, other in searches[number:])
        shared = ["--target", given.target, "--cache", "warm", "--workspace", str(given.workspace / kernel)]
        budget = max(left * share, 8.0)
        words = ["ab", kernel, *problem.arguments()[1:], "--trials", str(TRIALS[kernel]), "--budget", f"{budget:.0f}s"]
        document, seconds = command([*words, *shared], timeout=budget + 30.0)
        told = document.get("error") or document.get("counts")
        print(
            f"{seconds:5.0f} s  {problem.name}, {kernel}: {document.get('verdict')}, {told}",
            file=sys.stderr,
            flush=True,
        )
        exported, _ = command(["export", "--json", "--workspace", str(given.workspace / kernel)], timeout=60.0)
        rows += timed(problem, kernel, exported)
        write(given.out, rows, {})
    workload = given.out.with_suffix(".workload.csv")
    write_workload(workload, problems)
    left = max(given.seconds - (time.monotonic() - began), 30.0)
    bench = ["bench", str(workload), "--backends", "torch", "--target", given.target, "--cache", "warm"]
    document, _ = command(
        [*bench, "--budget", f"{left:.0f}s", "--workspace", str(given.workspace)], timeout=left + 30.0
    )
    write(given.out, rows, vendor(document))
    print(table(rows, vendor(document)))


def timed(problem: Problem, kernel: str, exported: object) -> Iterator[Row]:
    """The variants of this problem among a workspace's candidates, by the fastest time of each."""
    found: dict[str, float] = {}
    for row in exported if isinstance(exported, list) else []:
        if row["problem"] != problem.name or row["kind"] != "microkernel" or not row["us"]:
            continue
        parameters = " ".join(f"{name}={value}" for name, value in row["config"].items() if name != "kernel")
        found[parameters] = min(row["us"], found.get(parameters, row["us"]))
    for parameters, us in found.items():
        yield {"problem": problem, "kernel": kernel, "parameters": parameters, "us": us}


def vendor(document: Mapping[str, Any]) -> dict[str, float]:
    """torch's µs by the problem's name."""
    return {
        row["name"]: backend["us"]
        for row in document.get("problems", [])
        for backend in row["backends"]
        if backend["backend"] == "torch" and backend["us"]
    }


def write(path: Path, rows: Sequence[Row], torch: Mapping[str, float]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            problem = row["problem"]
            us = [f"{value:.2f}" if value else "" for value in (row["us"], torch.get(problem.name))]
            writer.writerow([" ".join(problem.arguments()), row["kernel"], row["parameters"], *us])


def table(rows: Sequence[Row], torch: Mapping[str, float]) -> str:
    """The fastest of each problem."""
    lines = ["| problem | kernel | parameters | µs | torch | torch ÷ it |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(row["problem"].name for row in rows):
        here = sorted((row for row in rows if row["problem"].name == name), key=lambda row: float(row["us"]))
        for row in here[:SHOWN]:
            beside = f"{torch[name]:.2f} | {torch[name] / row['us']:.2f}" if name in torch else "— | —"
            lines.append(f"| {name} | {row['kernel']} | {row['parameters']} | {row['us']:.2f} | {beside} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
