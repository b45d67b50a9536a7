"""What stands in a kernel's file: the notes and symbols of an ELF, the entries of a PTX. It is read, not judged."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection
from elftools.elf.segments import NoteSegment

# --- ELF ------------------------------------------------------------------------------------------------------------

_METADATA = 32
"""NT_AMDGPU_METADATA; notes before code object v3 have other types, and no msgpack."""
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
_IFUNC = "STT_LOOS"
"""GNU's, by the name that pyelftools has for its number: `target_clones` makes one."""
_FUNCTIONS = {"STT_FUNC", _IFUNC}
_SERVED = {"STT_TLS": "thread-local", _IFUNC: "chosen at load"}
_MADE_UP = ("$", ".L")
"""How names begin that an assembler for Arm gives to what others name too: `$d` to data, `.LANCHOR0` to their begin."""
_LEAST_SYMBOL = 16
_LEAST_HEADER = 32


@dataclass(frozen=True, slots=True)
class Symbols:
    """The global names of an ELF."""

    functions: tuple[str, ...]
    defined: frozenset[str]
    """Functions and data."""
    undefined: tuple[str, ...]
    """What somebody else must bring. Weak ones are not among them: a linker leaves those at zero."""
    served: tuple[str, ...]
    """What only a C library's loader can set up, also where the name is local: each with its kind in words."""


def open_elf(data: bytes) -> ELFFile:
    """The ELF, or a ValueError where its tables do not lie within it: pyelftools would loop over them for long."""
    elf = ELFFile(io.BytesIO(data))
    tables = (
        ("section", elf["e_shoff"], elf.num_sections(), elf["e_shentsize"]),
        ("program", elf["e_phoff"], elf.num_segments(), elf["e_phentsize"]),
    )
    for name, start, count, size in tables:
        if count and (size < _LEAST_HEADER or start + count * size > len(data)):
            raise ValueError(f"its {count} {name} headers do not fit into its {len(data)} bytes")
    return elf


def amd_metadata(elf: ELFFile) -> dict[str, Any] | None:
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
            if note["n_name"] == "AMDGPU" and note["n_type"] in (_METADATA, "NT_AMDGPU_METADATA"):
                document = msgpack.unpackb(note["n_descdata"])
                if not isinstance(document, dict):
                    raise ValueError("its metadata is no map")
                return document
    return None


