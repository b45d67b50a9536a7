"""iree-run-module: how a module's function is called, and the command lines that call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.iree.tools import Tools
from autotuner.system import process


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
