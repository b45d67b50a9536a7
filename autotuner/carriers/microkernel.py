"""Renders the preprocessing spec that replaces operations by hand-written kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autotuner.carriers.provenance import ENTRY, OBJECTS, Provenance, text_dictionary
from autotuner.carriers.render import checked
from autotuner.errors import UsageError
from autotuner.microkernels.instance import Binding, Call, Instance
from autotuner.patterns.forms import DETACH, Forms, read_forms
from autotuner.problems import Problem
from autotuner.problems.epilogue import TURN
from autotuner.system.digests import file_digest
from autotuner.system.templates import render
from autotuner.targets.backends import Backend, backend_of

SPEC_FLAG = "--iree-preprocessing-transform-spec-filename"
OBJECTS_FLAG = "--iree-hal-executable-object-search-path"
OBJECTS_FOLDER = "objects"
_FILE = re.compile(r"[\w.+-][\w .+-]*")


@dataclass(frozen=True, slots=True)
class Buffer:
    """A parameter of the kernel, as the function around it has it."""

    number: int
    binding: Binding
    last: bool
    """No buffer that is passed follows."""

    @property
    def type(self) -> str:
        """As the call has it: a result in parts has one more dimension."""
        tensor, parts = self.binding.tensor, self.binding.parts
        return (replace(tensor, shape=(parts, *tensor.shape)) if parts > 1 else tensor).mlir

    @property
    def mutable(self) -> bool:
        """It is a result of the dispatch; nobody reads what scratch becomes."""
        return self.binding.access != "read"

    @property
    def tied(self) -> bool:
        """The result comes into a tensor that is passed: IREE puts other results behind all operands."""
        return self.mutable and (self.binding.zeroed or not self.last)

    @property
    def own(self) -> bool:
        """It needs a tensor beside the problem's operands."""
        return self.tied or (
            not self.mutable and bool(self.binding.permutation or self.binding.panels or self.binding.pitch)
        )

    @property
    def value(self) -> str:
        if self.mutable and not self.binding.zeroed:
            return f"%empty{self.number}"
        return f"%buffer{self.number}" if self.own else f"%arg{self.binding.operand}"


@dataclass(frozen=True)
class Kernel:
    """All that the templates ask for."""

    number: int
    call: Call
    target: str
    """The executable target that the compiler has on this processor; empty on GPUs."""
    forms: Forms

    @property
    def instance(self) -> Instance:
        return self.call.instance

    @property
    def problem(self) -> Problem:
        return self.call.problem

    @property
    def backend(self) -> Backend:
        return backend_of(self.instance.chip)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(operand.mlir for operand in self.problem.operands[:-1])

    @property
    def function(self) -> str:
        return function_name(self.number)

    @property
    def executable(self) -> str:
        return executable_name(self.number)

    @property
    def hashes(self) -> str:
        """The SHA-256 of each object, as an MLIR dictionary: a set of files that was copied can be verified."""
        files = {path.name: file_digest(path) for path in self.instance.objects}
        return text_dictionary(files)

    @property
    def constants(self) -> tuple[int, ...]:
        """As i32, which has a sign."""
        return tuple(c - (1 << 32) if c >= 1 << 31 else c for c in self.instance.constants)

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        bindings = self.instance.bindings
        last = max(i for i, b in enumerate(bindings) if b.access == "read" or b.zeroed)
        return tuple(Buffer(i, binding, i >= last) for i, binding in enumerate(bindings))

    @property
    def passed(self) -> tuple[Buffer, ...]:
        """What the dispatch takes; a result that is not tied is no operand."""
        return tuple(b for b in self.buffers if not b.mutable or b.tied)

    @property
    def results(self) -> tuple[Buffer, ...]:
        """What the dispatch gives: the problem's result, and scratch that nobody reads. Scratch that is passed goes
        last: behind another result IREE copies the problem's one into its place."""
        return tuple(sorted((b for b in self.buffers if b.mutable), key=lambda b: b.tied and b != self.written))

    @property
    def written(self) -> Buffer:
        """The problem's result."""
        return next(b for b in self.buffers if b.binding.access == "write")

    @property
    def evaluates(self) -> bool:
        """Its weights are folded, transposed or packed before it is called: of constants, by the compiler."""
        folded = any(match.function == "folded" for match in self.forms.matches)
        return folded or any(b.own and not b.mutable for b in self.buffers)


