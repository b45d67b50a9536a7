"""iree-run-module: how a module's function is called, and the command lines that call it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.iree.tools import Tools
from autotuner.system import process

_STATUS = re.compile(r"(?:\S+:\d+: )?([A-Z_]{4,}; .*)")
"""How the runtime words a failure: the place in its source, a status, and what happened, the innermost first."""
_ENDED = ("ended by ", "killed after ")
_SCOPE = re.compile(r"scopes like '([^']*)'")
_NO_DEVICE = "INCOMPATIBLE; HAL device"
_MOST = 300


def failed_because(detail: str) -> str:
    """Of what a failing run said, the reason, in one line: the runtime's first words, or how the process ended."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    if lines and lines[0].startswith(_ENDED):
        return lines[0][:_MOST]
    for line in lines:
        if (status := _STATUS.search(line)) is not None:
            return status[1].rstrip(";: ")[:_MOST]
    return process.last_line(detail)


def known_remedy(detail: str) -> str:
    """What to do where the reason why a run failed is one that users can mend; else empty."""
    if (scope := _SCOPE.search(detail)) is not None:
        return f"Give --parameters {scope[1]}=FILE.irpa." if scope[1] else "Give --parameters FILE.irpa."
    if "'io_parameters' not registered" in detail:
        return "Its weights are in a file of their own: give --parameters SCOPE=FILE.irpa."
    if _NO_DEVICE in detail:
        return "A program that names its device itself (#hal.device.target) is not compiled for --target: take it out."
    return ""


@dataclass(frozen=True)
class Invocation:
    """A function with its inputs, in the words of IREE's tools: plain data, the same for every device."""

    function: str
    inputs: tuple[str, ...]
    """As `--input=` takes them: `4x8xf32=@FILE`, `@FILE.npy`, `2xi32=1 2`."""
    results: tuple[str, ...]
    """The element type of each result."""
    parameters: tuple[str, ...] = ()
    """As `--parameters=` takes them."""

    @property
    def arguments(self) -> list[str]:
        """The flags that give it to iree-run-module and iree-benchmark-module."""
        return [*(f"--input={text}" for text in self.inputs), *(f"--parameters={text}" for text in self.parameters)]


def run_command(tools: Tools, vmfb: Path, invocation: Invocation, *, device: str, outputs: Sequence[Path]) -> list[str]:
    """One call, each result into a file."""
    return [
        str(tools.iree_run_module),
        f"--module={vmfb}",
        f"--function={invocation.function}",
        f"--device={device}",
        *invocation.arguments,
        *(f"--output=@{path}" for path in outputs),
    ]


def list_devices(tools: Tools, driver: str, *, timeout: float = 60.0) -> process.Finished:
    """What a driver finds on this machine."""
    return process.run([tools.iree_run_module, f"--list_devices={driver}"], timeout=timeout)
