"""Executes candidates and shipped kernels for AMD's chips, a few workgroups of each, and compares with the reference.

    python -m benchmarks.emulated CHECKOUT [--candidates 20] [--workgroups 2] [--only TEXT] [--seconds 900]

CHECKOUT is tinygrad's repository (tried at a9069c177a) with mfma32.patch from this folder applied; it needs clang. A
line a case says how far the worst element is off, in standard deviations of the error that rounding explains, and how
far it may be. Nothing is timed: see `machine` for what is not modelled.
"""

from __future__ import annotations

import argparse
import os
import re
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.errors import AutotuneError
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import NO_OPERAND, Binding
from autotuner.microkernels.variants import AUTO, find_variants
from autotuner.microkernels.variants import Kernel as Wanted
from autotuner.problems import Gemm, Problem
from autotuner.problems.accuracy import Array
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.dtypes import element_type
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from benchmarks.emulated.instructions import Emulator
from benchmarks.emulated.machine import CodeObject, Launch, Place, load_emulator

TIMEOUT = 120.0
CASES: tuple[tuple[str, Problem], ...] = (
    ("gfx942", Gemm.parse(shape="256x256x256")),
    ("gfx942", Gemm.parse(shape="256x256x256", layout="nt", dtype="bf16")),
    ("gfx942", Gemm.parse(shape="128x128x256", dtype="i8")),
    ("gfx942", Gemm.parse(shape="128x128x256", dtype="f8", layout="nt")),
    ("gfx942", Gemm.parse(shape="128x128x256", dtype="f8row")),
    ("gfx942", Gemm.parse(shape="128x128x256", dtype="f8b128")),
    ("gfx942", Gemm.parse(shape="1x256x512", layout="nt")),
    ("gfx942", Gemm.parse(shape="128x128x128", batch=4)),
    ("gfx942", Conv.parse(shape="2x16x16x64", filter="3x3x64")),
    ("gfx942", Conv.parse(shape="2x16x16x64", filter="3x3x64", layout="nchw-fchw")),
    ("gfx942", Attention.parse(shape="1x2x128x128x64")),
    ("gfx950", Gemm.parse(shape="128x128x256", dtype="f8", layout="nt")),
    ("gfx950", Gemm.parse(shape="128x128x256", dtype="mxfp4")),
    ("gfx950", Gemm.parse(shape="128x128x256", dtype="mxfp8")),
    ("gfx950", Gemm.parse(shape="256x256x256")),
    ("gfx950", Conv.parse(shape="2x16x16x64", filter="3x3x64")),
    ("gfx950", Attention.parse(shape="1x2x128x128x64")),
    ("gfx1100", Gemm.parse(shape="128x128x128")),
    ("gfx1100", Gemm.parse(shape="128x128x128", dtype="i8")),
    ("gfx1100", Gemm.parse(shape="1x256x512", layout="nt")),
    ("gfx1100", Conv.parse(shape="2x16x16x64", filter="3x3x64")),
    ("gfx1100", Attention.parse(shape="1x2x128x128x64")),
    ("gfx1201", Gemm.parse(shape="128x128x128")),
)
"""Small: an emulated multiply-add takes a millionth of a second, and each new instruction a fifth of one, once."""
_WORKGROUPS = re.compile(r"workgroups\(\[%c(\d+)\w*, %c(\d+)\w*, %c(\d+)\w*\]\)")


@dataclass(frozen=True)
class Kernel:
    """One kernel to execute."""

    name: str
    code: Path
    grid: Place
    block: Place
    problem: Problem
    inputs: tuple[Array, ...]
    buffers: tuple[Binding, ...] = ()
    """Its pointers; empty: all operands, in order."""
    constants: tuple[int, ...] = ()
    dynamic_shared: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--workgroups", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each case")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("DEV", "CPU:CLANG")
    # Some of the C that the emulator makes for i8 mixes vectors with and without signs: gcc takes it, clang by this.
    os.environ.setdefault("CCC_OVERRIDE_OPTIONS", "#+-flax-vector-conversions=all")
    if given.case is None:
        _each_apart([f"{problem.name} {target}" for target, problem in CASES], given)
        return
    emulator, began = load_emulator(given.checkout.absolute()), time.monotonic()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as threads:
        folder = Path(name)
        builder = Builder(Tools.find(), Cache(folder / "cache"))
        for target, problem in CASES[given.case : given.case + 1]:
            chip = Target.parse(target)
            executor = BuildExecutor.on(threads, builder)
            for what, kernels in (
                ("candidates", _candidates(chip.prepare(problem), chip, executor, folder, given.candidates)),
                ("shipped kernels", _shipped(chip.prepare(problem), chip, folder)),
            ):
                line = _all_of(kernels, emulator, given.workgroups, until=began + given.seconds)
                if line:
                    print(f"{problem.name} on {target}, {what}: {line}", flush=True)


