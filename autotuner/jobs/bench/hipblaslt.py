"""hipBLASLt by AMD's own program, hipblaslt-bench: a process for each block. It makes its own inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Timing
from autotuner.devices.sampling import open_sampler, sampled
from autotuner.jobs.bench.given import Given, Task
from autotuner.jobs.bench.result import UNSUPPORTED
from autotuner.jobs.bench.sides import Manner, NoSideError
from autotuner.store.rows import Kind
from autotuner.system import process

_CALLS = ("--cold_iters", 200, "--iters", 100)
_ROTATING = ("--rotating", 512)
"""Megabytes over which a cold timing goes: twice the largest cache of their GPUs."""
_TYPES = {"f32": "f32_r", "f16": "f16_r", "bf16": "bf16_r", "i8": "i8_r", "i32": "i32_r"}
_TYPES |= {"f8E4M3FN": "f8_r", "f8E4M3FNUZ": "f8_fnuz_r"}
_FIGURE, _TIME = "hipblaslt-Gflops", "us"


def refusal(task: Task) -> str:
    """Why hipBLASLt does not compute it; empty where it does."""
    if task["op"] != "gemm":
        return f"hipBLASLt has products, and no {task['op']}"
    limits = task["low"], task["high"]
    if task["added"] or limits != (None, None) or task.get("activation") or task.get("norm"):
        return "hipblaslt-bench is not asked for an epilogue here"
    return ""


def command(program: Path, task: Task, *, device: str, cold: bool) -> list[str]:
    """The product in its terms: it is column-major, so that sizes and operands change places."""
    left, right = (letter.upper() for letter in task["layout"])
    sizes = ["-m", task["n"], "-n", task["m"], "-k", task["k"], "--batch_count", task["batch"]]
    factor, result = _TYPES[task["dtype"]], _TYPES[task["result"]]
    types = ["--a_type", factor, "--b_type", factor, "--c_type", result, "--d_type", result]
    which = device.partition("://")[2].partition("?")[0]
    words = [
        *(program, *sizes, "--transA", right, "--transB", left, *types, "--compute_type", _TYPES[task["acc"]]),
        *("--alpha", 1, "--beta", 0, "--initialization", "hpl", "--use_gpu_timer"),
        *(*_CALLS, "--device", which if which.isdecimal() else 0, *(_ROTATING if cold else ())),
    ]
    return [str(word) for word in words]


def read_us(text: str) -> float | None:
    """The time of a call in what the program prints: a line of titles, and one of figures; None without."""
    lines = [line.rpartition("]:")[2] for line in text.splitlines()]
    for titles, figures in pairwise(lines):
        names = [name.strip() for name in titles.split(",")]
        values = [value.strip() for value in figures.split(",")]
        if _FIGURE in names and _TIME in names and len(values) >= len(names):
            try:
                return float(values[names.index(_TIME)])
            except ValueError:
                return None
    return None


@dataclass(frozen=True)
class Hipblaslt:
    """AMD's own program; with a task and a manner, one product that is timed by it."""

    program: Path
    device: str
    task: Task = field(default_factory=dict)
    manner: Manner | None = None

    version: ClassVar[str] = ""
    kind: ClassVar[Kind] = "library"
    how: ClassVar[str] = "hipblaslt-bench, on inputs of its own"

    def prepare(self, given: Given, manner: Manner) -> Hipblaslt:
        if why := refusal(given.task):
            raise NoSideError(UNSUPPORTED, why)
        return replace(self, task=given.task, manner=manner)

    @property
    def elements(self) -> tuple[str, ...]:
        return (str(self.task["result"]),)

    def answer(self) -> None:
        """It shows none."""

    def time(self, *, repetitions: int) -> Timing:
        del repetitions  # it takes the mean of its own calls
        return self._timed(cold=False)

    def time_cold(self, warm_us: float) -> Timing | None:
        del warm_us
        found = self._timed(cold=True)
        return found if found.ok else None

    def _timed(self, *, cold: bool) -> Timing:
        assert self.manner is not None
        timeout = self.manner.timeout
        self.manner.device.lend(busy=True)
        words = command(self.program, self.task, device=self.device, cold=cold)

        def timed() -> Timing:
            done = process.run(words, timeout=timeout)
            us = read_us(done.stdout) if done.ok else None
            if us is not None:
                return Timing((us,))
            why = done.why() if not done.ok else "it printed no time"
            return Timing((), "run-timeout" if done.timed_out else "run-error", why)

        return sampled(timed, open_sampler(self.device), Conditions("sustained", "cold" if cold else "warm"))
