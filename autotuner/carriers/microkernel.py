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
from autotuner.patterns.forms import DETACH, Forms, read_forms, taking
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
    """A parameter of the kernel in the function around it."""

    number: int
    binding: Binding
    last: bool
    """It is the last buffer that is passed."""

    @property
    def type(self) -> str:
        """The type in the call: a result in parts has one more dimension."""
        tensor, parts = self.binding.tensor, self.binding.parts
        return (replace(tensor, shape=(parts, *tensor.shape)) if parts > 1 else tensor).mlir

    @property
    def mutable(self) -> bool:
        """Whether it is a result of the dispatch."""
        return self.binding.access != "read"

    @property
    def tied(self) -> bool:
        """Whether the result is written to a passed tensor: IREE puts other results after all operands."""
        return self.mutable and (self.binding.zeroed or not self.last)

    @property
    def own(self) -> bool:
        """Whether it needs a tensor beside the problem's operands."""
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
    """A call with all values that the templates use."""

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
        """What the kernel computes."""
        return self.call.view or self.call.problem

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
        """The constants as signed i32."""
        return tuple(c - (1 << 32) if c >= 1 << 31 else c for c in self.instance.constants)

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        bindings = self.instance.bindings
        last = max(i for i, b in enumerate(bindings) if b.access == "read" or b.zeroed)
        return tuple(Buffer(i, binding, i >= last) for i, binding in enumerate(bindings))

    @property
    def passed(self) -> tuple[Buffer, ...]:
        """The operands of the dispatch; an untied result is none."""
        return tuple(b for b in self.buffers if not b.mutable or b.tied)

    @property
    def results(self) -> tuple[Buffer, ...]:
        """The results of the dispatch: the problem's result, and scratch. Passed scratch goes last: after another
        result IREE would copy the problem's one into its place."""
        return tuple(sorted((b for b in self.buffers if b.mutable), key=lambda b: b.tied and b != self.written))

    @property
    def written(self) -> Buffer:
        """The problem's result."""
        return next(b for b in self.buffers if b.binding.access == "write")

    @property
    def evaluates(self) -> bool:
        """Whether its weights are folded, transposed or packed before the call: constant ones at compile time."""
        folded = any(match.function == "folded" for match in self.forms.matches)
        return folded or any(b.own and not b.mutable for b in self.buffers)


def function_name(number: int) -> str:
    """The function around the kernel of this call."""
    return f"autotune_microkernel_{number}"


def executable_name(number: int) -> str:
    """The executable of this call, on a processor."""
    return f"autotune_microkernel_{number}_executable"


def marker(call: Call) -> tuple[str, ...]:
    """The marker of a GPU kernel's dispatch: the symbol, and the types of operands and results."""
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
    """One spec for all of these calls. `target` is that of `executable_target`; only processors need it.

    With `provenances`, one for each call, the spec also records the hashes of its objects. `forms` are those of each
    problem in the program, else those of its own template.
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
        sink=taking({name for kernel in kernels for name in kernel.forms.sunk}),
        turn=TURN,
        passes=_passes(kernels),
        header=checked(header),
        provenances=[provenance.attribute() for provenance in provenances],
        provenance_name=ENTRY,
        objects_name=OBJECTS,
    )


def _passes(kernels: Sequence[Kernel]) -> list[list[tuple[int, int, str]]]:
    """The matchers by kernel and form, each with the function that replaces it, in passes: larger forms before their
    parts."""
    sizes: dict[int, list[tuple[int, int, str]]] = {}
    for kernel in kernels:
        for number, match in enumerate(kernel.forms.matches):
            call = f"{kernel.number}_{match.function}_{number}" if match.function else f"{kernel.number}"
            sizes.setdefault(len(match.operations), []).append((kernel.number, number, call))
    return [sizes[size] for size in sorted(sizes, reverse=True)]


def object_files(instances: Sequence[Instance]) -> tuple[tuple[str, bytes], ...]:
    """The objects as files of a compile, in the folder `OBJECTS_FOLDER`."""
    paths = {path.name: path for i in instances for path in i.objects}
    return tuple((f"{OBJECTS_FOLDER}/{name}", path.read_bytes()) for name, path in paths.items())


def object_flags(objects: Iterable[Path]) -> tuple[str, ...]:
    """The flags for the objects' folder: a spec has their names only, so that it can move with them."""
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
    if call.view is not None:
        forms = replace(forms, matches=tuple(replace(match, flat=True) for match in forms.matches))
    return Kernel(number, call, target if on_host else "", forms)