def _each_apart(names: Sequence[str], given: argparse.Namespace) -> None:
    """Each case in a process of its own: what ends the emulator costs that case only."""
    for number, name in enumerate(names):
        if given.only not in name:
            continue
        words = ["-m", "benchmarks.emulated", given.checkout, "--case", number]
        words += ["--candidates", given.candidates, "--workgroups", given.workgroups, "--seconds", given.seconds]
        done = process.run([sys.executable, *map(str, words)], timeout=2 * given.seconds + TIMEOUT)
        print(done.stdout, end="")
        if not done.ok:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            print(f"{name}: ended with {done.code}: {last[:200]}", flush=True)


def _all_of(kernels: Iterator[Kernel], emulator: Emulator, workgroups: int, *, until: float) -> str:
    """How many kernels are right, and what is wrong with the others."""
    right, worst, allowed, tried, executed, failures = 0, 0.0, 0.0, 0, 0, dict[str, int]()
    for kernel in kernels:
        if time.monotonic() > until:
            break
        tried += 1
        try:
            off, most, count = _execute(kernel, emulator, workgroups)
        except (NotImplementedError, RuntimeError, AssertionError, KeyError) as error:
            what = re.search(r"[a-z]+_\w+", str(error), re.IGNORECASE)
            words = f"not emulated: {what[0] if what else type(error).__name__}"
        else:
            worst, allowed, executed = max(worst, off if off <= most else 0.0), most, executed + count
            right += off <= most
            words = "" if off <= most else f"suspected: {off:.2g} deviations off, with {_registers(kernel.code)}"
        if words:
            failures[words] = failures.get(words, 0) + 1
    told = [f"{count}x {words}" for words, count in failures.items()]
    numbers = f", worst {worst:.2f} of {allowed:.1f} deviations, {executed:,} wave instructions" if right else ""
    return "; ".join([f"{right} of {tried} right{numbers}", *told]) if tried else ""


def _execute(kernel: Kernel, emulator: Emulator, workgroups: int) -> tuple[float, float, int]:
    """The worst element's error and the allowed one, in deviations, and the number of executed instructions."""
    problem, rng = kernel.problem, np.random.default_rng(0)
    out = np.full(problem.output.shape, np.nan if problem.output.element.is_float else -(2**31) + 1).astype(
        problem.output.element.numpy
    )
    before = out.copy()
    arrays = [np.ascontiguousarray(one) for one in kernel.inputs] + [out]
    code = CodeObject(kernel.code)
    passed = [_memory(one, arrays) for one in kernel.buffers] or arrays
    pointers = struct.pack(f"<{len(passed)}Q", *(one.ctypes.data for one in passed))
    arguments = pointers + struct.pack(f"<{len(kernel.constants)}i", *kernel.constants)
    launch = Launch(emulator, code, arguments, kernel.grid, kernel.block, kernel.dynamic_shared)
    every = [(x, y, z) for z in range(kernel.grid[2]) for y in range(kernel.grid[1]) for x in range(kernel.grid[0])]
    chosen = rng.choice(len(every), min(workgroups, len(every)), replace=False)
    launch.run([every[int(number)] for number in chosen])
    reference = problem.reference(kernel.inputs)
    if reference is None:
        raise NotImplementedError("a problem without a reference")
    bound = problem.bound(kernel.inputs, reference)
    written = out.view(np.uint8).reshape(*out.shape, -1) != before.view(np.uint8).reshape(*out.shape, -1)
    there = written.any(axis=-1)
    if not there.any():
        raise RuntimeError("it has written nothing")
    wide = out.astype(np.float64)
    errors = np.maximum(np.abs(wide - reference) - bound.slack, 0) / np.maximum(bound.deviation, 1e-30)
    found = errors[there]
    return float("inf") if np.isnan(found).any() else float(found.max()), bound.worst_of(found.size), launch.executed


