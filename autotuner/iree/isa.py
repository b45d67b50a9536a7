"""What the machine code of a build looks like: registers, spills, memory, size. No build fails for want of them."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from flatbuffers.number_types import Uint32Flags
from flatbuffers.table import Table

from autotuner.errors import ToolMissingError
from autotuner.iree.cubin import read_cubin
from autotuner.iree.figures import NO_FIGURES, PTXAS_LIMIT, Isa
from autotuner.iree.objects import amd_metadata, open_elf, ptx_target, read_ptx
from autotuner.system import process

REMARKS = "--pass-remarks-analysis=kernel-resource-usage|asm-printer"
"""LLVM says on stderr what a kernel uses and which instructions it has. This costs nothing; for a dump of the assembly
the compiler would generate all code twice, a third more time for a candidate."""

Figures = Literal["", "code", "remarks", "ptx", "ptxas"]
"""Where the figures come from: not read at all, the code's size, what `REMARKS` gives, PTX, NVIDIA's assembler too."""
_PTXAS_SECONDS = 20.0
_ELF_MAGIC = b"\x7fELF"
_CUDA_EXECUTABLE = re.compile(rb"CDA1.{60}(.{4}CDA1)", re.S)
"""How IREE's executables for CUDA begin: a header, and after it a flatbuffer with the same letters."""

_REMARK = re.compile(r"^remark: .*:\d+:\d+: (?:BasicBlock:.*\n(?:\w+: \d+\n)*\n?|.*\n?)", re.M)
_FUNCTION = re.compile(r"Function Name: (\S+)")
_OCCUPANCY = re.compile(r"Occupancy \[waves/SIMD\]: (\d+)")
_AMD_MMA = re.compile(r"^V_(?:MFMA|SMFMAC|WMMA|SWMMAC)_\w+: (\d+)$", re.M)

_PTX_MMA = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async)\b")
_PTXAS_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PTXAS_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_PTXAS_REGISTERS = re.compile(r"Used (\d+) registers")


def read_isa(binaries: Path, module: Path, *, remarks: str = "", ptxas: Path | None = None) -> Isa:
    """The figures of a build, from its dumped executables, its module and what `REMARKS` made the compiler say.

    Of several kernels it is the heaviest: the one with most matrix instructions, then with most code. Nothing is raised
    when files are missing or damaged: what cannot be read is None.
    """
    ptx = sorted(binaries.glob("*.ptx"))
    try:
        if ptx:
            kernels = [(path, *kernel) for path in ptx for kernel in _read_nvidia(path, module)]
        else:
            elves = sorted([*binaries.glob("*.hsaco"), *binaries.glob("*.so")])
            kernels = [(path, *kernel) for path in elves for kernel in _read_elf(path, remarks)]
    except Exception:
        # The parsers raise whatever comes to them on damaged bytes, and no candidate may fail because of its figures.
        return NO_FIGURES
    if not kernels:
        return NO_FIGURES
    path, name, isa, _ = max(kernels, key=lambda k: (k[2].mma or 0, k[3]))
    return _with_ptxas(isa, name, path, ptxas) if isa.source == "ptx" else isa


def assembled(isa: Isa, module: Path, *, ptxas: Path | None) -> Isa:
    """The figures of a build whose PTX alone was read, with those of NVIDIA's assembler; the same where they are known.

    The module may be one that is compiled up to its executables.
    """
    if isa.source != "ptx" or ptxas is None:
        return isa
    with tempfile.TemporaryDirectory(prefix="autotune-", ignore_cleanup_errors=True) as folder:
        for number, ptx in enumerate(_ptx_images(module)):
            (Path(folder) / f"{number}.ptx").write_bytes(ptx)
        found = read_isa(Path(folder), module, ptxas=ptxas)
    return found if found.source == "ptxas" else isa


def split_remarks(stderr: str) -> tuple[str, str]:
    """What `REMARKS` added to stderr, and the rest: that is what the compiler had to say."""
    remarks = "".join(m[0] for m in _REMARK.finditer(stderr))
    # Where the middle is missing, instructions would be too few.
    return "" if process.CUT in stderr else remarks, _REMARK.sub("", stderr)


# --- ELF: AMD's code objects, and the processor's libraries ---------------------------------------------------------


def _read_elf(path: Path, remarks: str) -> Iterator[tuple[str, Isa, int]]:
    """(name, figures, size of code) of each kernel in a code object; a processor's library counts as one kernel."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        if path.suffix == ".so":
            size = sum(section["sh_size"] for section in elf.iter_sections() if section.name == ".text")
            yield "", Isa(code_bytes=size), size
            return
        tables = [section for section in elf.iter_sections() if isinstance(section, SymbolTableSection)]
        sizes = {symbol.name: symbol["st_size"] for table in tables for symbol in table.iter_symbols()}
        metadata = amd_metadata(elf)
    said = _read_remarks(remarks)
    for kernel in metadata["amdhsa.kernels"] if metadata else ():
        name = kernel[".name"]
        mma, occupancy = said.get(name, (None, None))
        isa = Isa(
            threads=math.prod(kernel[".reqd_workgroup_size"])
            if ".reqd_workgroup_size" in kernel
            else kernel.get(".max_flat_workgroup_size"),
            mma=mma,
            code_bytes=sizes.get(name),
            vgpr=kernel.get(".vgpr_count"),
            agpr=kernel.get(".agpr_count"),
            sgpr=kernel.get(".sgpr_count"),
            vgpr_spills=kernel.get(".vgpr_spill_count"),
            sgpr_spills=kernel.get(".sgpr_spill_count"),
            scratch_bytes=kernel.get(".private_segment_fixed_size"),
            lds_bytes=kernel.get(".group_segment_fixed_size"),
            wavefront=kernel.get(".wavefront_size"),
            occupancy=occupancy,
        )
        yield name, isa, isa.code_bytes or 0


def _read_remarks(text: str) -> dict[str, tuple[int, int | None]]:
    """Kernel -> (matrix instructions, occupancy). A function's instructions come before its name, its usage after."""
    parts = _FUNCTION.split(text)
    found = {}
    for before, name, after in zip(parts[0::2], parts[1::2], parts[2::2], strict=False):
        occupancy = _OCCUPANCY.search(after)
        found[name] = (sum(map(int, _AMD_MMA.findall(before))), int(occupancy[1]) if occupancy else None)
    return found


