"""iree-run-module and iree-benchmark-module: their command lines, and how their output is read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autotuner.iree.tools import Tools
from autotuner.system import process

_STATUS = re.compile(r"(?:\S+:\d+: )?([A-Z_]{4,}; .*)")
"""A runtime error: the place in the source, a status, and a message, the innermost first."""
_ENDED = ("ended by ", "killed after ")
_SCOPE = re.compile(r"scopes like '([^']*)'")
_MOST = 300


def failed_because(detail: str) -> str:
    """The reason of a failed run in one line: the runtime's first message, or how the process ended."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    if lines and lines[0].startswith(_ENDED):
        return lines[0][:_MOST]
    for line in lines:
        if (status := _STATUS.search(line)) is not None:
            return status[1].rstrip(";: ")[:_MOST]
    return process.last_line(detail)


def known_remedy(detail: str) -> str:
    """The user's remedy for a failed run; empty: none is known."""
    if (scope := _SCOPE.search(detail)) is not None:
        return f"Give --parameters {scope[1]}=FILE.irpa." if scope[1] else "Give --parameters FILE.irpa."
    if "'io_parameters' not registered" in detail:
        return "Its weights are in a file of their own: give --parameters SCOPE=FILE.irpa."
    return ""


@dataclass(frozen=True)
class Invocation:
    """A function with its inputs, in the words of IREE's tools: plain data, the same for every device."""

    function: str
    inputs: tuple[str, ...]
    """Inputs, as `--input=` takes them: `4x8xf32=@FILE`, `@FILE.npy`, `2xi32=1 2`."""
    results: tuple[str, ...]
    """The element types of the results."""
    parameters: tuple[str, ...] = ()
    """Parameter files, as `--parameters=` takes them."""

    @property
    def arguments(self) -> list[str]:
        """Its flags for iree-run-module and iree-benchmark-module."""
        return [*(f"--input={text}" for text in self.inputs), *(f"--parameters={text}" for text in self.parameters)]


def run_command(tools: Tools, vmfb: Path, invocation: Invocation, *, device: str, outputs: Sequence[Path]) -> list[str]:
    """The command of one call that writes each result to a file."""
    words = _words(tools.iree_run_module, vmfb, invocation, device=device)
    return [*words, *(f"--output=@{path}" for path in outputs)]


def _words(program: Path, vmfb: Path, invocation: Invocation, *, device: str) -> list[str]:
    return [
        str(program),
        f"--module={vmfb}",
        f"--function={invocation.function}",
        f"--device={device}",
        *invocation.arguments,
    ]


def list_devices(tools: Tools, driver: str) -> process.Finished:
    """The devices that a driver finds on this machine."""
    return process.run([tools.iree_run_module, f"--list_devices={driver}"], timeout=60.0)


# --- iree-benchmark-module --------------------------------------------------------------------------------------------

CacheState = Literal["warm", "cold"]
"""Whether a call finds its buffers in the device's last level cache."""
_JSON = "--benchmark_format=json"
_UNIT_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Benchmark:
    """The settings of a timing."""

    invocation: Invocation
    seconds: float
    """The least seconds of a repetition, and of the warm-up."""
    timeout: float
    """The time limit of a whole timing."""
    steady: bool = False
    """The warm-up lasts until the device is in a steady state, because other loads ran before."""
    cache: CacheState = "warm"
    """The state of the last level cache. Cold: single calls on buffers that no recent call has touched."""
    warms: bool = True
    """There is a warm-up; a call of seconds needs none."""


@dataclass(frozen=True, slots=True)
class DispatchTime:
    """The time of one dispatch in a call, by the runtime's statistics."""

    us: float
    """µs from the start of its first workgroup to the end of its last, over all its calls."""
    calls: float = 1.0


def benchmark_command(
    tools: Tools, vmfb: Path, benchmark: Benchmark, *, device: str, repetitions: int = 3
) -> list[str]:
    return [
        *_words(tools.iree_benchmark_module, vmfb, benchmark.invocation, device=device),
        _JSON,
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={benchmark.seconds:g}s",
        *([f"--benchmark_min_warmup_time={benchmark.seconds:g}"] if benchmark.warms else []),
    ]


def statistics_command(tools: Tools, vmfb: Path, invocation: Invocation, *, device: str) -> list[str]:
    """The command that prints statistics for each dispatch."""
    words = _words(tools.iree_benchmark_module, vmfb, invocation, device=device)
    return [*words, _JSON, "--benchmark_min_time=0.1s", "--dispatch_statistics=true"]


def read_repetitions(text: str) -> tuple[float, ...]:
    """µs of each repetition; ValueError, KeyError or TypeError where there are none."""
    runs = [b for b in json.loads(text)["benchmarks"] if b.get("run_type") == "iteration"]
    if not runs:
        raise ValueError("no repetition in it")
    for run in runs:
        if run.get("error_occurred"):
            raise ValueError(run.get("error_message") or "it reports an error")
    times = tuple(float(b["real_time"]) * _UNIT_US[b["time_unit"]] for b in runs)
    if impossible := [us for us in times if not 0 < us < math.inf]:
        raise ValueError(f"it reports a time of {impossible[0]:g} µs")
    return times


def read_statistics(text: str) -> dict[str, DispatchTime] | None:
    """Dispatch times of one call, by the export's name; None where there are no statistics."""
    try:
        rows = [row for row in json.loads(text)["benchmarks"] if "percent" in row]
        return {str(row["name"]).split("/", 1)[1]: _dispatch_time(row) for row in rows} or None
    except (ValueError, KeyError, IndexError):
        return None


def _dispatch_time(row: Mapping[str, Any]) -> DispatchTime:
    unit = _UNIT_US[row["time_unit"]]
    return DispatchTime(float(row["real_time"]) * unit, float(row["calls"]))