def _registers(code: Path) -> str:
    """What most mismatches have in common."""
    found = CodeObject(code)
    kernel = found.kernels[found.first]
    return f"{kernel.get('.agpr_count', 0)} AGPRs and {kernel['.private_segment_fixed_size']} bytes of scratch"


def _memory(binding: Binding, arrays: Sequence[Array]) -> Array:
    return np.zeros(binding.tensor.bytes, np.uint8) if binding.operand == NO_OPERAND else arrays[binding.operand]


def _candidates(
    problem: Problem, target: Target, executor: BuildExecutor, folder: Path, count: int
) -> Iterator[Kernel]:
    """The compiler's own choice and random candidates, as code."""
    inputs = problem.inputs(1)
    try:
        plan = Plan.make(problem, target, executor, timeout=TIMEOUT)
    except AutotuneError as error:
        raise SystemExit(f"{problem.name} on {target.name}: {error}") from error
    rows = plan.space.sample(count - 1, np.random.default_rng(0))
    configs = [*plan.first[:1], *(plan.space[int(row)] for row in rows)]
    computed, given = _as_read(problem, inputs)
    for number, config in enumerate(configs):
        job = plan.job(plan.candidate(config, id=f"c{number}"), timeout=TIMEOUT)
        home = folder / f"{problem.name}-{target.name}-{number}"
        home.mkdir()
        (home / "problem.mlir").write_text(job.program if isinstance(job.program, str) else "")
        (home / "spec.mlir").write_text(job.spec or "")
        words: list[str | Path] = [*job.flags, f"{job.spec_flag}=spec.mlir", "--iree-hal-dump-executable-binaries-to=."]
        words += ["problem.mlir", "--compile-to=hal", "-o", "hal.mlir"]
        done = process.run([executor.builder.tools.iree_compile, *words], timeout=TIMEOUT, cwd=home)
        files = sorted(home.glob("*.hsaco"))
        grids = _WORKGROUPS.findall((home / "hal.mlir").read_text()) if done.ok else []
        if not (files and grids):
            continue  # one that does not build is no matter of this benchmark
        code = CodeObject(files[0])
        kernel = code.kernels[code.first]
        x, y, z = map(int, grids[0])
        bx, by, bz = kernel[".reqd_workgroup_size"]
        yield Kernel(str(config.as_dict()), files[0], (x, y, z), (bx, by, bz), computed, given)


def _as_read(problem: Problem, inputs: tuple[Array, ...]) -> tuple[Problem, tuple[Array, ...]]:
    """The emulator reads gfx942's f8 as gfx950's: so does the reference."""
    if not isinstance(problem, Gemm) or problem.dtype != "f8":
        return problem, inputs
    other = element_type("f8E4M3FN")
    return problem.with_f8(other.name), tuple(one.view(np.uint8).view(other.numpy) for one in inputs)


def _shipped(problem: Problem, target: Target, folder: Path) -> Iterator[Kernel]:
    """The shipped kernels that take it, in their first variants."""
    chip = target.kernel_chip
    found, notes = find_variants([Wanted(AUTO)], problem, chip=chip, workspace=folder)
    for note in notes:
        print(note)
    for variants in found:
        for config in variants.leading()[:2]:
            try:
                instance = variants.call(config).instance
            except AutotuneError as error:  # one that comes without objects, say
                print(f"{variants.manifest.name} for {chip}: {error}")
                break
            if any(one.permutation or one.panels or one.parts > 1 for one in instance.bindings):
                continue  # what IREE prepares around a kernel is not code of the kernel
            yield Kernel(
                f"{instance.name} {config.as_dict()}",
                instance.objects[0],
                instance.grid,
                instance.workgroup_size,
                problem,
                problem.inputs(1),
                instance.bindings,
                instance.constants,
                instance.local_memory,
            )


if __name__ == "__main__":
    main()
