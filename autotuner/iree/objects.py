"""The kernels of an object file, read before anything is compiled: AMD's code objects, a processor's, NVIDIA's."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection
from elftools.elf.segments import NoteSegment

from autotuner.errors import UsageError
from autotuner.iree.kernels import Argument, ArgumentKind, Kernel, KernelFile
from autotuner.iree.nvidia import read_cubin, read_ptx
from autotuner.system.workspace import refuse_endless

ELF_MAGIC = b"\x7fELF"
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}

_METADATA = (32, "NT_AMDGPU_METADATA")
"""By number and by name; notes before code object v3 have other types, and no msgpack."""
_AMD_TARGET = re.compile(r"\bgfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?\b")
_MACH = {
    0x30: "gfx908",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x43: "gfx1150",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x54: "gfx11-generic",
    0x5F: "gfx9-4-generic",
}
"""EF_AMDGPU_MACH, the low byte of e_flags. Objects that were assembled by hand say their chip nowhere else."""
_LINKERS_OWN = {"_GLOBAL_OFFSET_TABLE_"}
_OUTSIDE = {"STB_GLOBAL", "STB_WEAK", "STB_LOOS"}
"""The last is GNU's unique one, by the name that pyelftools has for its number."""


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
        return _from_elf(path, data) if data.startswith(ELF_MAGIC) else _from_text(path, data)
    except UsageError:
        raise
    except Exception as error:
        # The parsers raise whatever comes to them on damaged bytes.
        why = f"{type(error).__name__}: {error}".removeprefix("ValueError: ")
        raise UsageError(f"{path} is a damaged object: {why}.", remedy="Make or copy it again.") from None


def _from_text(path: Path, data: bytes) -> KernelFile:
    try:
        ptx = read_ptx(path, data.rstrip(b"\x00").decode())
    except UnicodeDecodeError:
        ptx = None
    if ptx is None or not ptx.chip or ptx.version is None:
        what = f"starts with {data[:8]!r}" if data else "is empty"
        raise UsageError(
            f"{path} is no ELF, PTX or hsaco: it {what}.",
            remedy="Give an object (.hsaco, .ptx, .cubin, .o) of the kernel; no bundle, archive or bitcode.",
        )
    return ptx


def _from_elf(path: Path, data: bytes) -> KernelFile:
    elf = open_elf(data)
    machine = elf["e_machine"]
    if machine == "EM_AMDGPU":
        return _from_hsaco(path, elf)
    if machine == "EM_CUDA":
        return read_cubin(path, elf)
    return _from_host(path, elf, _MACHINES.get(machine, str(machine).removeprefix("EM_").lower()))


def open_elf(data: bytes) -> ELFFile:
    """The ELF, or a ValueError where its tables do not lie within it: pyelftools would loop over them for long."""
    elf = ELFFile(io.BytesIO(data))
    tables = (
        ("section", elf["e_shoff"], elf.num_sections(), elf["e_shentsize"]),
        ("program", elf["e_phoff"], elf.num_segments(), elf["e_phentsize"]),
    )
    for name, start, count, size in tables:
        if count and (size < 32 or start + count * size > len(data)):
            raise ValueError(f"its {count} {name} headers do not fit into its {len(data)} bytes")
    return elf


# --- AMD -------------------------------------------------------------------------------------------------------------


def _amd_metadata(elf: ELFFile) -> dict[str, Any] | None:
    """The document of https://llvm.org/docs/AMDGPUUsage.html#code-object-v3-metadata; None where there is none."""
    # Stripped files have no sections, files that are not linked have no segments.
    parts: Iterator[NoteSection | NoteSegment] = (
        part
        for group in (elf.iter_sections(), elf.iter_segments())
        for part in group
        if isinstance(part, NoteSection | NoteSegment)
    )
    for part in parts:
        for note in part.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] in _METADATA:
                document = msgpack.unpackb(note["n_descdata"])
                if not isinstance(document, dict):
                    raise ValueError("its metadata is no map")
                return document
    return None


def _from_hsaco(path: Path, elf: ELFFile) -> KernelFile:
    metadata = _amd_metadata(elf)
    if metadata is None:
        raise UsageError(
            f"{path} is AMD code without a list of kernels.", remedy="Make it with code object version 3 or later."
        )
    named = _AMD_TARGET.search(str(metadata.get("amdhsa.target", "")))
    by_note, by_flags = named[0] if named else None, _MACH.get(elf["e_flags"] & 0xFF)
    chip = by_note or by_flags or f"AMD chip 0x{elf['e_flags'] & 0xFF:x}"
    tables = [section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)]
    sizes = {symbol.name: symbol["st_size"] for table in tables for symbol in table.iter_symbols()}
    kernels = tuple(_amd_kernel(kernel, chip, sizes) for kernel in metadata["amdhsa.kernels"])
    return KernelFile(path, "hsaco", chip, kernels, linked=elf["e_type"] != "ET_REL")


def _amd_kernel(kernel: Mapping[str, Any], chip: str, sizes: Mapping[str, int]) -> Kernel:
    required = kernel.get(".reqd_workgroup_size")
    workgroup = None
    if required is not None:
        x, y, z = map(_whole, required)
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
        code=sizes.get(str(kernel[".name"])),
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


# --- The processor --------------------------------------------------------------------------------------------------


def _from_host(path: Path, elf: ELFFile, chip: str) -> KernelFile:
    tables = {s["sh_type"]: s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)}
    # A library's .symtab may be stripped, and holds names that nobody can link to.
    order = ("SHT_DYNSYM", "SHT_SYMTAB") if elf["e_type"] == "ET_DYN" else ("SHT_SYMTAB",)
    table = next((tables[kind] for kind in order if kind in tables), None)
    # Weak ones are not among the undefined: a linker leaves those at zero.
    functions: dict[str, None] = {}
    defined, undefined, shown = set(), set(), set()
    if table is not None and table["sh_entsize"] < 16:
        raise ValueError("its symbols are too short")
    for symbol in table.iter_symbols() if table is not None else ():
        binding, kind = symbol["st_info"]["bind"], symbol["st_info"]["type"]
        if not symbol.name or binding not in _OUTSIDE:
            continue
        if symbol["st_shndx"] == "SHN_UNDEF":
            if binding == "STB_GLOBAL":
                undefined.add(symbol.name)
            continue
        defined.add(symbol.name)
        if symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED"):
            shown.add(symbol.name)
        # Assembly without a .type directive gives functions no type.
        if kind == "STT_FUNC" or (kind == "STT_NOTYPE" and _is_code(elf, symbol["st_shndx"])):
            functions[symbol.name] = None
    return KernelFile(
        path,
        "elf",
        chip,
        kernels=tuple(Kernel(name, "elf", chip) for name in functions),
        linked=elf["e_type"] != "ET_REL",
        defined=frozenset(defined),
        undefined=tuple(sorted(undefined - _LINKERS_OWN)),
        shown=tuple(sorted(shown)),
    )


def _is_code(elf: ELFFile, section: int | str) -> bool:
    return isinstance(section, int) and bool(elf.get_section(section)["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)
