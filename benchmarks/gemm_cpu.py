"""Tunes 512x512x1024 f32 on this machine and puts numpy's BLAS beside it.

python benchmarks/gemm_cpu.py [--shape MxNxK] [--budget SECONDS]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console

from autotuner import Gemm, Options, Target, tune
from autotuner.cli.console import PlainReporter
from benchmarks.machine import machine


def blas_us(problem: Gemm, *, repetitions: int = 15) -> float:
    """numpy's own matmul into a given output: the median of repetitions of at least 20 ms."""
    a, b = problem.inputs(0)
    out = np.empty((problem.m, problem.n), np.float32)
    np.matmul(a, b, out=out)
    times = []
    for _ in range(repetitions):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < 0.02:
            np.matmul(a, b, out=out)
            count += 1
        times.append((time.perf_counter() - start) / count * 1e6)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="512x512x1024")
    parser.add_argument("--budget", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    problem = Gemm.parse(shape=arguments.shape, dtype="f32")
    before = blas_us(problem)
    with tempfile.TemporaryDirectory() as folder:
        options = Options(budget=arguments.budget, seed=arguments.seed, workspace=Path(folder), trials=2000)
        reporter = PlainReporter(Console(stderr=True))
        result = tune(problem, Target.parse("cpu"), options=options, reporter=reporter)
    document = result.to_json()
    numpy_us = min(before, blas_us(problem))
    document["numpy_us"] = numpy_us
    json.dump(document, sys.stdout, indent=2)
    print()
    print(f"machine   {machine()}")
    print(f"default   {result.baseline['us']:.0f} µs")
    print(f"stock     {result.stock['us']:.0f} µs  {' '.join(result.stock['flags'])}")
    if result.best is not None:
        print(f"best      {result.best['us']:.0f} µs  {result.best['config']}")
    print(f"numpy     {numpy_us:.0f} µs  ({result.baseline['us'] / numpy_us:.2f}x over the default)")
    print(f"verdict   {result.verdict}  {result.speedup}")


if __name__ == "__main__":
    main()
