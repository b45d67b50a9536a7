"""How near honest kernels come to the bound, how far wrong ones are from it, and what IREE's own kernels do.

python -m benchmarks.accuracy                          honest orders of summation and wrong kernels, simulated
python -m benchmarks.accuracy --target cpu|sm_80|...   IREE's default code, built and run on the target's device
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from autotuner.build import Builder, BuildJob
from autotuner.devices.process import ProcessDevice
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data, compare
from autotuner.problems import Array, Bound, Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.system.cache import Cache
from autotuner.system.settings import usable_cores
from autotuner.targets import Target
from benchmarks.machine import machine
from tests.support.simulated_kernels import TYPES, honest, judged, wrong

DEPTHS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
WRONG_SEEDS = 5
MANY = 4096
"""Above this K, where a draw takes long, a tenth of the draws, and one of each wrong kernel."""
_SIDE = 4
"""Rows and columns of a draw's result."""
_AT_ONCE = 1000


def simulated(case: tuple[str, str, int, int]) -> list[str]:
    """Lines of one type and one K: honest kernels over many draws, wrong ones over a few."""
    dtype, acc, k, draws = case
    lines = []
    refused = dict.fromkeys(honest(Gemm(4, 4, k, dtype=dtype, acc=acc)), 0)
    nearest = dict.fromkeys(refused, 0.0)
    for first in range(0, draws, _AT_ONCE):
        count = min(_AT_ONCE, draws - first)
        problem = Gemm(_SIDE, _SIDE, k, batch=count, dtype=dtype, acc=acc)
        inputs = problem.inputs(first)
        reference = problem.reference(inputs)
        bound = problem.bound(inputs, reference)
        for name, kernel in honest(problem).items():
            out = kernel(*inputs).astype(problem.output.element.numpy)
            for draw in range(count):
                one = _of_draw(bound, draw)
                refused[name] += not compare(out[draw], reference[draw], one).ok
                nearest[name] = max(nearest[name], _worst(out[draw], reference[draw], one))
    for name, count in refused.items():
        what = f"{dtype} summed in {acc}, K = {k}, {name}"
        lines.append(f"honest  {what}: {count} of {draws} refused; largest error {nearest[name]:.2f} of the bound")
    problem = Gemm(24, 24, k, dtype=dtype, acc=acc)
    for name, kernel in wrong(problem).items():
        seeds = WRONG_SEEDS if k <= MANY else 1
        passed = [judged(problem, kernel, seed=seed) for seed in range(seeds)]
        both, random, whole = (sum(p) for p in zip(*((v.passed, v.random, v.whole) for v in passed), strict=True))
        what = f"{dtype} summed in {acc}, K = {k}, {name}"
        lines.append(f"wrong   {what}: {both} of {seeds} pass ({random} on random, {whole} on whole numbers)")
    return lines


def _of_draw(bound: Bound, draw: int) -> Bound:
    parts = [x if np.ndim(x) == 0 else np.asarray(x)[draw] for x in (bound.deviation, bound.slack)]
    return replace(bound, deviation=parts[0], slack=parts[1])


def _worst(out: Array, reference: Array, bound: Bound) -> float:
    """The largest error of an element, as a part of what is allowed."""
    allowed = bound.worst_of(reference.size) * np.asarray(bound.deviation) + bound.slack
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(out.astype(np.float64) - reference) / allowed, initial=0.0))


def real_problems() -> Iterator[Problem]:
    types = [("f32", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("i8", "i32")]
    for dtype, acc in types:
        for k in (16, 256, 1024, 4096, 16384, 65536):
            yield Gemm.parse(shape=f"256x256x{k}", dtype=dtype, acc=acc)
        yield Gemm.parse(shape="250x130x1000", dtype=dtype, acc=acc, layout="nt")
    for dtype in ("f16", "f32"):
        yield Conv.parse(shape="2x16x16x320", filter="3x3x64", pad="1x1", dtype=dtype)
        for shape in ("1x4x256x256x64", "1x2x128x2048x128", "1x2x256x1024x80"):
            yield Attention.parse(shape=shape, dtype=dtype)
        yield Attention.parse(shape="1x4x256x256x64", dtype=dtype, causal=True)


def real(name: str, device: str | None) -> None:
    target = Target.parse(name)
    tools = Tools.find()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        builder = Builder(tools, Cache(folder / "cache"))
        for number, problem in enumerate(real_problems()):
            try:
                prepared = target.prepare(problem)
            except UsageError:
                continue  # not a type that this target computes
            job = BuildJob(problem_mlir(prepared), target.compile_flags, timeout=300)
            build = builder.build(job)
            if not build.ok:
                print(f"real    {problem.name}: does not compile", flush=True)
                continue
            data = Data.write(prepared, folder / "data", seed=number)
            checker = Checker(ProcessDevice(tools, device or target.device, folder), data, 300)
            check = checker.check(build.vmfb)
            out, _ = checker.answer(build.vmfb)
            (expected,) = next(iter(checker.data.expected.values()))
            near = _worst(out[0], expected.reference, expected.bound) if out else math.nan
            told = "passes" if check.ok else f"REFUSED {check.detail}"
            print(f"real    {problem.name}: {told}; error {check.error:.2e}, {near:.2f} of the bound", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=usable_cores())
    parser.add_argument("--smallest", type=int, default=DEPTHS[0], help="the smallest K")
    parser.add_argument("--largest", type=int, default=DEPTHS[-1], help="the largest K")
    parser.add_argument("--target")
    parser.add_argument("--device")
    arguments = parser.parse_args()
    print(f"machine {machine()}")
    if arguments.target:
        real(arguments.target, arguments.device)
        return
    depths = [k for k in DEPTHS if arguments.smallest <= k <= arguments.largest]
    draws = {k: arguments.draws if k <= MANY else arguments.draws // 10 for k in depths}
    cases = [(dtype, acc, k, draws[k]) for k in depths for dtype, acc in TYPES]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for lines in pool.map(simulated, cases):
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
