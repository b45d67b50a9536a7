"""What a kernel's object could do besides computing: keep data between calls, read a clock, call the system.

A kernel needs none of that. One that has it could recognise a timing, or be right only now and then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from autotuner.iree.objects import ELF_MAGIC, open_elf
from autotuner.system.settings import loaded

_PTX, _CUBIN = "autotuner.iree.nvidia:ptx_hazards", "autotuner.iree.nvidia:cubin_hazards"
"""NVIDIA's, loaded with the first of its objects."""


def hazards(path: Path) -> list[str]:
    """The hazards of an object in words, each once."""
    data = path.read_bytes()
    if not data.startswith(ELF_MAGIC):
        return list(loaded(_PTX)(data.rstrip(b"\x00").decode()))
    elf = open_elf(data)
    if elf["e_machine"] == "EM_CUDA":
        return list(loaded(_CUBIN)(elf))
    if elf["e_machine"] == "EM_AMDGPU":
        return [*_data(elf, only=(".data", ".bss"))]
    return _host(elf)


# --- Processors -----------------------------------------------------------------------------------------------------

_REFUSED = (
    (re.compile(r"rdtscp?|rdpmc|rdpru|tpause|umwait|mwaitx"), "a clock is read ({})"),
    (re.compile(r"syscall|sysenter|int[13o]?|(?:in|out)(?:s[bdw])?"), "the system is called ({})"),
    (re.compile(r"cpuid|rdrand|rdseed|rdpid|rdpkru|xgetbv|(?:rd|wr)[fg]sbase"), "the machine is asked ({})"),
    (re.compile(r"s[gil]dt|str|smsw|lsl|lar"), "the machine is asked ({})"),
    (re.compile(r"v?ldmxcsr|fldcw|fldenv|frstor|f?xrstors?(?:64)?|fninit"), "rounding is changed ({})"),
    (re.compile(r"lcall|ljmp|retfq?|iret[dq]?|xbegin|enclu"), "it leaves its code ({})"),
)
_UNKNOWN = ".byte"
"""The disassembler's name for unknown bytes."""
_COMPUTED = "it jumps to addresses that it computes ({}: compile with -fno-jump-tables)"
_LINKED = "its code is another one when it is linked"
Links = Mapping[int, tuple[int, int | None]]
"""Relocations of a section by place: the type, and the target if it is a section."""


def _host(elf: ELFFile) -> list[str]:
    found = [*_data(elf), *_symbols(elf)]
    read = {"EM_X86_64": _x86_64, "EM_AARCH64": _aarch64}.get(elf["e_machine"])
    for number, section in enumerate(elf.iter_sections()):
        flags, kind = section["sh_flags"], section["sh_type"]
        code = bool(flags & SH_FLAGS.SHF_EXECINSTR)
        # A linker puts sections together by their names.
        if flags & SH_FLAGS.SHF_ALLOC and code != section.name.startswith(".text"):
            found.append(f"{'code' if code else 'no code'} where none belongs ({section.name})")
        if kind in _CHANGES:
            found.append(f"{_LINKED} ({section.name})")
        if code and read is not None:
            found += read(section.data(), _links(elf, number))
    return list(dict.fromkeys(found))


_CHANGES = ("SHT_REL", "SHT_RELR", 0x40000014, 0x40000020)
"""Sections of packed relocations (LLVM's numbers), which no compiler for these processors writes."""


def _links(elf: ELFFile, number: int) -> Links:
    found = {}
    for section in elf.iter_sections():
        if isinstance(section, RelocationSection) and section["sh_info"] == number:
            table: Any = elf.get_section(section["sh_link"])
            for one in section.iter_relocations():
                symbol = table.get_symbol(one["r_info_sym"])
                within = symbol["st_shndx"] == number
                target = symbol["st_value"] + one["r_addend"] if within and one.is_RELA() else None
                found[one["r_offset"]] = (one["r_info_type"], target)
    return found


