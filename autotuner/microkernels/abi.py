"""The kernels of an object file and how each wants to be called, read before anything is compiled.

iree-compile embeds whatever it is given: a wrong symbol, a missing constant, another chip's code all end with rc 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from elftools.elf.elffile import ELFFile

from autotuner.errors import UsageError
from autotuner.iree.cubin import read_cubin
from autotuner.iree.objects import amd_chips, amd_metadata, elf_symbols, open_elf, read_ptx
from autotuner.system.workspace import refuse_endless

Kind = Literal["hsaco", "ptx", "cubin", "elf"]
"""AMD's code object, NVIDIA's text and machine code, a processor's object."""

ArgumentKind = Literal["pointer", "value", "hidden"]

_ELF_MAGIC = b"\x7fELF"
_FOREIGN = (
    (b"__CLANG_OFFLOAD_BUNDLE__", "a bundle of code objects", "Compile it with --no-gpu-bundle-output."),
    (b"CCOB", "a compressed bundle of code objects", "Compile it with --no-gpu-bundle-output."),
    (b"BC\xc0\xde", "LLVM bitcode", "Compile it to an object."),
    (b"\x50\xed\x55\xba", "a CUDA fat binary", "Give the PTX or a cubin: nvcc --ptx, nvcc --cubin."),
    (b"!<arch>\n", "an archive", "Give the object that is in it: ar x."),
    (b"MZ", "a Windows file", "Compile it for Linux."),
)

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_WARP = 32
_POINTER = 8


@dataclass(frozen=True, slots=True)
class Argument:
    kind: ArgumentKind
    """Hidden ones come after the others; the driver fills them, not the caller."""
    type: str
    """In the file's own words: global_buffer, by_value, hidden_block_count_x; u64, b32."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. None: the file does not say, or there is no such thing on the chip."""

    symbol: str
    kind: Kind
    chip: str
    arguments: tuple[Argument, ...] | None = None
    kernarg_size: int | None = None
    workgroup_size: tuple[int, int, int] | None = None
    """The only one that it can be launched with."""
    most_threads: int | None = None
    """In a workgroup."""
    wavefront: int | None = None
    local_memory: int | None = None
    """Static bytes."""
    dynamic_memory: bool = False
    """It may use more, given at launch (PTX only: others do not say)."""
    vgpr: int | None = None
    agpr: int | None = None
    sgpr: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    scratch: int | None = None
    registers: int | None = None
    """Of a thread on NVIDIA's chips: a cubin says so, PTX has virtual ones only."""
    cluster: tuple[int, int, int] | None = None
    """Workgroups that NVIDIA's driver launches together: the grid must be a multiple."""

    def of_kind(self, kind: ArgumentKind) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments or () if a.kind == kind)


@dataclass(frozen=True, slots=True)
class KernelFile:
    path: Path
    kind: Kind
    chip: str
    kernels: tuple[Kernel, ...]
    linked: bool = True
    """Not so for what a compiler's -c makes."""
    version: str | None = None
    """Of PTX: what the driver must know."""
    defined: frozenset[str] = frozenset()
    undefined: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    """Symbols that need a C library's loader."""


def inspect(path: Path) -> list[Kernel]:
    """Its kernels, at least one; a UsageError says what the file is instead."""
    return list(_with_kernels(path).kernels)


def _with_kernels(path: Path) -> KernelFile:
    found = read_object(path)
    if not found.kernels:
        raise UsageError(f"{path} defines no kernel.", remedy="Give the object that holds it.")
    return found


def read_object(path: Path) -> KernelFile:
    """The file with its kernels. Whatever the bytes are, nothing but a UsageError is raised."""
    try:
        refuse_endless(path)
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.", remedy="Give the path of an object file.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", remedy="Give the path of an object file.") from None
    try:
        return _from_elf(path, data) if data.startswith(_ELF_MAGIC) else _from_text(path, data)
    except UsageError:
        raise
    except Exception as error:
        # The parsers raise whatever comes to them on damaged bytes.
        why = f"{type(error).__name__}: {error}".removeprefix("ValueError: ")
        raise UsageError(f"{path} is a damaged object: {why}.", remedy="Make or copy it again.") from None


