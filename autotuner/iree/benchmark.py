"""iree-benchmark-module: its command lines, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autotuner.iree.run import Invocation
from autotuner.iree.tools import Tools

CacheState = Literal["warm", "cold"]
"""Whether a call finds its buffers in the device's last level cache."""
_UNIT_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Benchmark:
    """How modules are timed: all but the module."""

    invocation: Invocation
    seconds: float
    """A repetition, at least; and the warm-up before."""
    timeout: float
    """Seconds of a whole timing, at most."""
    steady: bool = False
    """The warm-up goes on until the device is in a lasting state: others that draw more power ran before."""
    cache: CacheState = "warm"
    """Cold: single calls on buffers that no call of late has touched."""
    warms: bool = True
    """There is a warm-up; of a call that takes seconds it would change nothing."""
    emptied: bool = False
    """For a cold call the cache is filled with something else, in place of a turn to other inputs: what is called has
    buffers of its own, such as a model's weights."""
    flight: int = 1
    """Calls that are in flight at once, where the device stays open: on a GPU none waits for the one before."""


@dataclass(frozen=True, slots=True)
class DispatchTime:
    """What one dispatch takes of a call, by the runtime's statistics."""

    us: float
    """From its first workgroup's begin to its last one's end, all its calls together."""
    busy_us: float = 0.0
    """The work of all cores in that time; 0 where it is not told."""
    calls: float = 1.0


def benchmark_command(
    tools: Tools, vmfb: Path, benchmark: Benchmark, *, device: str, repetitions: int = 3
) -> list[str]:
    return [
        *_command(tools, vmfb, benchmark.invocation, device=device),
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={benchmark.seconds:g}s",
        *([f"--benchmark_min_warmup_time={benchmark.seconds:g}"] if benchmark.warms else []),
    ]


def statistics_command(tools: Tools, vmfb: Path, invocation: Invocation, *, device: str) -> list[str]:
    """A row for each dispatch, where the device keeps them."""
    command = _command(tools, vmfb, invocation, device=device)
    return [*command, "--benchmark_min_time=0.1s", "--dispatch_statistics=true"]


def _command(tools: Tools, vmfb: Path, invocation: Invocation, *, device: str) -> list[str]:
    return [
        str(tools.iree_benchmark_module),
        f"--module={vmfb}",
        f"--function={invocation.function}",
        f"--device={device}",
        *invocation.arguments,
        "--benchmark_format=json",
    ]


def read_repetitions(text: str) -> tuple[float, ...]:
    """µs of each repetition; ValueError, KeyError or TypeError where there are none."""
    runs = [b for b in json.loads(text)["benchmarks"] if b.get("run_type") == "iteration"]
    if not runs:
        raise ValueError("no repetition in it")
    for run in runs:
        if run.get("error_occurred"):
            raise ValueError(run.get("error_message") or "it reports an error")
    return tuple(float(b["real_time"]) * _UNIT_US[b["time_unit"]] for b in runs)


def read_statistics(text: str) -> dict[str, DispatchTime] | None:
    """What each dispatch takes of one call, by its export's name; None where nothing is said of any."""
    try:
        rows = [row for row in json.loads(text)["benchmarks"] if "percent" in row]
        return {str(row["name"]).split("/", 1)[1]: _dispatch_time(row) for row in rows} or None
    except (ValueError, KeyError, IndexError):
        return None


def _dispatch_time(row: Mapping[str, Any]) -> DispatchTime:
    unit = _UNIT_US[row["time_unit"]]
    return DispatchTime(float(row["real_time"]) * unit, float(row.get("cpu_time", 0.0)) * unit, float(row["calls"]))