# --- PTX and cubins -------------------------------------------------------------------------------------------------


def _read_nvidia(path: Path, module: Path) -> Iterator[tuple[str, Isa, int]]:
    """IREE dumps a microkernel's cubin under the name of PTX."""
    data = path.read_bytes()
    return _read_cubin(data, module) if data.startswith(_ELF_MAGIC) else _read_ptx(data.decode(), module)


def _read_cubin(data: bytes, module: Path) -> Iterator[tuple[str, Isa, int]]:
    """(name, figures, size of code) of each kernel."""
    dynamic = _dynamic_shared_memory(module)
    for kernel in read_cubin(open_elf(data)).kernels:
        threads = kernel.required or kernel.most
        isa = Isa(
            threads=math.prod(threads) if threads else None,
            code_bytes=kernel.code,
            registers=kernel.registers,
            stack_bytes=kernel.stack,
            shared_bytes=kernel.shared + dynamic[kernel.name] if kernel.name in dynamic else None,
            source="cubin",
        )
        yield kernel.name, isa, kernel.code


def _read_ptx(text: str, module: Path) -> Iterator[tuple[str, Isa, int]]:
    """(name, figures, size of text) of each kernel."""
    entries = read_ptx(text).entries
    dynamic = _dynamic_shared_memory(module) if any(entry.dynamic for entry in entries) else {}
    for entry in entries:
        threads = entry.required or entry.most
        extra = dynamic.get(entry.name) if entry.dynamic else 0
        isa = Isa(
            threads=math.prod(threads) if threads else None,
            mma=len(_PTX_MMA.findall(entry.text)),
            shared_bytes=None if extra is None else entry.shared + extra,
            ptx_bytes=len(entry.text),
            source="ptx",
        )
        yield entry.name, isa, len(entry.text)


def _dynamic_shared_memory(module: Path) -> dict[str, int]:
    """Kernel -> bytes asked for at launch: the PTX does not say, IREE's executable does, in a module or before that."""
    found: dict[str, int] = {}
    for executable in _cuda_executables(module):
        with contextlib.suppress(Exception):  # as in read_isa
            found |= _launch_sizes(executable)
    return found


def _ptx_images(module: Path) -> list[bytes]:
    """The PTX of a module's executables; nothing where one cannot be read."""
    try:
        return [ptx for executable in _cuda_executables(module) for ptx in _images(executable)]
    except Exception:  # as in read_isa
        return []


def _cuda_executables(module: Path) -> Iterator[bytes]:
    data = module.read_bytes() if module.is_file() else b""
    for match in _CUDA_EXECUTABLE.finditer(data):
        yield data[match.start(1) :]


def _launch_sizes(executable: bytes) -> dict[str, int]:
    """iree/schemas/cuda_executable_def.fbs: exports[], each with kernel_name (1) and block_shared_memory_size (3)."""
    found = {}
    for export in _tables(executable, 0):
        name = export.String(export.Pos + export.Offset(_slot(1))).decode()
        size = export.Offset(_slot(3))  # 0 where the field has its default: that is not written
        found[name] = export.Get(Uint32Flags, export.Pos + size) if size else 0
    return found


def _images(executable: bytes) -> Iterator[bytes]:
    """The same: modules[] (1), each with ptx_image (0)."""
    for module in _tables(executable, 1):
        yield module.String(module.Pos + module.Offset(_slot(0)))


def _tables(executable: bytes, field: int) -> Iterator[Table]:
    """Those of a list that the root of a flatbuffer has."""
    root = Table(executable, int.from_bytes(executable[:4], "little"))
    tables = root.Offset(_slot(field))
    for i in range(root.VectorLen(tables)):
        yield Table(executable, root.Indirect(root.Vector(tables) + 4 * i))


def _slot(field: int) -> int:
    """Where a flatbuffer's table of fields has this one."""
    return 4 + 2 * field


def _with_ptxas(isa: Isa, name: str, ptx: Path, ptxas: Path | None) -> Isa:
    """With what only NVIDIA's assembler knows; unchanged when there is none, or it does not take this PTX."""
    chip = ptx_target(ptx.read_text())
    if ptxas is None or chip is None or (isa.ptx_bytes or 0) > PTXAS_LIMIT:
        return isa
    command: list[str | Path] = [ptxas, "-v", "--gpu-name", chip, "--output-file", ptx.with_suffix(".cubin"), ptx]
    try:
        done = process.run(command, timeout=_PTXAS_SECONDS)
    except ToolMissingError:
        return isa
    parts = _PTXAS_ENTRY.split(done.stderr)
    usage = dict(zip(parts[1::2], parts[2::2], strict=False)).get(name, "")
    registers, stack = _PTXAS_REGISTERS.search(usage), _PTXAS_STACK.search(usage)
    if not done.ok or registers is None or stack is None:
        return isa
    return replace(
        isa,
        registers=int(registers[1]),
        spill_bytes=int(stack[2]) + int(stack[3]),
        stack_bytes=int(stack[1]),
        source="ptxas",
    )
