"""Kernels of AMD's code objects, by the metadata in their notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection
from elftools.elf.segments import NoteSegment

from autotuner.errors import UsageError
from autotuner.iree.kernels import Argument, ArgumentKind, Kernel, KernelFile

_METADATA = (32, "NT_AMDGPU_METADATA")
"""The metadata note, by number and by name; notes before code object v3 have other types and no msgpack."""
_AMD_TARGET = re.compile(r"\bgfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?\b")
_MACH = {
    0x30: "gfx908",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x54: "gfx11-generic",
    0x5F: "gfx9-4-generic",
}
"""Chips by EF_AMDGPU_MACH, the low byte of e_flags: hand-assembled objects name their chip nowhere else."""


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


def read_hsaco(path: Path, elf: ELFFile) -> KernelFile:
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