def _data(elf: ELFFile, only: tuple[str, ...] = ("",)) -> Iterator[str]:
    for section in elf.iter_sections():
        if not section.name.startswith(only):
            continue
        if section["sh_size"] and section["sh_flags"] & SH_FLAGS.SHF_TLS:
            yield f"thread-local storage ({section.name})"
        elif section["sh_size"] and section["sh_flags"] & SH_FLAGS.SHF_WRITE:
            yield f"writable data ({section.name}, {section['sh_size']} bytes)"


def _symbols(elf: ELFFile) -> Iterator[str]:
    for table in elf.iter_sections():
        if isinstance(table, SymbolTableSection):
            yield from (
                f"writable data ({symbol.name})"
                for symbol in table.iter_symbols()
                if symbol["st_shndx"] == "SHN_COMMON"
            )


@cache
def _refused(word: str) -> str | None:
    return next((why for words, why in _REFUSED if words.fullmatch(word)), None)


_X86_LINKS = (2, 4, 9, 41, 42)
"""R_X86_64_PC32, PLT32, GOTPCREL, GOTPCRELX and REX_GOTPCRELX: four bytes, from where they lie."""


def _x86_64(code: bytes, links: Links) -> Iterator[str]:
    """Hazards of x86-64 code, disassembled from the first byte to the last; unknown instructions are hazards.

    Jumps must go to the start of an instruction that was disassembled.
    """
    import capstone  # a tenth of a second that only whoever brings an object pays

    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    reader.skipdata = True
    starts, targets, rest = set(), set(), dict(links)
    for at, size, name, operands in reader.disasm_lite(code, 0):
        word = name.rpartition(" ")[2]
        starts.add(at)
        linked = next((place for place in range(at, at + size) if place in rest), None)
        if linked is not None:
            kind, target = rest.pop(linked)
            # The number is at the end, but for a constant of at most four bytes.
            if kind not in _X86_LINKS or not (at < linked and at + size - 8 <= linked <= at + size - 4):
                yield f"{_LINKED} ({word})"
        if (refused := _refused(word)) is not None:
            yield refused.format(word)
        elif "fs:" in operands or "gs:" in operands:
            yield "thread-local storage (fs or gs)"
        elif name == _UNKNOWN:
            yield "bytes that are no known instruction"
        elif word.startswith("j") or word in ("call", "loop", "loope", "loopne"):
            if not operands.startswith("0x") and not operands.isdigit():
                yield _COMPUTED.format(word)
            elif linked is None:
                targets.add(int(operands, 0))
            elif target is not None:
                targets.add(target + 4)
    if rest:
        yield _LINKED
    if targets - starts:
        yield "it jumps into an instruction"


_AARCH64_LINKS = range(263, 313)
"""R_AARCH64_MOVW_UABS_G0 to LD64_GOT_LO12_NC: those within instructions."""


def _aarch64(code: bytes, links: Links) -> Iterator[str]:
    """Hazards of AArch64 code: system calls, and reads of system registers."""
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        if word & 0xFFE0001C == 0xD4000000 and word & 0x3:
            yield "the system is called (svc, hvc or smc)"
        elif word & 0xFFF00000 == 0xD5100000:  # msr
            yield "rounding is changed (msr)"
        elif word & 0xFFF00000 == 0xD5300000:  # mrs
            register = (word >> 5) & 0x7FFF
            if (register >> 7) & 0xF in (9, 14):  # CRn: performance monitors and timers
                yield "a clock is read (mrs)"
            elif register not in _FLOATING:
                yield "the machine is asked (mrs)"
        elif word & 0xFE000000 == 0xD6000000 and word & 0xFFFFFC1F != 0xD65F0000:  # branches to registers, but for ret
            yield _COMPUTED.format("br or blr")
    for at, (kind, _) in links.items():
        # Its highest bits, which say what an instruction is, are no linker's; those of the system have more that do.
        if kind not in _AARCH64_LINKS or at % 4 or code[at + 3 : at + 4] in (b"\xd4", b"\xd5", b"\xd6", b"\xd7"):
            yield _LINKED


_FLOATING = frozenset({0x5A20, 0x5A21, 0x5A10})
"""System registers that a kernel may read: FPCR, FPSR and NZCV (rounding and flags)."""
