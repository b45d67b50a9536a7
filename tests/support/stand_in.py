"""AMD code objects made by hand, where no assembler is: all that a loader reads of one, and no instruction."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack

from autotuner.microkernels.instance import Binding, Instance
from autotuner.problems import Gemm

OPERANDS = Gemm.parse(shape="64x64x64", dtype="f16").operands
SYMBOL = "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32"
BINDINGS = tuple(Binding(i, "write" if i == 2 else "read", operand) for i, operand in enumerate(OPERANDS))

MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F, "gfx1100": 0x41, "gfx1101": 0x46, "gfx9-4-generic": 0x5F}
SHARED, RELOCATABLE = 3, 1
"""ET_DYN, ET_REL"""

POINTER = {".value_kind": "global_buffer", ".size": 8, ".address_space": "global"}
CONSTANT = {".value_kind": "by_value", ".size": 4, ".value_type": "i32"}


def arguments(*given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each at the next offset that suits its size."""
    offset, laid = 0, []
    for argument in given:
        size = argument[".size"]
        offset = -(-offset // size) * size
        laid.append({**argument, ".offset": offset})
        offset += size
    return laid


def misa_metadata(symbol: str, *, constants: int = 26, wavefront: int = 64) -> dict[str, Any]:
    """As MISA writes it: three pointers, then i32s, packed."""
    return {
        ".name": symbol,
        ".symbol": f"{symbol}.kd",
        ".sgpr_count": 96,
        ".vgpr_count": 128,
        ".agpr_count": 64,
        ".kernarg_segment_align": 8,
        ".kernarg_segment_size": 24 + 4 * constants,
        ".group_segment_fixed_size": 32768,
        ".private_segment_fixed_size": 0,
        ".wavefront_size": wavefront,
        ".reqd_workgroup_size": [256, 1, 1],
        ".max_flat_workgroup_size": 256,
        ".args": arguments(*[POINTER] * 3, *[CONSTANT] * constants),
    }


def misa_stand_in(path: Path, *, symbol: str, chip: str = "gfx942", constants: int = 26, **changes: Any) -> Path:
    """An hsaco with one kernel of MISA's ABI; `changes` are keys of its metadata without the dot, None: left out."""
    metadata = misa_metadata(symbol, constants=constants)
    metadata |= {f".{name}": value for name, value in changes.items()}
    return write_hsaco(path, [{name: value for name, value in metadata.items() if value is not None}], chip=chip)


def write_hsaco(
    path: Path,
    kernels: Sequence[Mapping[str, Any]],
    *,
    chip: str = "gfx942",
    target: str | None = None,
    type_: int = SHARED,
    sections: bool = True,
) -> Path:
    """An ELF of AMD's with these kernels in its note; `target` goes there too, as newer compilers have it."""
    document: dict[str, Any] = {"amdhsa.version": [1, 0], "amdhsa.kernels": list(kernels)}
    if target is not None:
        document["amdhsa.target"] = target
    metadata = msgpack.packb(document)
    note = struct.pack("<III", 7, len(metadata), 32) + b"AMDGPU\0\0" + metadata
    note += bytes(-len(note) % 8)

    names = [name for kernel in kernels for name in (kernel[".name"], kernel.get(".symbol", kernel[".name"] + ".kd"))]
    strings = bytearray(b"\0")
    symbols = bytearray(24)
    for i, name in enumerate(names):
        kind = 2 if i % 2 == 0 else 1  # a function, then its descriptor
        symbols += struct.pack("<IBBHQQ", len(strings), 1 << 4 | kind, 0, 4, 0, 64)
        strings += name.encode() + b"\0"
    code = struct.pack("<I", 0xBF810000) * 64  # s_endpgm

    labels = ("", ".note", ".dynsym", ".dynstr", ".text", ".shstrtab")
    label_bytes = b"\0".join(label.encode() for label in labels) + b"\0"
    parts = (b"", note, bytes(symbols), bytes(strings), code, label_bytes)
    # Type, flags, link, info, alignment and size of an entry, of each section.
    string, plain = (3, 2, 0, 0, 1, 0), (0,) * 6
    forms = (plain, (7, 2, 0, 0, 4, 0), (11, 2, 3, 1, 8, 24), string, (1, 6, 0, 0, 256, 0), (3, 0, 0, 0, 1, 0))
    body = bytearray(bytes(64 + 56))
    headers = bytearray()
    for label, part, (kind, flags, link, info, align, entry) in zip(labels, parts, forms, strict=True):
        body += bytes(-len(body) % max(align, 8))
        start, offset = label_bytes.index(label.encode() + b"\0"), len(body)
        address = offset if flags else 0
        headers += struct.pack("<IIQQQQIIQQ", start, kind, flags, address, offset, len(part), link, info, align, entry)
        if label == ".note":
            body[64:120] = struct.pack("<IIQQQQQQ", 4, 4, offset, offset, offset, len(part), len(part), 4)
        body += part
    body += bytes(-len(body) % 8)
    table = len(body) if sections else 0
    count = len(labels) if sections else 0
    ident = b"\x7fELF" + bytes([2, 1, 1, 64, 3]) + bytes(7)
    rest = (type_, 224, 1, 0, 64, table, MACH[chip], 64, 56, 1, 64, count, len(labels) - 1 if sections else 0)
    body[:64] = ident + struct.pack("<HHIQQQIHHHHHH", *rest)
    path.write_bytes(body + (headers if sections else b""))
    return path


def instance(*objects: Path, **changes: Any) -> Instance:
    """What fits MISA's stand-in."""
    usual = Instance(
        name="misa",
        symbol=SYMBOL,
        chip="gfx942",
        objects=objects,
        bindings=BINDINGS,
        constants=tuple(range(26)),
        workgroup_size=(256, 1, 1),
        subgroup_size=64,
        local_memory=0,
        grid=(80, 1, 1),
    )
    return replace(usual, **changes)