def amd_chips(elf: ELFFile, metadata: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The chip by the note and by the header."""
    named = _AMD_TARGET.search(str(metadata.get("amdhsa.target", "")))
    return named[0] if named else None, _MACH.get(elf["e_flags"] & 0xFF)


def elf_symbols(elf: ELFFile) -> Symbols:
    tables = {s["sh_type"]: s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)}
    # A library's .symtab may be stripped, and holds names that nobody can link to.
    order = ("SHT_DYNSYM", "SHT_SYMTAB") if elf["e_type"] == "ET_DYN" else ("SHT_SYMTAB",)
    table = next((tables[kind] for kind in order if kind in tables), None)
    functions: dict[str, None] = {}
    defined, undefined, served = set(), set(), set()
    if table is not None and table["sh_entsize"] < _LEAST_SYMBOL:
        raise ValueError("its symbols are too short")
    for symbol in table.iter_symbols() if table is not None else ():
        binding, kind = symbol["st_info"]["bind"], symbol["st_info"]["type"]
        if kind in _SERVED:
            served.add((symbol.name, _SERVED[kind]))
        if not symbol.name or binding not in ("STB_GLOBAL", "STB_WEAK"):
            continue
        if symbol["st_shndx"] == "SHN_UNDEF":
            if binding == "STB_GLOBAL":
                undefined.add(symbol.name)
            continue
        defined.add(symbol.name)
        # Assembly without a .type directive gives functions no type.
        if kind in _FUNCTIONS or (kind == "STT_NOTYPE" and _is_code(elf, symbol["st_shndx"])):
            functions[symbol.name] = None
    named = {one for one in served if not one[0].startswith(_MADE_UP)} or served
    loaded = tuple(f"{name} ({kind})" for name, kind in sorted(named))
    return Symbols(tuple(functions), frozenset(defined), tuple(sorted(undefined - _LINKERS_OWN)), loaded)


def _is_code(elf: ELFFile, section: int | str) -> bool:
    executable = 4  # SHF_EXECINSTR
    return isinstance(section, int) and bool(elf.get_section(section)["sh_flags"] & executable)


# --- Names of a processor's objects that others could bind to -------------------------------------------------------

_SYMBOL_BYTES = 24
_INFO, _OTHER, _SECTION = 4, 5, slice(6, 8)
"""Where they stand in a symbol of a 64-bit ELF."""
_WEAK = 2
_OUTSIDE = {1, _WEAK, 10}
"""STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE."""
_DEFAULT, _HIDDEN, _PROTECTED = 0, 2, 3
_VISIBILITY = 3
"""The other bits of st_other are the architecture's own."""
_UNDEFINED = bytes(2)


def hide(data: bytes) -> bytes:
    """A relocatable ELF with hidden names; a ValueError where it is none, or damaged.

    Of those that are not defined here only the weak ones are hidden: a linker then leaves them at zero. The others take
    on the visibility of the object that defines them.
    """
    changed = bytearray(data)
    for at in _visible(data):
        changed[at + _OTHER] = changed[at + _OTHER] & ~_VISIBILITY | _HIDDEN
    return bytes(changed)


def shows_names(data: bytes) -> bool:
    """Some name of this relocatable ELF is visible from outside."""
    return any(True for _ in _visible(data))


def _visible(data: bytes) -> Iterator[int]:
    """The offsets of the symbols that others could bind to at run time."""
    elf = open_elf(data)
    if elf.elfclass != 64 or not elf.little_endian or elf["e_type"] != "ET_REL":
        raise ValueError("it is no relocatable object of 64 bits")
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_SYMTAB":
            continue
        start, end = section["sh_offset"], section["sh_offset"] + section["sh_size"]
        if section["sh_entsize"] != _SYMBOL_BYTES or end > len(data):
            raise ValueError("its symbols do not lie within it")
        for at in range(start, end - _SYMBOL_BYTES + 1, _SYMBOL_BYTES):
            symbol = data[at : at + _SYMBOL_BYTES]
            binding = symbol[_INFO] >> 4
            shown = symbol[_OTHER] & _VISIBILITY in (_DEFAULT, _PROTECTED)
            if shown and binding in _OUTSIDE and (binding == _WEAK or symbol[_SECTION] != _UNDEFINED):
                yield at


# --- PTX ------------------------------------------------------------------------------------------------------------

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


@dataclass(frozen=True, slots=True)
class PtxParameter:
    kind: Literal["pointer", "value"]
    """PTX need not say which it is: a 64-bit integer counts as a pointer."""
    type: str
    offset: int
    size: int
    """0 for a texture and the like."""


@dataclass(frozen=True, slots=True)
class PtxEntry:
    name: str
    parameters: tuple[PtxParameter, ...]
    required: tuple[int, int, int] | None
    """.reqntid"""
    most: tuple[int, int, int] | None
    """.maxntid"""
    shared: int
    """Bytes that it and the module declare."""
    dynamic: bool
    """It can have more of them, given at launch."""
    text: str
    """From its name to the next one's, comments and strings blanked."""


@dataclass(frozen=True, slots=True)
class Ptx:
    version: str | None
    target: str | None
    entries: tuple[PtxEntry, ...]


def read_ptx(text: str) -> Ptx:
    # Blanks instead of comments, so that sizes stay.
    text = _BLANKED.sub(lambda m: " " * len(m[0]), text)
    found = list(_ENTRY.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)] * bool(found)
    parts = [(match[1], text[match.end() : end]) for match, end in zip(found, ends, strict=True)]
    bodies = [part[: _body_end(part)] for _, part in parts]
    head = text[: found[0].start()] if found else text
    module = "\n".join([head, *(part[len(body) :] for (_, part), body in zip(parts, bodies, strict=True))])
    shared, dynamic = _shared_bytes(module), bool(_DYNAMIC.search(module))
    version = _VERSION.search(head)
    return Ptx(
        version=version[1] if version else None,
        target=ptx_target(head),
        entries=tuple(
            _entry(name, part, body, shared, dynamic) for (name, part), body in zip(parts, bodies, strict=True)
        ),
    )


def ptx_target(text: str) -> str | None:
    target = _TARGET.search(text)
    return target[1] if target else None


def _body_end(text: str) -> int:
    """Where the first pair of braces, with all that it holds, ends."""
    depth = 0
    for brace in re.finditer("[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth <= 0:
            return brace.end()
    return len(text)


def _entry(name: str, text: str, body: str, shared: int, dynamic: bool) -> PtxEntry:
    """`shared` and `dynamic` are what the module has, for all its entries."""
    header = _HEADER.match(body)
    parameters, directives = (header[1] or "", header[2]) if header else ("", "")
    threads = {kind: _three(sizes) for kind, sizes in _THREADS.findall(directives)}
    return PtxEntry(
        name=name,
        parameters=tuple(_parameters(parameters)),
        required=threads.get("reqntid"),
        most=threads.get("maxntid"),
        shared=shared + _shared_bytes(body),
        dynamic=dynamic or bool(_DYNAMIC.search(body)),
        text=text,
    )


def _three(sizes: str) -> tuple[int, int, int]:
    x, y, z, *_ = [*map(int, sizes.split(",")), 1, 1]
    return x, y, z


def _shared_bytes(text: str) -> int:
    total = 0
    for lanes, bits, dims in _SHARED.findall(text):
        size = int(bits) // 8 * int(lanes or 1)
        for dim in _NUMBER.findall(dims):
            size *= int(dim)
        total += size
    return total


def _parameters(text: str) -> Iterator[PtxParameter]:
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
        kind: Literal["pointer", "value"] = "pointer" if pointer or plain else "value"
        yield PtxParameter(kind, type_[0].lstrip(".") if type_ else "opaque", offset, size)
        offset += size
