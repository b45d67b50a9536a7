"""Kernels of NVIDIA's files: the entries of a PTX, and a cubin's, which is machine code.

NVIDIA does not document the attributes of a cubin's `.nv.info` sections; what is read is what `cuobjdump -elf` names.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from autotuner.iree.kernels import POINTER, Argument, ArgumentKind, Kernel, KernelFile

WARP = 32
Three = tuple[int, int, int]
_BLANKED = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\n]*"', re.S)
_ENTRY = re.compile(r"\.entry\s+([\w$.%]+)")
_HEADER = re.compile(r"\s*(?:\(([^()]*)\))?([^{}();]*)")
_TARGET = re.compile(r"^\s{0,9}\.target\s+(sm_\w+)", re.M)
_VERSION = re.compile(r"^\s{0,9}\.version\s+(\d{1,3}\.\d{1,3})", re.M)
_THREADS = re.compile(r"\.(maxntid|reqntid)\s+(\d{1,9}(?:\s*,\s*\d{1,9}){0,2})")
_SHARED = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|common)\s+)?\.shared\s+(?:\.align\s+\d{1,9}\s+)?(?:\.v([24])\s+)?\.[busf](\d{1,3})\s+"
    r"[\w$.%]+((?:\s*\[\d{1,9}\])*)\s*[;=]",
    re.M,
)
_DYNAMIC = re.compile(r"^[ \t]*\.extern\s+\.shared\b", re.M)
_TYPE = re.compile(r"\.([busf])(8|16|32|64|128)\b")
_ALIGN = re.compile(r"\.align\s+(\d{1,9})")
_NUMBER = re.compile(r"\d{1,9}")


def read_ptx(path: Path, text: str) -> KernelFile:
    """Reads PTX; other text has no chip or no version."""
    text = without_comments(text)
    found = list(_ENTRY.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)] * bool(found)
    parts = {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}
    bodies = {name: part[: _body_end(part)] for name, part in parts.items()}
    head = text[: found[0].start()] if found else text
    # What the module declares is for all its entries.
    module = "\n".join([head, *(part[len(bodies[name]) :] for name, part in parts.items())])
    shared, dynamic = _shared_bytes(module), bool(_DYNAMIC.search(module))
    version, target = _VERSION.search(head), _TARGET.search(head)
    chip = target[1] if target else ""
    kernels = tuple(_entry(name, body, chip, shared, dynamic) for name, body in bodies.items())
    return KernelFile(path, "ptx", chip, kernels, version=version[1] if version else None, texts=parts)


def without_comments(text: str) -> str:
    """The text with comments and strings blanked, so that offsets stay."""
    return _BLANKED.sub(lambda m: " " * len(m[0]), text)


def _body_end(text: str) -> int:
    """The end of the first pair of braces."""
    depth = 0
    for brace in re.finditer("[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth <= 0:
            return brace.end()
    return len(text)


def _entry(name: str, body: str, chip: str, shared: int, dynamic: bool) -> Kernel:
    header = _HEADER.match(body)
    parameters, directives = (header[1] or "", header[2]) if header else ("", "")
    threads = {kind: _three(map(int, sizes.split(","))) for kind, sizes in _THREADS.findall(directives)}
    return Kernel(
        symbol=name,
        kind="ptx",
        chip=chip,
        arguments=tuple(_parameters(parameters)),
        workgroup_size=threads.get("reqntid"),
        most_threads=math.prod(threads["maxntid"]) if "maxntid" in threads else None,
        wavefront=WARP,
        local_memory=shared + _shared_bytes(body),
        dynamic_memory=dynamic or bool(_DYNAMIC.search(body)),
    )


def _three(sizes: Iterable[int]) -> Three:
    x, y, z, *_ = [*sizes, 1, 1]
    return x, y, z


def _shared_bytes(text: str) -> int:
    total = 0
    for lanes, bits, dims in _SHARED.findall(text):
        size = int(bits) // 8 * int(lanes or 1)
        for dim in _NUMBER.findall(dims):
            size *= int(dim)
        total += size
    return total


def _parameters(text: str) -> Iterator[Argument]:
    """The parameters of an entry; a 64-bit integer counts as a pointer, since PTX need not mark them."""
    offset = 0
    for declaration in text.split(","):
        if not declaration.strip():
            continue
        type_ = _TYPE.search(declaration)
        pointer = ".ptr" in declaration
        size = int(type_[2]) // 8 if type_ else 0
        # After .ptr it is the alignment of what the pointer points to.
        align = None if pointer else _ALIGN.search(declaration)
        step = int(align[1]) if align and int(align[1]) else max(size, 1)
        array = re.search(r"\[\s*(\d{1,9})\s*\]\s*$", declaration)
        if array:
            size *= int(array[1])
        offset = -(-offset // step) * step
        plain = type_ is not None and type_[1] != "f" and type_[2] == "64" and array is None
        kind: ArgumentKind = "pointer" if pointer or plain else "value"
        yield Argument(kind, type_[0].lstrip(".") if type_ else "opaque", offset, size)
        offset += size


# --- Cubins ---------------------------------------------------------------------------------------------------------

_CODE, _ATTRIBUTES, _SHARED_DATA, _TOOLS = ".text.", ".nv.info", ".nv.shared.", ".note.nv.tkinfo"
_MADE_FOR = re.compile(rb"-arch (sm_[0-9]{2,4}[af]?)\b")


class _Attribute(IntEnum):
    """A kernel's attributes, by `cuobjdump`'s numbers."""

    MOST_THREADS = 0x05
    REQUIRED_THREADS = 0x10
    STACK = 0x11
    PARAMETER = 0x17
    REGISTERS = 0x2F
    CLUSTER = 0x3D


_THREES = (_Attribute.MOST_THREADS, _Attribute.REQUIRED_THREADS, _Attribute.CLUSTER)


def read_cubin(path: Path, elf: ELFFile) -> KernelFile:
    """Reads a cubin's kernels; a ValueError where attributes exceed their section."""
    sections = {section.name: section for section in elf.iter_sections()}
    chip = _chip(elf, sections[_TOOLS].data() if _TOOLS in sections else b"")
    table = sections.get(".symtab")
    symbols = [symbol.name for symbol in table.iter_symbols()] if isinstance(table, SymbolTableSection) else []
    of_all: dict[tuple[int, str], int] = {}
    for number, data in _attributes(sections[_ATTRIBUTES].data() if _ATTRIBUTES in sections else b""):
        if number in (_Attribute.REGISTERS, _Attribute.STACK):
            index, value = struct.unpack("<II", data[:8])
            of_all[number, symbols[index]] = value
    kernels = []
    for name in sections:
        kernel = name.removeprefix(_CODE)
        if not name.startswith(_CODE) or f"{_ATTRIBUTES}.{kernel}" not in sections:
            continue
        attributes = list(_attributes(sections[f"{_ATTRIBUTES}.{kernel}"].data()))
        arguments = [_argument(data) for number, data in attributes if number == _Attribute.PARAMETER]
        shared = sections.get(f"{_SHARED_DATA}{kernel}")
        sizes = {number: _three(struct.unpack("<III", data[:12])) for number, data in attributes if number in _THREES}
        kernels.append(
            Kernel(
                symbol=kernel,
                kind="cubin",
                chip=chip,
                arguments=tuple(sorted(arguments, key=lambda argument: argument.offset)),
                workgroup_size=sizes.get(_Attribute.REQUIRED_THREADS),
                most_threads=math.prod(sizes[_Attribute.MOST_THREADS]) if _Attribute.MOST_THREADS in sizes else None,
                wavefront=WARP,
                local_memory=0 if shared is None else _without_the_systems(shared["sh_size"], chip),
                registers=of_all.get((_Attribute.REGISTERS, kernel)),
                cluster=sizes.get(_Attribute.CLUSTER),
                stack=of_all.get((_Attribute.STACK, kernel)),
                code=sections[name]["sh_size"],
            )
        )
    return KernelFile(path, "cubin", chip, tuple(kernels), linked=elf["e_type"] != "ET_REL")


