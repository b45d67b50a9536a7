"""What a built candidate costs, and how much of a run is the tuner itself.

    python -m benchmarks.build_cost [--target cpu] [--builds 50] [--whole]

Core-seconds are the user and system time of the compiler's processes (rusage of children), with an empty cache: once
for what all candidates of a problem share, with the first of them, and for each of a random sample of them as the
search builds it, ready to be timed. What the tuner's own process uses for a candidate is said beside it. `--whole`: the
tuner's own share, the CPU time of its own process over the wall time of a whole run on this processor.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, median

import numpy as np

from autotuner import Gemm, Options, Target, tune
from autotuner.build import Builder
from autotuner.iree.tools import Tools
from autotuner.system.cache import Cache
from benchmarks.machine import machine
from benchmarks.success import TIMEOUT, make_plan

REPEAT = 8
"""How often a dispatch is repeated in a timed module: any number but one."""


def used(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def build(problem: Gemm, target: Target, *, count: int, seed: int) -> None:
    """One after the other: what the children use in the meantime is then one candidate's."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
        builder, before = Builder(Tools.find(), Cache(Path(folder))), used(resource.RUSAGE_CHILDREN)
        plan = make_plan(problem, target.name, builder, executor)
        builder.build(plan.job(plan.candidate(plan.space[0], id="first"), timeout=TIMEOUT, repeat=REPEAT, timed=True))
        once, own, each, built = used(resource.RUSAGE_CHILDREN) - before, 0.0, list[float](), 0
        for number, row in enumerate(plan.space.sample(count, np.random.default_rng(seed))):
            candidate = plan.candidate(plan.space[int(row)], id=f"c{number}")
            before, own_before = used(resource.RUSAGE_CHILDREN), used(resource.RUSAGE_SELF)
            built += builder.build(plan.job(candidate, timeout=TIMEOUT, repeat=REPEAT, timed=True)).ok
            each.append(used(resource.RUSAGE_CHILDREN) - before)
            own += used(resource.RUSAGE_SELF) - own_before
    print(
        f"{target.name} {problem.name}: {once:.2f} core-seconds once, {fmean(each):.3f} for each of {count} candidates "
        f"(median {median(each):.3f}), {built} built; {own / count:.3f} in the tuner's own process",
        flush=True,
    )


def run(problem: Gemm, target: Target, *, trials: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOTUNE_CACHE_DIR"] = str(Path(folder) / "cache")
        before, wall = used(resource.RUSAGE_SELF), time.monotonic()
        whole = tune(problem, target, options=Options(workspace=Path(folder), trials=trials, budget=600.0))
        share = (used(resource.RUSAGE_SELF) - before) / (time.monotonic() - wall)
    seconds = {name: round(value, 2) for name, value in whole.seconds.items()}
    print(f"whole run: {whole.counts.asked} candidates in {seconds['total']} s wall, {seconds}")
    print(f"the tuner's own CPU time: {share:.1%} of the wall time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--shape", default="512x512x1024")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--builds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--whole", action="store_true", help="a whole run on this processor, too")
    arguments = parser.parse_args()
    target = Target.parse(arguments.target)
    problem = Gemm.parse(shape=arguments.shape, dtype=arguments.dtype or ("f32" if target.backend.on_host else "f16"))
    print(f"machine: {machine()}")
    build(problem, target, count=arguments.builds, seed=arguments.seed)
    if arguments.whole:
        run(problem, target, trials=arguments.builds)


if __name__ == "__main__":
    main()
