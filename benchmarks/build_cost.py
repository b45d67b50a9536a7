"""What a built candidate costs, and how much of a run is the tuner itself.

    python benchmarks/build_cost.py [--target cpu] [--builds 50]

Core-seconds are those of the compiler processes (rusage of children), over fresh builds with an empty cache.
The tuner's own share is the CPU time of its own process, over the wall time of a whole run.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import resource
import tempfile
import time
from pathlib import Path

from autotuner import Gemm, Options, Target, tune
from benchmarks.machine import machine


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--shape", default="512x512x1024")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--builds", type=int, default=50)
    arguments = parser.parse_args()
    target = Target.parse(arguments.target)
    problem = Gemm.parse(shape=arguments.shape, dtype=arguments.dtype or ("f32" if target.backend.on_host else "f16"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOTUNE_CACHE_DIR"] = str(Path(folder) / "cache")
        started = children()
        options = Options(workspace=Path(folder), device="none", trials=arguments.builds, budget=3600.0)
        result = tune(problem, target, options=options)
        spent, counts = children() - started, result.counts
        print(f"machine: {machine()}")
        print(
            f"{target.name} {problem.name}: {counts.asked} candidates, {counts.built} built, "
            f"{spent / counts.asked:.3f} core-seconds each, {result.seconds['total']:.1f} s wall"
        )
        if target.backend.on_host:
            os.environ["AUTOTUNE_CACHE_DIR"] = str(Path(folder) / "second")
            before, wall = own(), time.monotonic()
            whole = tune(
                problem, target, options=Options(workspace=Path(folder), trials=arguments.builds, budget=600.0)
            )
            share = (own() - before) / (time.monotonic() - wall)
            seconds = {name: round(value, 2) for name, value in whole.seconds.items()}
            print(f"whole run: {whole.counts.asked} candidates in {seconds['total']} s wall, {seconds}")
            print(f"the tuner's own CPU time: {share:.1%} of the wall time")


if __name__ == "__main__":
    main()
