"""What a kernel's object could do besides computing: keep data between calls, read a clock, call the system.

A kernel needs none of that. One that has it could recognise a timing, or be right only now and then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from autotuner.iree.nvidia import without_comments
from autotuner.iree.objects import ELF_MAGIC, open_elf


def hazards(path: Path) -> list[str]:
    """Of an object that is known to be one, in words, each once."""
    data = path.read_bytes()
    if not data.startswith(ELF_MAGIC):
        return _ptx(without_comments(data.rstrip(b"\x00").decode()))
    elf = open_elf(data)
    if elf["e_machine"] == "EM_CUDA":
        return _cubin(elf)
    if elf["e_machine"] == "EM_AMDGPU":
        return [*_data(elf, only=(".data", ".bss"))]
    return _host(elf)


# --- Processors -----------------------------------------------------------------------------------------------------

_CLOCKS = frozenset({"rdtsc", "rdtscp", "rdpmc"})
_SYSTEM = frozenset(
    {"syscall", "sysenter", "int", "int1", "int3", "into", "in", "out", "insb", "insd", "outsb", "outsd"}
)
_MACHINE = frozenset({"cpuid", "rdrand", "rdseed", "rdpid", "xgetbv", "rdfsbase", "rdgsbase", "wrfsbase", "wrgsbase"})
_ROUNDING = frozenset({"ldmxcsr", "fldcw"})
_UNKNOWN = ".byte"
"""What the disassembler calls bytes that it does not know."""


def _host(elf: ELFFile) -> list[str]:
    found = [*_data(elf), *_symbols(elf)]
    read = {"EM_X86_64": _x86_64, "EM_AARCH64": _aarch64}.get(elf["e_machine"])
    for section in elf.iter_sections():
        if read is not None and section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
            found += read(section.data())
    return list(dict.fromkeys(found))


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


def _x86_64(code: bytes) -> Iterator[str]:
    """By a disassembler from the first byte to the last; what it does not know is no instruction of a kernel."""
    import capstone  # a tenth of a second that only whoever brings an object pays

    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    reader.skipdata = True
    for _, _, name, operands in reader.disasm_lite(code, 0):
        word = name.rpartition(" ")[2]
        if word in _CLOCKS:
            yield f"a clock is read ({word})"
        elif word in _SYSTEM:
            yield f"the system is called ({word})"
        elif word in _MACHINE:
            yield f"the machine is asked ({word})"
        elif word in _ROUNDING:
            yield f"rounding is changed ({word})"
        elif "fs:" in operands or "gs:" in operands:
            yield "thread-local storage (fs or gs)"
        elif name == _UNKNOWN:
            yield "bytes that are no known instruction"


def _aarch64(code: bytes) -> Iterator[str]:
    """Four bytes each: calls of the system, and reads of system registers."""
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


_FLOATING = frozenset({0x5A20, 0x5A21, 0x5A10})
"""FPCR, FPSR and NZCV, as `mrs` names them: rounding and flags."""

# --- NVIDIA ---------------------------------------------------------------------------------------------------------

_PTX = (
    (re.compile(r"%(?:clock|globaltimer)\w*"), "a clock is read ({})"),
    (re.compile(r"^\s*(?:\.(?:visible|weak|common|extern)\s+)?\.global\b[^;=\n]*", re.M), "global data ({})"),
    (re.compile(r"\b(?:vprintf|malloc|free|__assertfail)\b"), "the host is called ({})"),
    (re.compile(r"%(?:smid|warpid|gridid|nsmid|nwarpid|pm\d+\w*)\b"), "the machine is asked ({})"),
)


def _ptx(text: str) -> list[str]:
    found = [words.format(match[0].strip()[:60]) for pattern, words in _PTX for match in pattern.finditer(text)]
    return list(dict.fromkeys(found))


def _cubin(elf: ELFFile) -> list[str]:
    """Of machine code: what its sections and names say. Its instructions are not documented, and are not read."""
    data = [s.name for s in elf.iter_sections() if s.name.startswith(".nv.global") and s["sh_size"]]
    tables = [s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)]
    names = {symbol.name for table in tables for symbol in table.iter_symbols()}
    calls = sorted(names & {"vprintf", "malloc", "free", "__assertfail"})
    return [*(f"global data ({name})" for name in data), *(f"the host is called ({name})" for name in calls)]