# --- AMD and the processor ------------------------------------------------------------------------------------------


def _from_elf(path: Path, data: bytes) -> KernelFile:
    elf = open_elf(data)
    machine = elf["e_machine"]
    if machine == "EM_AMDGPU":
        return _from_hsaco(path, elf)
    if machine == "EM_CUDA":
        return _from_cubin(path, elf)
    chip = _MACHINES.get(machine, str(machine).removeprefix("EM_").lower())
    symbols = elf_symbols(elf)
    return KernelFile(
        path,
        "elf",
        chip,
        kernels=tuple(Kernel(name, "elf", chip) for name in symbols.functions),
        linked=elf["e_type"] != "ET_REL",
        defined=symbols.defined,
        undefined=symbols.undefined,
        served=symbols.served,
    )


def _from_hsaco(path: Path, elf: ELFFile) -> KernelFile:
    metadata = amd_metadata(elf)
    if metadata is None:
        raise UsageError(
            f"{path} is AMD code without a list of kernels.", remedy="Make it with code object version 3 or later."
        )
    by_note, by_flags = amd_chips(elf, metadata)
    if by_flags and by_note and by_flags != by_note:
        raise UsageError(
            f"{path} is a damaged object: for {by_note} by its note, for {by_flags} by its header.",
            remedy="Make or copy it again.",
        )
    chip = by_note or by_flags or f"AMD chip 0x{elf['e_flags'] & 0xFF:x}"
    kernels = tuple(_amd_kernel(kernel, chip) for kernel in metadata["amdhsa.kernels"])
    return KernelFile(path, "hsaco", chip, kernels, linked=elf["e_type"] != "ET_REL")


def _amd_kernel(kernel: Mapping[str, Any], chip: str) -> Kernel:
    sizes = kernel.get(".reqd_workgroup_size")
    workgroup = None
    if sizes is not None:
        x, y, z = map(_whole, sizes)
        workgroup = (x, y, z)
    arguments = kernel.get(".args")

    def figure(name: str) -> int | None:
        return _whole(kernel[name]) if name in kernel else None

    return Kernel(
        symbol=str(kernel[".name"]),
        kind="hsaco",
        chip=chip,
        arguments=None if arguments is None else tuple(map(_amd_argument, arguments)),
        kernarg_size=figure(".kernarg_segment_size"),
        workgroup_size=workgroup,
        most_threads=figure(".max_flat_workgroup_size"),
        wavefront=figure(".wavefront_size"),
        local_memory=figure(".group_segment_fixed_size"),
        vgpr=figure(".vgpr_count"),
        agpr=figure(".agpr_count"),
        sgpr=figure(".sgpr_count"),
        vgpr_spills=figure(".vgpr_spill_count"),
        sgpr_spills=figure(".sgpr_spill_count"),
        scratch=figure(".private_segment_fixed_size"),
    )


def _amd_argument(argument: Mapping[str, Any]) -> Argument:
    type_ = str(argument[".value_kind"])
    kind: ArgumentKind = "value"
    if type_ == "global_buffer":
        kind = "pointer"
    elif type_.startswith("hidden_"):
        kind = "hidden"
    return Argument(kind, type_, _whole(argument[".offset"]), _whole(argument[".size"]))


def _whole(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"its metadata has {value!r} where a size must be")
    return value


# --- NVIDIA ---------------------------------------------------------------------------------------------------------


