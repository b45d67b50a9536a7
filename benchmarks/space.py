"""How long it takes to enumerate the legal configurations of a dispatch: `python -m benchmarks.space`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from iree.compiler import ir

from autotuner.build import Builder
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.space.constraints import constraint_operations, read_program
from autotuner.space.dispatch import read_dispatch_space
from autotuner.space.solver import legal
from autotuner.system.cache import Cache
from autotuner.targets import Target
from benchmarks.machine import machine

REPEATS = 3
GEMM = Gemm.parse(shape="4096x4096x4096")
CONV = Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1")
ATTENTION = Attention.parse(shape="1x20x4096x1024x64")
CASES: list[tuple[Problem, str]] = [
    *((GEMM, target) for target in ("gfx942", "gfx950", "gfx1100", "sm_80")),
    *((CONV, target) for target in ("gfx942", "gfx950", "gfx1100", "sm_80")),
    *((ATTENTION, target) for target in ("gfx942", "gfx950", "gfx1100", "sm_80")),
]
FLAGS = ("--iree-codegen-add-tuner-attributes", "--iree-codegen-emit-pipeline-constraints")


def measure(problem: Problem, target: str, builder: Builder) -> str:
    chip = Target.parse(target)
    text = builder.inspect(problem_mlir(problem), [*chip.compile_flags, *FLAGS], timeout=120)
    with ir.Context():
        module = ir.Module.parse(text)
        best, counts = float("inf"), ""
        for _ in range(REPEATS):
            start = time.perf_counter()
            tables = [legal(read_program(operation)) for operation in constraint_operations(module.operation)]
            best = min(best, time.perf_counter() - start)
        counts = " + ".join(f"{len(next(iter(columns.values()))):,}" for columns in tables) or "declared"
    start = time.perf_counter()
    if chip.backend.on_host:
        raise ValueError(f"{target} is no GPU")
    space = read_dispatch_space(text, backend=chip.backend).space
    whole = time.perf_counter() - start
    return f"{problem.name:<42} {target:<8} {best:>8.3f} s  {counts:<24} {whole:>8.3f} s  {len(space):>9,}"


def main() -> None:
    print(f"{machine()}; best of {REPEATS}")
    print(f"{'problem':<42} {'target':<8} {'solve':>10}  {'legal per pipeline':<24} {'all':>10}  {'space':>9}")
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(Tools.find(), Cache(Path(folder)))
        for problem, target in CASES:
            print(measure(problem, target, builder))


if __name__ == "__main__":
    main()
