"""Tunes one problem of each operation on this machine, and puts other programs beside it.

python -m benchmarks.cpu [gemm|conv|attention|conv-nchw|conv-odd] [--budget SECONDS]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from autotuner import Attention, Conv, Gemm, Options, Problem, Target, tune
from autotuner.cli.console import PlainReporter
from autotuner.measure.check import compare
from benchmarks.machine import machine
from benchmarks.rivals import rivals, time_us

PROBLEMS: dict[str, Problem] = {
    "gemm": Gemm.parse(shape="512x512x1024", dtype="f32"),
    "conv": Conv.parse(shape="1x56x56x64", filter="3x3x64", pad="1x1", dtype="f32"),
    "conv-nchw": Conv.parse(shape="1x56x56x64", filter="3x3x64", pad="1x1", dtype="f32", layout="nchw-fchw"),
    "conv-odd": Conv.parse(shape="1x53x53x33", filter="3x3x37", pad="1x1", dtype="f32"),
    "attention": Attention.parse(shape="1x8x256x256x64", dtype="f32"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=PROBLEMS, nargs="?", default="gemm")
    parser.add_argument("--budget", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    problem = PROBLEMS[arguments.problem]
    others: dict[str, float] = {}
    inputs = problem.inputs(0)
    reference = problem.reference(inputs)
    assert reference is not None
    bound = problem.bound(inputs, reference)

    def time_rivals() -> None:
        """Before and after the run: the better of the two counts, for this machine may have been busy at one."""
        for name, call, result in rivals(problem):
            us = time_us(call)
            others[name] = min(us, others.get(name, us))
            check = compare(result(), reference, bound)
            if not check.ok:
                raise SystemExit(f"{name} computes something else: {check.detail}")

    time_rivals()
    with tempfile.TemporaryDirectory() as folder:
        options = Options(budget=arguments.budget, seed=arguments.seed, workspace=Path(folder), trials=2000)
        reporter = PlainReporter(Console(stderr=True))
        result = tune(problem, Target.parse("cpu"), options=options, reporter=reporter)
    time_rivals()
    json.dump({**result.to_json(), "others_us": others}, sys.stdout, indent=2)
    print()
    print(f"machine   {machine()}")
    print(f"problem   {problem.name}, {problem.flops / 1e6:.0f} MFLOP")
    print(f"default   {result.baseline.us:.0f} µs")
    print(f"stock     {result.stock.us:.0f} µs  {' '.join(result.stock.flags)}")
    if result.best is not None:
        print(f"best      {result.best.us:.0f} µs  {result.best.measured.route} {dict(result.best.config)}")
    for name, us in others.items():
        print(f"{name:9} {us:.0f} µs  ({(result.baseline.us or 0.0) / us:.2f}x over the default)")
    print(f"verdict   {result.verdict} by {result.carrier}: {result.reason}")


if __name__ == "__main__":
    main()
