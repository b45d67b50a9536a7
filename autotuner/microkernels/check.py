"""Checks that an object fits its instance. Nothing reports it later: a wrong launch computes nonsense."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.iree.hazards import hazards
from autotuner.iree.kernels import POINTER, Kernel, KernelFile
from autotuner.iree.objects import read_object
from autotuner.microkernels.chips import is_gpu, runs_on
from autotuner.microkernels.instance import MOST_THREADS, Instance
from autotuner.targets.backends import backend_of
from autotuner.targets.backends.base import KIB

_CONSTANT = 4
_SHOWN = 8
"""The most names that a message lists."""
_STATIC_SHARED = 48 * KIB
"""Bytes of shared memory that a CUDA kernel may declare; more is given at launch only."""
_SERVICES = {
    "hidden_printf_buffer",
    "hidden_hostcall_buffer",
    "hidden_default_queue",
    "hidden_completion_action",
    "hidden_multigrid_sync_arg",
    "hidden_heap_v1",
}
"""Hidden arguments that need somebody on the host. LLVM lists them only where the kernel uses them (`hidden_none` keeps
the place otherwise). The others describe the launch: the driver fills them in, and a kernel may have them or not."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    what: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}. {self.remedy}"


def refuse(instance: Instance) -> None:
    """Raises a UsageError with all that does not fit, one a line."""
    mismatches = check(instance)
    if mismatches:
        lines = "\n".join(f"  {mismatch}" for mismatch in mismatches)
        raise UsageError(f"microkernel {instance.name} does not fit its object:\n{lines}")


def refuse_hazards(name: str, objects: Iterable[Path]) -> None:
    """Raises a UsageError where an object could do more than compute."""
    if found := [what for path in objects for what in hazards(path)]:
        raise UsageError(
            f"microkernel {name} could do more than compute: {_listed(found)}.",
            remedy="A kernel keeps nothing between calls, reads no clock and asks nobody. `ab --trust` takes your own.",
        )


def check(instance: Instance) -> list[Mismatch]:
    """Lists what does not fit. Where the file itself is wrong, its kernels are not looked at."""
    if not instance.objects or (is_gpu(instance.chip) and len(instance.objects) > 1):
        found = f"{len(instance.objects)} objects"
        return [Mismatch("objects", "one object", found, "Give the object that defines the kernel.")]
    try:
        files = [read_object(path) for path in instance.objects]
    except UsageError as error:
        return [Mismatch("object", f"code for {instance.chip}", error.message.removesuffix("."), error.remedy)]
    wrong = [mismatch for file in files for mismatch in _check_file(file, instance.chip)]
    kernels = [kernel for file in files for kernel in file.kernels]
    kernel = next((kernel for kernel in kernels if kernel.symbol == instance.symbol), None)
    if kernel is None:
        return [*wrong, _missing(instance.symbol, [kernel.symbol for kernel in kernels])]
    if not is_gpu(instance.chip):
        return [*wrong, *_check_symbols(files, instance.chip)]
    return [*wrong, *_check_arguments(kernel, instance), *_check_launch(kernel, instance)]


# --- The file -------------------------------------------------------------------------------------------------------


def _check_file(file: KernelFile, chip: str) -> Iterator[Mismatch]:
    if not runs_on(file.chip, chip, translated=file.kind == "ptx"):
        yield Mismatch("chip", chip, file.chip, f"Give the kernel's build for {chip}.")
    elif file.kind == "elf" and file.linked:
        yield Mismatch("linking", "a relocatable object (.o)", "a linked one", "Compile it with -c and give the .o.")
    elif file.kind != "elf" and not file.linked:
        remedy = "Link it: ld.lld -shared; of CUDA, compile it without -rdc=true."
        yield Mismatch("linking", f"a linked {file.kind}", "a relocatable one", remedy)


def _missing(symbol: str, there: Sequence[str]) -> Mismatch:
    near = difflib.get_close_matches(symbol, there, n=3, cutoff=0.6)
    remedy = f"Did you mean {' or '.join(near)}?" if near else 'Take one of those; C++ names need extern "C".'
    return Mismatch("symbol", symbol, _listed(near + [name for name in there if name not in near]), remedy)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "none") + more


def _check_symbols(files: Sequence[KernelFile], chip: str) -> Iterator[Mismatch]:
    # What is visible from outside is called through a table that the loader of IREE's embedded executables leaves as it
    # is on aarch64: the first call of the kernel would end in SIGSEGV.
    shown = [name for file in files for name in file.shown]
    if shown and chip == "aarch64":
        remedy = "Compile it with -fvisibility=hidden: a call of a visible name crashes there."
        yield Mismatch("visible names", "none on aarch64", _listed(shown), remedy)
    defined = frozenset[str]().union(*(file.defined for file in files))
    wanted = sorted({name for file in files for name in file.undefined} - defined)
    if wanted:
        remedy = "An embedded executable has no libc: define them, or compile with -ffreestanding -fno-builtin -O2."
        yield Mismatch("undefined symbols", "none", _listed(wanted), remedy)


