"""Proves that microkernels are called. iree-compile reports no matcher that never fires, so the program is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.carriers.microkernel import executable_name, marker
from autotuner.iree.compile import Compile, inspect
from autotuner.iree.mlir import parse, walk
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Call
from autotuner.patterns.ops import described, is_main
from autotuner.system.text import listed


@dataclass(frozen=True, slots=True)
class KernelCall:
    """The call of a microkernel as it appears in a program; plain data."""

    name: str
    marker: tuple[str, ...]
    """On a GPU: the marker of its dispatch."""
    launch: str
    """The whole call: programs that differ in it are different candidates."""


def kernel_calls(calls: Sequence[Call]) -> tuple[KernelCall, ...]:
    """The calls that a program must have."""
    return tuple(KernelCall(c.instance.name, marker(c), repr(replace(c.instance, objects=()))) for c in calls)


@dataclass(frozen=True, slots=True)
class Proof:
    """The calls found in a preprocessed program, and the operations that were not replaced."""

    found: tuple[int, ...]
    """The number of dispatches of each call's kernel, in the order of the calls."""
    instead: tuple[str, ...]
    """Similar operations that were not replaced, with types and initial values."""

    @property
    def applied(self) -> bool:
        """Whether every kernel is called."""
        return all(self.found)

    def reason(self, calls: Sequence[KernelCall]) -> str:
        """What is wrong; empty: every kernel is called."""
        missing = [call.name for call, count in zip(calls, self.found, strict=True) if not count]
        if not missing:
            return ""
        left = listed(self.instead)
        seen = ["the program has:", *left] if left else ["the program has no such operation left"]
        return "\n".join(["; ".join(f"{name} is not called" for name in missing), *seen])


def preprocess(tools: Tools, program: str | Path, flags: Sequence[str], *, timeout: float) -> str:
    """The program after the spec, as text; raises with the compiler's own words when it refuses."""
    return inspect(Compile(program, tuple(flags), timeout, stop="preprocessing"), tools).text


def prove(text: str, calls: Sequence[KernelCall]) -> Proof:
    """Counts the kernels' dispatches in the text of `preprocess`."""
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        wanted = [({call.marker}, {executable_name(number)}) for number, call in enumerate(calls)]
        instead = [described(op) for op in walk(module.operation) if is_main(op)]
        return Proof(count_calls(module, wanted), tuple(instead))


def count_calls(program: ir.Module, kernels: Sequence[tuple[set[tuple[str, ...]], set[str]]]) -> tuple[int, ...]:
    """Counts the dispatches of each kernel: by its markers, or on a processor by its executables."""
    counts = [0] * len(kernels)
    for op in walk(program.operation):
        for number, (markers, executables) in enumerate(kernels):
            if op.name == "hal.dispatch.extern":
                counts[number] += extern(op) in markers
            elif op.name == "flow.dispatch":
                counts[number] += not executables.isdisjoint(roots(op))
    return tuple(counts)


def extern(op: Any) -> tuple[str, ...]:
    """Symbol and types: two shapes may share a kernel."""
    symbol = ir.StringAttr(op.attributes["export_name"]).value
    tensors = [value.type for value in op.operands if isinstance(value.type, ir.RankedTensorType)]
    return (symbol, *map(str, tensors), *(str(value.type) for value in op.results))


def roots(op: Any) -> list[str]:
    """The executables that a dispatch refers to."""
    return [ir.SymbolRefAttr(entry).value[0] for entry in ir.ArrayAttr(op.attributes["entry_points"])]
