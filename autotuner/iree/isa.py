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
from flatbuffers.number_types import Uint32Flags
from flatbuffers.table import Table

from autotuner.errors import ToolMissingError
from autotuner.iree.figures import NO_FIGURES, PTXAS_LIMIT, Isa
from autotuner.iree.kernels import Kernel
from autotuner.iree.objects import read_object
from autotuner.system import process

REMARKS = "--pass-remarks-analysis=kernel-resource-usage|asm-printer"
"""LLVM says on stderr what a kernel uses and which instructions it has. This costs nothing; for a dump of the assembly
the compiler would generate all code twice, a third more time for a candidate."""

Figures = Literal["", "code", "remarks", "ptx", "ptxas"]
"""Where the figures come from: not read at all, the code's size, what `REMARKS` gives, PTX, NVIDIA's assembler too."""
_PTXAS_SECONDS = 20.0
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
    files = ptx or sorted([*binaries.glob("*.hsaco"), *binaries.glob("*.so")])
    try:
        kernels = [(path, *kernel) for path in files for kernel in _read(path, module, remarks)]
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


def _read_remarks(text: str) -> dict[str, tuple[int, int | None]]:
    """Kernel -> (matrix instructions, occupancy). A function's instructions come before its name, its usage after."""
    parts = _FUNCTION.split(text)
    found = {}
    for before, name, after in zip(parts[0::2], parts[1::2], parts[2::2], strict=False):
        occupancy = _OCCUPANCY.search(after)
        found[name] = (sum(map(int, _AMD_MMA.findall(before))), int(occupancy[1]) if occupancy else None)
    return found


def _read(path: Path, module: Path, remarks: str) -> Iterator[tuple[str, Isa, int]]:
    """(name, figures, size) of each kernel in a dumped executable; a processor's library counts as one kernel."""
    if path.suffix == ".so":
        with path.open("rb") as file:
            size = sum(s["sh_size"] for s in ELFFile(file).iter_sections() if s.name == ".text")
        yield "", Isa(code_bytes=size), size
        return
    found = read_object(path)  # IREE dumps a microkernel's cubin under the name of PTX
    said = _read_remarks(remarks)
    dynamic = {} if found.kind == "hsaco" else _dynamic_shared_memory(module)
    for kernel in found.kernels:
        if found.kind == "hsaco":
            mma, occupancy = said.get(kernel.symbol, (None, None))
            isa = replace(_amd(kernel), mma=mma, occupancy=occupancy)
        else:
            isa = _nvidia(kernel, found.texts.get(kernel.symbol), dynamic.get(kernel.symbol))
        yield kernel.symbol, isa, isa.code_bytes or isa.ptx_bytes or 0


def _threads(kernel: Kernel) -> int | None:
    return math.prod(kernel.workgroup_size) if kernel.workgroup_size else kernel.most_threads


def _amd(kernel: Kernel) -> Isa:
    return Isa(
        threads=_threads(kernel),
        code_bytes=kernel.code,
        vgpr=kernel.vgpr,
        agpr=kernel.agpr,
        sgpr=kernel.sgpr,
        vgpr_spills=kernel.vgpr_spills,
        sgpr_spills=kernel.sgpr_spills,
        scratch_bytes=kernel.scratch,
        lds_bytes=kernel.local_memory,
        wavefront=kernel.wavefront,
    )


def _nvidia(kernel: Kernel, text: str | None, dynamic: int | None) -> Isa:
    """`dynamic`: bytes of shared memory that a launch asks for; of PTX it is known whether it can have any."""
    extra = 0 if kernel.kind == "ptx" and not kernel.dynamic_memory else dynamic
    return Isa(
        threads=_threads(kernel),
        mma=None if text is None else len(_PTX_MMA.findall(text)),
        code_bytes=kernel.code,
        registers=kernel.registers,
        stack_bytes=kernel.stack,
        shared_bytes=None if extra is None else (kernel.local_memory or 0) + extra,
        ptx_bytes=None if text is None else len(text),
        source="cubin" if kernel.kind == "cubin" else "ptx",
    )


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
    if ptxas is None or (isa.ptx_bytes or 0) > PTXAS_LIMIT:
        return isa
    words = ("-v", "--gpu-name", read_object(ptx).chip, "--output-file", ptx.with_suffix(".cubin"))
    try:
        done = process.run([ptxas, *words, ptx], timeout=_PTXAS_SECONDS)
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
