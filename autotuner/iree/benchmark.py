"""iree-benchmark-module: its command lines, and what it prints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    cache: CacheState = "warm"
    """Cold: single calls on buffers that no call of late has touched."""


def benchmark_command(
    tools: Tools, vmfb: Path, benchmark: Benchmark, *, device: str, repetitions: int = 3
) -> list[str]:
    return [
        *_command(tools, vmfb, benchmark.invocation, device=device),
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={benchmark.seconds:g}s",
        f"--benchmark_min_warmup_time={benchmark.seconds:g}",
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


def read_statistics(text: str) -> dict[str, float] | None:
    """µs of one call that each dispatch takes, by its export's name; None where nothing is said of any."""
    try:
        rows = json.loads(text)["benchmarks"]
        whole = next(row for row in rows if "percent" not in row)
        us = float(whole["real_time"]) * _UNIT_US[whole["time_unit"]]
        parts = [row for row in rows if "percent" in row]
        return {str(row["name"]).split("/", 1)[1]: us * float(row["percent"]) / 100 for row in parts} or None
    except (ValueError, KeyError, StopIteration, IndexError):
        return None
