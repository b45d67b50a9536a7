"""The kernels of an object file, read before anything is compiled; GPUs' objects are read by their vendors' modules."""

from __future__ import annotations

import io
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from autotuner.errors import UsageError
from autotuner.iree.kernels import Kernel, KernelFile
from autotuner.system.settings import loaded
from autotuner.system.workspace import refuse_endless

ELF_MAGIC = b"\x7fELF"
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_READERS = {"EM_AMDGPU": "autotuner.iree.amd:read_hsaco", "EM_CUDA": "autotuner.iree.nvidia:read_cubin"}
"""Reader modules by the ELF's machine, imported on first use."""
_PTX_READER = "autotuner.iree.nvidia:read_ptx"

_LINKERS_OWN = {"_GLOBAL_OFFSET_TABLE_"}
_OUTSIDE = {"STB_GLOBAL", "STB_WEAK", "STB_LOOS"}
"""Bindings of visible symbols; the last is GNU's unique, by pyelftools' name."""


def read_object(path: Path) -> KernelFile:
    """Reads a file's kernels; raises nothing but a UsageError, whatever the bytes are."""
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
        ptx: KernelFile | None = loaded(_PTX_READER)(path, data.rstrip(b"\x00").decode())
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
    if (reader := _READERS.get(machine)) is not None:
        found: KernelFile = loaded(reader)(path, elf)
        return found
    return _from_host(path, elf, _MACHINES.get(machine, str(machine).removeprefix("EM_").lower()))


def open_elf(data: bytes) -> ELFFile:
    """Opens an ELF; a ValueError where its tables exceed the file, over which pyelftools would loop for long."""
    elf = ELFFile(io.BytesIO(data))
    tables = (
        ("section", elf["e_shoff"], elf.num_sections(), elf["e_shentsize"]),
        ("program", elf["e_phoff"], elf.num_segments(), elf["e_phentsize"]),
    )
    for name, start, count, size in tables:
        if count and (size < 32 or start + count * size > len(data)):
            raise ValueError(f"its {count} {name} headers do not fit into its {len(data)} bytes")
    return elf


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
