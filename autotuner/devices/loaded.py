"""A module on a device that stays open, and how its function is called."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iree import runtime


def mapped(instance: Any, module: Path) -> Any:
    """The module of a file, in pages of its own that may be written to.

    On a processor, results may be computed in the place of a constant (`util.unfoldable_constant`). That is memory as
    iree-run-module loads a module, and a crash in the read-only pages of `VmModule.mmap`.
    """
    with module.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return runtime.VmModule.wrap_buffer(instance, pages)


@dataclass(frozen=True)
class Function:
    """What a module is called by, and how it takes its inputs."""

    exported: Any
    bare: tuple[bool, ...]
    """Of each input: whether it takes the buffer alone, without shape and type."""
    fences: Callable[[], tuple[Any, Any]] | None
    """Makes the fence that a call waits for and the one that it signals, where the function takes them."""


@dataclass
class Loaded:
    """A module on the device, ready to be called."""

    context: Any
    module: Any
    busy_s: float = 0.0
    """Seconds that it has run since another module did."""
    call_s: float = 0.0
    """Seconds of its last call."""
    beside: list[Loaded] = field(default_factory=list)
    """The same module in contexts of their own, for calls that are in flight at once."""

    def call(self, function: Function, inputs: Iterable[Any], *, results: int = 1) -> tuple[float, Any]:
        """One call, in seconds, and its results: it ends when the device is done."""
        given, out = runtime.VmVariantList(8), runtime.VmVariantList(results)
        for view, bare in zip(inputs, function.bare, strict=True):
            given.push_ref(view.get_buffer() if bare else view)
        fences = function.fences() if function.fences else ()
        for fence in fences:
            given.push_ref(fence)
        start = time.perf_counter()
        self.context.invoke(function.exported, given, out)
        if fences:
            fences[1].wait()
        seconds = time.perf_counter() - start
        self.busy_s += seconds
        self.call_s = seconds
        return seconds, out