# --- The call -------------------------------------------------------------------------------------------------------


def _check_arguments(kernel: Kernel, instance: Instance) -> Iterator[Mismatch]:
    bindings, constants = len(instance.bindings), len(instance.constants)
    if kernel.arguments is not None:
        pointers, values = kernel.of_kind("pointer"), kernel.of_kind("value")
        kinds = [a.kind for a in sorted((*pointers, *values), key=lambda a: a.offset)]
        wanted = ["pointer"] * bindings + ["value"] * constants
        if kinds != wanted:
            remedy = "Bind and pass what the kernel takes; IREE passes all buffers first, then the constants."
            yield Mismatch("arguments", _counted(wanted), _counted(kinds), remedy)
        for name, size, found in (("pointers", POINTER, pointers), ("constants", _CONSTANT, values)):
            odd = [a for a in found if a.size != size]
            if odd:
                shown = ", ".join(f"{a.size} bytes at offset {a.offset} ({a.type})" for a in odd[:_SHOWN])
                remedy = "IREE passes 64-bit pointers and i32 constants: change the kernel's parameters."
                yield Mismatch(f"size of {name}", f"{size} bytes each", shown, remedy)
        services = [a.type for a in kernel.of_kind("hidden") if a.type in _SERVICES]
        if services:
            remedy = "Compile the kernel without printf, assert, malloc and grid synchronisation."
            yield Mismatch("hidden arguments", "none that the host must serve", ", ".join(services), remedy)
    expected = POINTER * bindings + _CONSTANT * constants
    if kernel.arguments is None and kernel.kernarg_size not in (None, expected):
        sum_ = f"{POINTER} x {bindings} bindings + {_CONSTANT} x {constants} constants"
        remedy = "Give the instance the kernel's own arguments: `autotune ab --inspect` lists them."
        yield Mismatch("kernarg segment", f"{expected} bytes ({sum_})", f"{kernel.kernarg_size} bytes", remedy)


def _counted(kinds: Sequence[str]) -> str:
    """Counts arguments in words: `3 pointers, 2 values`."""
    groups = [(kind, len(list(group))) for kind, group in itertools.groupby(kinds)]
    return ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in groups) or "none"


def _check_launch(kernel: Kernel, instance: Instance) -> Iterator[Mismatch]:
    size, threads = instance.workgroup_size, math.prod(instance.workgroup_size)
    most = min(kernel.most_threads or MOST_THREADS, MOST_THREADS)
    if kernel.workgroup_size is not None and kernel.workgroup_size != size:
        remedy = "Set the instance's workgroup_size to the kernel's."
        yield Mismatch("workgroup size", times(size), times(kernel.workgroup_size), remedy)
    elif threads > most:
        found = f"a kernel for at most {most}"
        yield Mismatch("workgroup size", f"{threads} threads ({times(size)})", found, "Use fewer threads.")
    if None not in (instance.subgroup_size, kernel.wavefront) and instance.subgroup_size != kernel.wavefront:
        remedy = f"Build the kernel for {instance.subgroup_size}."
        yield Mismatch("wavefront", str(instance.subgroup_size), str(kernel.wavefront), remedy)
    if any(size % step for size, step in zip(instance.grid, kernel.cluster or (1, 1, 1), strict=True)):
        remedy = "Make the grid a multiple of the kernel's cluster."
        yield Mismatch("grid", f"a multiple of {times(kernel.cluster or ())}", times(instance.grid), remedy)
    static = kernel.local_memory or 0
    limit = backend_of(instance.chip).like(instance.chip).shared
    if static + instance.local_memory > limit:
        found = f"{static + instance.local_memory} ({static} static + {instance.local_memory} dynamic)"
        yield Mismatch("local memory", f"at most {limit} bytes on {instance.chip}", found, "Use smaller tiles.")
    elif kernel.kind in ("ptx", "cubin") and static > _STATIC_SHARED:
        remedy = "Declare it as extern (.extern .shared, extern __shared__) and ask for it by local_memory."
        yield Mismatch("local memory", f"at most {_STATIC_SHARED} static bytes", str(static), remedy)


def times(size: Sequence[int]) -> str:
    """A size in words: `2x3x4`."""
    return "x".join(map(str, size))
