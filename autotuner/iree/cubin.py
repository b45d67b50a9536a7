"""What stands in a cubin, NVIDIA's machine code: its kernels, how each is called, its registers and its memory.

NVIDIA does not document the attributes of its `.nv.info` sections; what is read here is what `cuobjdump -elf` names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_CODE, _ATTRIBUTES, _SHARED, _TOOLS = ".text.", ".nv.info", ".nv.shared.", ".note.nv.tkinfo"
_MADE_FOR = re.compile(rb"-arch (sm_[0-9]{2,4}[af]?)\b")
_SM_SECOND = 8
"""From this version of the ELF's ABI on, that of CUDA 13, the chip stands in the second byte of the flags."""
_SIZED, _STEP = 4, 4
"""The form of an attribute whose bytes follow; of others they are the two after form and name."""
_MOST_THREADS, _REQUIRED_THREADS, _STACK, _PARAMETER, _REGISTERS, _CLUSTER = 0x05, 0x10, 0x11, 0x17, 0x2F, 0x3D
_SIZE_SHIFT = 18
_OWN_SHARED, _FIRST_WITH_OWN = 1024, 90
"""Bytes at the begin of shared memory that are the system's, and the chip that has them first: they are not counted
where limits are."""


@dataclass(frozen=True, slots=True)
class CubinKernel:
    """One kernel. None: the file does not say."""

    name: str
    parameters: tuple[tuple[int, int], ...]
    """Offset and size of each, in their order."""
    required: tuple[int, int, int] | None
    most: tuple[int, int, int] | None
    """Threads of a workgroup."""
    cluster: tuple[int, int, int] | None
    """Workgroups that are launched together: a grid must have a multiple of them."""
    registers: int | None
    stack: int | None
    shared: int
    """Static bytes that are the kernel's own."""
    code: int


@dataclass(frozen=True, slots=True)
class Cubin:
    chip: str
    kernels: tuple[CubinKernel, ...]


def read_cubin(elf: ELFFile) -> Cubin:
    """Its kernels; a ValueError where attributes do not lie within their section."""
    sections = {section.name: section for section in elf.iter_sections()}
    chip = _chip(elf, sections[_TOOLS].data() if _TOOLS in sections else b"")
    table = sections.get(".symtab")
    symbols = [symbol.name for symbol in table.iter_symbols()] if isinstance(table, SymbolTableSection) else []
    of_all: dict[tuple[int, str], int] = {}
    for number, data in _attributes(sections[_ATTRIBUTES].data() if _ATTRIBUTES in sections else b""):
        if number in (_REGISTERS, _STACK):
            index, value = struct.unpack("<II", data[:8])
            of_all[number, symbols[index]] = value
    kernels = []
    for name in sections:
        kernel = name.removeprefix(_CODE)
        if not name.startswith(_CODE) or f"{_ATTRIBUTES}.{kernel}" not in sections:
            continue
        attributes = list(_attributes(sections[f"{_ATTRIBUTES}.{kernel}"].data()))
        shared = sections.get(f"{_SHARED}{kernel}")
        sizes = {number: _three(data) for number, data in attributes if number in _THREES}
        kernels.append(
            CubinKernel(
                name=kernel,
                parameters=tuple(sorted(_parameter(data) for number, data in attributes if number == _PARAMETER)),
                required=sizes.get(_REQUIRED_THREADS),
                most=sizes.get(_MOST_THREADS),
                cluster=sizes.get(_CLUSTER),
                registers=of_all.get((_REGISTERS, kernel)),
                stack=of_all.get((_STACK, kernel)),
                shared=0 if shared is None else _without_the_systems(shared["sh_size"], chip),
                code=sections[name]["sh_size"],
            )
        )
    return Cubin(chip, tuple(kernels))


_THREES = (_MOST_THREADS, _REQUIRED_THREADS, _CLUSTER)


def _chip(elf: ELFFile, tools: bytes) -> str:
    """As the assembler was told, which CUDA 13 writes down; else as its flags say, with one for that very chip."""
    said = _MADE_FOR.search(tools)
    if said:
        return said[1].decode()
    flags = elf["e_flags"]
    if elf["e_ident"]["EI_ABIVERSION"] >= _SM_SECOND:
        return f"sm_{flags >> 8 & 0xFF}{'a' if flags & 0x8 else ''}"
    return f"sm_{flags & 0xFF}{'a' if flags & 0x800 else ''}"


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        form, name, size = struct.unpack_from("<BBH", data, at)
        at += _STEP
        if form != _SIZED:
            continue
        if at + size > len(data):
            raise ValueError("its attributes do not lie within it")
        yield name, data[at : at + size]
        at += size


def _parameter(data: bytes) -> tuple[int, int]:
    _, _, offset, size = struct.unpack("<IHHI", data)
    return offset, size >> _SIZE_SHIFT


def _three(data: bytes) -> tuple[int, int, int]:
    x, y, z = struct.unpack("<III", data[:12])
    return x, y, z


def _without_the_systems(size: int, chip: str) -> int:
    number = int(re.findall(r"\d+", chip)[0])
    return max(0, size - _OWN_SHARED) if number >= _FIRST_WITH_OWN else int(size)
