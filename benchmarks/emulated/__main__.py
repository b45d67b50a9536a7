"""Executes candidates and shipped kernels for AMD's chips, a few workgroups of each, and compares with the reference.

    python -m benchmarks.emulated CHECKOUT [--table FILE] [--candidates 20] [--workgroups 2] [--only TEXT]

CHECKOUT is tinygrad's repository (tried at a9069c177a); it needs clang. A line of JSON for each case says how many are
right, how far the worst element is off, in standard deviations of the error that rounding explains, and how far it may
be. Cases that have a line in FILE are passed over: a table is made in as many commands as one likes. Nothing is timed:
see `machine` for what is not modelled.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.errors import AutotuneError
from autotuner.iree.tools import Tools
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.cache import Cache
from benchmarks.emulated.cases import Case, every_case
from benchmarks.emulated.host import UNWRITTEN, Argument, Call, Launched
from benchmarks.emulated.instructions import Emulator
from benchmarks.emulated.machine import CodeObject, Launch, load_emulator
from benchmarks.emulated.programs import Makers, Program

_DAY = 24 * 3600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--table", type=Path, default=Path("emulated.jsonl"), help="lines are added to this file")
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--workgroups", type=int, default=2)
    parser.add_argument("--only", default="", help="cases with this text in their names")
    parser.add_argument("--seconds", type=float, default=300.0, help="for the candidates of a case, and its kernels")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("DEV", "CPU:CLANG")
    if given.here:
        _all_here(given)
        return
    while wanted := _wanted(given):
        done = process.run([sys.executable, "-m", "benchmarks.emulated", *sys.argv[1:], "--here"], timeout=_DAY)
        print(done.stdout, end="")
        print(done.stderr, end="", file=sys.stderr)
        if not done.ok and (after := _wanted(given)):  # what ends the emulator costs that case only
            said = done.stderr.strip().splitlines() or [""]
            _write(given.table, case=after[0].name, error=f"ended with {done.code}: {said[-1][:200]}")
        elif len(_wanted(given)) == len(wanted):
            break


def _wanted(given: argparse.Namespace) -> list[Case]:
    lines = given.table.read_text().splitlines() if given.table.exists() else []
    cases = [case for case in every_case() if given.only in case.name]
    done = {json.loads(line)["case"] for line in lines}
    return [case for case in cases if case.name not in done]


def _write(table: Path, **told: Any) -> None:
    line = json.dumps(told)
    print(line, flush=True)
    with table.open("a") as file:
        file.write(f"{line}\n")


def _all_here(given: argparse.Namespace) -> None:
    """All cases in this process: the emulator makes code for each new instruction once."""
    emulator = load_emulator(given.checkout.absolute())
    with ThreadPoolExecutor(1) as threads:
        for case in _wanted(given):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name) / "programs"
                folder.mkdir()
                executor = BuildExecutor.on(threads, Builder(Tools.find(), Cache(Path(name) / "cache")))
                makers = Makers(case, executor, folder, given.candidates)
                try:
                    told = {"candidates": _tried(makers.specs(), case, emulator, given)}
                    if case.rows is None:
                        told["kernels"] = _tried(makers.shipped(), case, emulator, given)
                except AutotuneError as error:
                    told = {"error": error.message}
            _write(given.table, case=case.name, **told)


def _tried(programs: Iterator[Program], case: Case, emulator: Emulator, given: argparse.Namespace) -> Any:
    tally, began = _Tally(), time.monotonic()
    for program in programs:
        tally.add(program, case.called, emulator, given.workgroups)
        if time.monotonic() > began + given.seconds:
            break
    return asdict(tally)


@dataclass
class _Tally:
    """How many programs are right, and what is wrong with the others."""

    right: int = 0
    tried: int = 0
    worst: float = 0.0
    allowed: float = 0.0
    instructions: int = 0
    """Those of waves that were executed."""
    failures: dict[str, int] = field(default_factory=dict)
    """By their causes; "suspected": it gives other results."""

    def add(self, program: Program, problem: Problem, emulator: Emulator, workgroups: int) -> None:
        self.tried += 1
        if program.failure:
            self._failed(program.failure)
            return
        try:
            off, most, count = Executed(program, emulator, workgroups).compare(problem)
        except (NotImplementedError, RuntimeError, AssertionError, KeyError) as error:
            what = re.search(r"[a-z]+_\w+.*", str(error), re.IGNORECASE)
            self._failed(f"not emulated: {what[0][:60] if what else type(error).__name__}")
            return
        self.instructions += count
        if off <= most:
            self.right, self.worst, self.allowed = self.right + 1, max(self.worst, round(off, 2)), round(most, 1)
        else:
            self._failed("suspected")
            print(f"suspected: {off:.2g} deviations off: {program.what}", file=sys.stderr, flush=True)

    def _failed(self, why: str) -> None:
        self.failures[why] = self.failures.get(why, 0) + 1


class Executed:
    """One program on the emulator."""

    def __init__(self, program: Program, emulator: Emulator, workgroups: int) -> None:
        self.program, self.emulator, self.workgroups = program, emulator, workgroups
        self.codes = {name: code for path in program.codes for code in [CodeObject(path)] for name in code.kernels}
        self.count = 0

    def compare(self, problem: Problem) -> tuple[float, float, int]:
        """The worst element's error and the allowed one, in deviations, and the number of executed instructions."""
        inputs, output = problem.inputs(1), problem.output
        kind = np.dtype(output.element.numpy)
        storage = np.full(int(np.prod(output.shape)) * kind.itemsize, UNWRITTEN, np.uint8)
        arguments = [Argument(one.shape, np.ascontiguousarray(one).reshape(-1).view(np.uint8)) for one in inputs]
        result = Call(self.program.host, [*arguments, Argument(output.shape, storage)]).run(self._launch)
        result = result[: storage.size]
        there = (result.reshape(*output.shape, kind.itemsize) != UNWRITTEN).any(axis=-1)
        if not there.any():
            raise RuntimeError("it_has written nothing")
        reference = problem.reference(inputs)
        if reference is None:
            raise NotImplementedError("problem_without a reference")
        bound = problem.bound(inputs, reference)
        wide = result.view(kind).reshape(output.shape).astype(np.float64)
        errors = np.maximum(np.abs(wide - reference) - bound.slack, 0) / np.maximum(bound.deviation, 1e-30)
        found = errors[there]
        off = float("inf") if np.isnan(found).any() else float(found.max())
        return off, bound.worst_of(found.size), self.count

    def _launch(self, one: Launched, last: bool) -> None:
        code, instance = self.codes[one.kernel], self.program.instance
        own = instance if instance is not None and instance.symbol == one.kernel else None
        block = own.workgroup_size if own else tuple(code.kernels[one.kernel][".reqd_workgroup_size"])
        shared = own.local_memory if own else 0
        launch = Launch(self.emulator, code, one.kernel, one.pieces, one.constants, one.grid, block, shared)
        x, y, z = one.grid
        count = x * y * z
        chosen = np.arange(count)
        if last and not one.zeroed:
            sampled = np.random.default_rng(0).choice(count, min(self.workgroups, count) - 1, replace=False)
            chosen = np.unique([*sampled, count - 1])  # the last one, at the edges, is always among them
        launch.run([(int(at) % x, int(at) // x % y, int(at) // x // y) for at in chosen])
        self.count += launch.executed


if __name__ == "__main__":
    main()