def _from_text(path: Path, data: bytes) -> KernelFile:
    for magic, name, remedy in _FOREIGN:
        if data.startswith(magic):
            raise UsageError(f"{path} is {name}; it is no ELF, PTX or hsaco.", remedy=remedy)
    try:
        ptx = read_ptx(data.rstrip(b"\x00").decode())
    except UnicodeDecodeError:
        ptx = None
    if ptx is None or ptx.target is None or ptx.version is None:
        what = f"starts with {data[:8]!r}" if data else "is empty"
        raise UsageError(
            f"{path} is no ELF, PTX or hsaco: it {what}.",
            remedy="Give an object (.hsaco, .ptx, .cubin, .o) of the kernel.",
        )
    kernels = tuple(
        Kernel(
            symbol=entry.name,
            kind="ptx",
            chip=ptx.target,
            arguments=tuple(Argument(p.kind, p.type, p.offset, p.size) for p in entry.parameters),
            workgroup_size=entry.required,
            most_threads=math.prod(entry.most) if entry.most else None,
            wavefront=_WARP,
            local_memory=entry.shared,
            dynamic_memory=entry.dynamic,
        )
        for entry in ptx.entries
    )
    return KernelFile(path, "ptx", ptx.target, kernels, version=ptx.version)


def _from_cubin(path: Path, elf: ELFFile) -> KernelFile:
    cubin = read_cubin(elf)
    kernels = tuple(
        Kernel(
            symbol=kernel.name,
            kind="cubin",
            chip=cubin.chip,
            arguments=tuple(_cubin_argument(offset, size) for offset, size in kernel.parameters),
            workgroup_size=kernel.required,
            most_threads=math.prod(kernel.most) if kernel.most else None,
            wavefront=_WARP,
            local_memory=kernel.shared,
            registers=kernel.registers,
            cluster=kernel.cluster,
        )
        for kernel in cubin.kernels
    )
    return KernelFile(path, "cubin", cubin.chip, kernels, linked=elf["e_type"] != "ET_REL")


def _cubin_argument(offset: int, size: int) -> Argument:
    """It has no types: what is as long as a pointer counts as one."""
    return Argument("pointer" if size == _POINTER else "value", f"b{8 * size}", offset, size)


# --- For a person, and for a program --------------------------------------------------------------------------------


def kernels_table(path: Path) -> list[dict[str, str]]:
    """A row for each kernel; columns in which no row says anything are left out."""
    found = _with_kernels(path)
    rows = [_row(kernel, found) for kernel in found.kernels]
    said = [name for name in rows[0] if any(row[name] for row in rows)]
    return [{name: row[name] for name in said} for row in rows]


def _row(kernel: Kernel, file: KernelFile) -> dict[str, str]:
    known = kernel.arguments is not None
    size = kernel.workgroup_size
    spills = [kernel.vgpr_spills, kernel.sgpr_spills]
    cells: dict[str, object] = {
        "symbol": kernel.symbol,
        "chip": kernel.chip,
        "PTX": file.version,
        "pointers": len(kernel.of_kind("pointer")) if known else None,
        "constants": len(kernel.of_kind("value")) if known else None,
        "hidden": len(kernel.of_kind("hidden")) or None,
        "kernarg": kernel.kernarg_size,
        "workgroup": "x".join(map(str, size)) if size else kernel.most_threads and f"≤ {kernel.most_threads}",
        "wavefront": kernel.wavefront,
        "local memory": None
        if kernel.local_memory is None
        else f"{kernel.local_memory}{' + dynamic' * kernel.dynamic_memory}",
        "registers": kernel.registers,
        "cluster": "x".join(map(str, kernel.cluster)) if kernel.cluster else None,
        "vgpr": kernel.vgpr,
        "agpr": kernel.agpr,
        "sgpr": kernel.sgpr,
        "spills": None if spills == [None, None] else sum(n or 0 for n in spills),
        "undefined": ", ".join(file.undefined),
    }
    return {name: "" if value is None else str(value) for name, value in cells.items()}


def kernels_json(path: Path) -> dict[str, Any]:
    found = _with_kernels(path)
    names = ("kind", "chip", "version", "linked", "undefined")
    return {
        "path": str(path),
        **{name: getattr(found, name) for name in names},
        "kernels": [asdict(kernel) for kernel in found.kernels],
    }