def _chip(elf: ELFFile, tools: bytes) -> str:
    """The chip: as CUDA 13 records it, else by the ELF's flags, one of which stands for code of that chip alone."""
    said = _MADE_FOR.search(tools)
    if said:
        return said[1].decode()
    flags = elf["e_flags"]
    # From this version of the ELF's ABI on, that of CUDA 13, the chip stands in the second byte.
    if elf["e_ident"]["EI_ABIVERSION"] >= 8:
        return f"sm_{flags >> 8 & 0xFF}{'a' if flags & 0x8 else ''}"
    return f"sm_{flags & 0xFF}{'a' if flags & 0x800 else ''}"


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        form, name, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != 4:  # its bytes are the two after form and name, and do not follow
            continue
        if at + size > len(data):
            raise ValueError("its attributes do not lie within it")
        yield name, data[at : at + size]
        at += size


def _argument(data: bytes) -> Argument:
    """An argument; it has no type, so one of a pointer's size counts as a pointer."""
    _, _, offset, word = struct.unpack("<IHHI", data)
    size = word >> 18
    return Argument("pointer" if size == POINTER else "value", f"b{8 * size}", offset, size)


def _without_the_systems(size: int, chip: str) -> int:
    """Shared memory without the first KiB, which is the system's from Hopper on and not part of limits."""
    return max(0, size - 1024) if int(re.findall(r"\d+", chip)[0]) >= 90 else int(size)


# --- What an object could do besides computing -----------------------------------------------------------------------

_DATA = re.compile(r"(?<![\w.])(?<!\.ptr )\.global\b[^;=]*")
_NAME, _SIZES = re.compile(r"(?<![\w$%.])[a-zA-Z_$%][\w$%]*"), re.compile(r"\[[^]]*\]")
_HAZARDS = (
    (re.compile(r"%(?:clock|globaltimer)\w*"), "a clock is read ({})"),
    (re.compile(r"\b(?:vprintf|malloc|free|__assertfail)\b"), "the host is called ({})"),
    (re.compile(r"%(?:smid|warpid|gridid|nsmid|nwarpid|pm\d+\w*)\b"), "the machine is asked ({})"),
)


def ptx_hazards(text: str) -> list[str]:
    """Hazards of PTX in words; see `hazards`."""
    words = " ".join(without_comments(text).split())
    names = Counter(_NAME.findall(words))
    data = [match[0].strip() for match in _DATA.finditer(words)]
    # What is named once, where it is declared, nobody reads: libraries leave such texts behind.
    unused = {one for one in data if [names[name] for name in _NAME.findall(_SIZES.sub("", one))] == [1]}
    found = [f"global data ({one[:60]})" for one in data if one not in unused]
    found += [said.format(match[0].strip()[:60]) for pattern, said in _HAZARDS for match in pattern.finditer(words)]
    return list(dict.fromkeys(found))


def cubin_hazards(elf: ELFFile) -> list[str]:
    """Hazards of a cubin by its sections and names; its instructions are undocumented, and not read."""
    data = [s.name for s in elf.iter_sections() if s.name.startswith(".nv.global") and s["sh_size"]]
    tables = [s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)]
    names = {symbol.name for table in tables for symbol in table.iter_symbols()}
    calls = sorted(names & {"vprintf", "malloc", "free", "__assertfail"})
    return [*(f"global data ({name})" for name in data), *(f"the host is called ({name})" for name in calls)]
