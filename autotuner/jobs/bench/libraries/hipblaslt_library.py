"""hipBLASLt by its own benchmark, hipblaslt-bench: an anchor, on inputs and by a clock of its own.

Written from its documents, and never run on a GPU.
"""

from __future__ import annotations

import csv
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries.child import Call, Message, Task, Timer

TYPES = {"f32": "f32_r", "f16": "f16_r", "bf16": "bf16_r", "i8": "i8_r", "i32": "i32_r"}
"""MLIR's types by the names that its clients have for them."""
F8 = {"f8E4M3FN": "f8_r", "f8E5M2": "bf8_r", "f8E4M3FNUZ": "f8_fnuz_r", "f8E5M2FNUZ": "bf8_fnuz_r"}
UNTRIED = "its own inputs and clock, results not compared; never run on a GPU by autotune's authors"
SECONDS = 0.3
"""How long an execution of the program computes, beside its start."""
MOST = 20_000
"""Of products in one execution."""


class Library:
    """A program of AMD's that times one product."""

    title = "hipblaslt"
    program = "hipblaslt-bench"
    types = TYPES | F8

    def __init__(self, device: str, threads: int) -> None:
        del threads
        self._number = device.rpartition(":")[2]
        path = ":".join(filter(None, (os.environ.get("PATH"), "/opt/rocm/bin")))
        found = shutil.which(self.program, path=path)
        if found is None:
            raise FileNotFoundError(
                f"{self.program} is not in PATH: build {self.title}'s clients, and add their folder"
            )
        self._program, self._profiler = found, shutil.which("rocprofv3", path=path)
        self.version = self.program

    def array(self, one: Message) -> Message:
        """It makes its own."""
        return one

    def options(self, *, a: int, b: int, c: int) -> list[str]:
        """Those that it has beside the usual ones; the elements of A, B and C are told."""
        del a, b, c
        return ["--use_gpu_timer"]

    def gemm(self, task: Task, tensors: list[Message]) -> Call:
        if len(tensors) > 2 or task["added"] or (task["low"], task["high"]) != (None, None):
            raise NotImplementedError(f"{self.title} is asked for plain products here")
        if task["acc"] not in ("f32", "i32"):
            raise NotImplementedError(f"{self.title} is asked for sums in f32 and i32 here")
        command = self.command(task, [one["element"] for one in tensors])
        us = self._us(command, executions=10)
        how = f"{self.program}: {UNTRIED}{self._profiled(command, us) if self._profiler else ''}"
        return {"how": how, "compute": list, "inputs": (), "fixed": True, "command": command, "us": us}

    def command(self, task: Task, elements: Sequence[str]) -> list[str]:
        """Its matrices lie by columns: it computes the transpose, B's by A's."""
        m, n, k, batch = (task[name] for name in ("m", "n", "k", "batch"))
        known = {one: self.types.get(one) for one in (*elements, task["result"], task["acc"])}
        if missing := [one for one, name in known.items() if name is None]:
            raise NotImplementedError(f"{self.title} has no {missing[0]} here")
        a, b = ("T" if letter == "t" else "N" for letter in reversed(task["layout"]))
        sizes = {"-m": n, "-n": m, "-k": k, "--batch_count": batch}
        leading = {"--lda": n if a == "N" else k, "--ldb": k if b == "N" else m, "--ldc": n, "--ldd": n}
        result = known[task["result"]]
        types = {"--a_type": known[elements[1]], "--b_type": known[elements[0]], "--c_type": result, "--d_type": result}
        words = {**sizes, **leading, **types, "--compute_type": known[task["acc"]], "--alpha": 1, "--beta": 0}
        options = [*self.turned(a, b), *(str(word) for pair in words.items() for word in pair)]
        return [self._program, *options, "--device", self._number, *self.options(a=n * k, b=m * k, c=m * n)]

    def turned(self, a: str, b: str) -> list[str]:
        return ["--transA", a, "--transB", b]

    def timer(self, call: Call, sets: list[Any], plain: Callable[..., Timer]) -> Timer:
        """One execution of the program is a measurement of many products."""
        del sets, plain
        executions = max(1, min(MOST, round(SECONDS * 1e6 / max(call["us"], 0.1))))
        return lambda: (self._us(call["command"], executions=executions) * executions / 1e6, executions)

    def _us(self, command: Sequence[str], *, executions: int) -> float:
        """Of one product in the mean, as the program prints it: names in a line, and values in the next."""
        lines = [line for line in self._said(self._repeated(command, executions)).splitlines() if line.strip()]
        for names, values in pairwise(lines):
            titles = [name.strip() for name in names.split(",")]
            if f"{self.title}-Gflops" in titles and "us" in titles:
                return float(values.split(",")[titles.index("us")])
        raise ValueError(f"{self.program} has printed no time: {' / '.join(lines[-3:])[-400:]}")

    def _profiled(self, command: Sequence[str], us: float) -> str:
        """What the kernels of one product take by the profiler: those that ran in each of its executions."""
        executions = max(10, min(1000, round(1e5 / max(us, 0.1))))
        taken: dict[str, list[float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            told = ["--kernel-trace", "--output-format", "csv", "-d", folder, "-o", "product"]
            self._said([str(self._profiler), *told, "--", *self._repeated(command, executions)])
            for trace in Path(folder).rglob("*kernel_trace.csv"):
                with trace.open(newline="") as file:
                    for row in csv.DictReader(file):
                        ns = int(row["End_Timestamp"]) - int(row["Start_Timestamp"])
                        taken.setdefault(row["Kernel_Name"], []).append(ns / 1e3)
        often = [one for one in taken.values() if len(one) >= executions]
        kernels = sum(statistics.median(one) * max(1, len(one) // (2 * executions)) for one in often)
        return f"; by rocprofv3 its kernels alone take {kernels:.2f} µs"

    @staticmethod
    def _repeated(command: Sequence[str], executions: int) -> list[str]:
        return [*command, "--cold_iters", str(executions), "--iters", str(executions)]

    def _said(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise ValueError(f"{self.program} ended with {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
        return done.stdout