def function_name(number: int) -> str:
    """The function around the kernel of this call."""
    return f"autotune_microkernel_{number}"


def executable_name(number: int) -> str:
    """The executable of this call, on a processor."""
    return f"autotune_microkernel_{number}_executable"


def marker(call: Call) -> tuple[str, ...]:
    """What tells a GPU kernel's dispatch from others: the symbol, and the types of what goes in and comes out."""
    kernel = Kernel(0, call, "", Forms(()))
    return (call.instance.symbol, *(buffer.type for buffer in (*kernel.passed, *kernel.results)))


def spec_mlir(
    calls: Sequence[Call],
    *,
    target: str = "",
    header: Sequence[str] = (),
    provenances: Sequence[Provenance] = (),
    forms: Sequence[Forms] = (),
) -> str:
    """One spec for all of these kernels. `target` is what `executable_target` reads; only processors need it.

    With `provenances`, one for each call, a spec also records what its objects are, so they must be there. `forms` are
    how a program has the problem of each; without them it is looked for as its own template writes it.
    """
    looked_for = forms or [read_forms(call.problem) for call in calls]
    pairs = zip(calls, looked_for, strict=True)
    kernels = [_kernel(number, call, target=target, forms=those) for number, (call, those) in enumerate(pairs)]
    pads = list(dict.fromkeys(pad for kernel in kernels for pad in kernel.forms.pads))
    joins = list(dict.fromkeys(join for kernel in kernels for join in kernel.forms.joins))
    return render(
        "microkernel_spec.mlir.j2",
        kernels=kernels,
        pads=pads,
        joins=joins,
        evaluates=bool(joins) or any(kernel.evaluates for kernel in kernels),
        detach=DETACH if any(kernel.forms.detached for kernel in kernels) else "",
        sink=sorted({name for kernel in kernels for name in kernel.forms.sunk}),
        turn=TURN,
        passes=_passes(kernels),
        header=checked(header),
        provenances=[provenance.attribute() for provenance in provenances],
        provenance_name=ENTRY,
        objects_name=OBJECTS,
    )


def _passes(kernels: Sequence[Kernel]) -> list[list[tuple[int, int, str]]]:
    """The matchers, by kernel and form, that may be tried together, each with what is called in its place: a whole is
    looked for before its parts."""
    sizes: dict[int, list[tuple[int, int, str]]] = {}
    for kernel in kernels:
        for number, match in enumerate(kernel.forms.matches):
            call = f"{kernel.number}_{match.function}_{number}" if match.function else f"{kernel.number}"
            sizes.setdefault(len(match.operations), []).append((kernel.number, number, call))
    return [sizes[size] for size in sorted(sizes, reverse=True)]


def object_files(instances: Sequence[Instance]) -> tuple[tuple[str, bytes], ...]:
    """The objects as a compile's own files, in the folder that `OBJECTS_FOLDER` names."""
    paths = {path.name: path for i in instances for path in i.objects}
    return tuple((f"{OBJECTS_FOLDER}/{name}", path.read_bytes()) for name, path in paths.items())


def object_flags(objects: Iterable[Path]) -> tuple[str, ...]:
    """Where objects lie: a spec has their names only, so that it can move with them."""
    folders = dict.fromkeys(path.absolute().parent for path in objects)
    return tuple(f"{OBJECTS_FLAG}={folder}" for folder in folders)


def _kernel(number: int, call: Call, *, target: str, forms: Forms) -> Kernel:
    for path in call.instance.objects:
        if not _FILE.fullmatch(path.name):
            raise UsageError(
                f"{call.instance.name}: the object's name {path.name!r} cannot stand in a spec.",
                remedy="Rename it: letters, digits, dots, dashes and underscores.",
            )
    on_host = backend_of(call.instance.chip).on_host
    if on_host and not target:
        raise ValueError("a kernel for a processor needs the compiler's executable target")
    return Kernel(number, call, target if on_host else "", forms)
