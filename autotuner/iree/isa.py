"""What the machine code of a build looks like: registers, spills, memory, size. No build fails for want of them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from elftools.elf.elffile import ELFFile
from flatbuffers.number_types import Uint32Flags
from flatbuffers.table import Table

from autotuner.iree.figures import NO_FIGURES, Isa
from autotuner.iree.kernels import Kernel
from autotuner.iree.objects import read_object
from autotuner.system import process

REMARKS = "--pass-remarks-analysis=kernel-resource-usage|asm-printer"
"""LLVM says on stderr what a kernel uses and which instructions it has. This costs nothing; for a dump of the assembly
the compiler would generate all code twice, a third more time for a candidate."""

_CUDA_EXECUTABLE = re.compile(rb"CDA1.{60}(.{4}CDA1)", re.S)
"""How IREE's executables for CUDA begin: a header, and after it a flatbuffer with the same letters."""
_REMARK = re.compile(r"^remark: .*:\d+:\d+: (?:BasicBlock:.*\n(?:\w+: \d+\n)*\n?|.*\n?)", re.M)
_FUNCTION = re.compile(r"Function Name: (\S+)")
_OCCUPANCY = re.compile(r"Occupancy \[waves/SIMD\]: (\d+)")
_AMD_MMA = re.compile(r"^V_(?:MFMA|SMFMAC|WMMA|SWMMAC)_\w+: (\d+)$", re.M)
_PTX_MMA = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async)\b")


def read_isa(binaries: Path, module: Path, *, remarks: str = "") -> Isa:
    """The figures of a build, from its dumped executables, its module and what `REMARKS` made the compiler say.

    Of several kernels it is the heaviest: the one with most matrix instructions, then with most code. Nothing is raised
    when files are missing or damaged: what cannot be read is None.
    """
    files = sorted(path for path in binaries.glob("*") if path.suffix in (".ptx", ".hsaco", ".so"))
    try:
        kernels = [isa for path in files for isa in _read(path, module, remarks)]
    except Exception:
        # The parsers raise whatever comes to them on damaged bytes, and no candidate may fail because of its figures.
        return NO_FIGURES
    return max(kernels, key=lambda isa: (isa.mma or 0, isa.code_bytes or isa.ptx_bytes or 0), default=NO_FIGURES)


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


def _read(path: Path, module: Path, remarks: str) -> Iterator[Isa]:
    """The figures of each kernel in a dumped executable; a processor's library counts as one kernel."""
    if path.suffix == ".so":
        with path.open("rb") as file:
            yield Isa(code_bytes=sum(s["sh_size"] for s in ELFFile(file).iter_sections() if s.name == ".text"))
        return
    found = read_object(path)  # IREE dumps a microkernel's cubin under the name of PTX
    said = _read_remarks(remarks)
    dynamic = {} if found.kind == "hsaco" else _dynamic_shared_memory(module)
    for kernel in found.kernels:
        if found.kind == "hsaco":
            mma, occupancy = said.get(kernel.symbol, (None, None))
            yield replace(_amd(kernel), mma=mma, occupancy=occupancy)
        else:
            yield _nvidia(kernel, found.texts.get(kernel.symbol), dynamic.get(kernel.symbol))


def _threads(kernel: Kernel) -> int | None:
    return math.prod(kernel.workgroup_size) if kernel.workgroup_size else kernel.most_threads


def _amd(kernel: Kernel) -> Isa:
    return Isa(
        threads=_threads(kernel),
        code_bytes=kernel.code,
        vgpr=kernel.vgpr,
        vgpr_spills=kernel.vgpr_spills,
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
        shared_bytes=None if extra is None else (kernel.local_memory or 0) + extra,
        ptx_bytes=None if text is None else len(text),
    )


def _dynamic_shared_memory(module: Path) -> dict[str, int]:
    """Kernel -> bytes asked for at launch: the PTX does not say, IREE's executable does, in a module or before that."""
    data = module.read_bytes() if module.is_file() else b""
    found: dict[str, int] = {}
    for match in _CUDA_EXECUTABLE.finditer(data):
        with contextlib.suppress(Exception):  # as in read_isa
            found |= _launch_sizes(data[match.start(1) :])
    return found


def _launch_sizes(executable: bytes) -> dict[str, int]:
    """iree/schemas/cuda_executable_def.fbs: exports[], each with kernel_name (1) and block_shared_memory_size (3)."""
    root = Table(executable, int.from_bytes(executable[:4], "little"))
    exports = root.Offset(_slot(0))
    found = {}
    for i in range(root.VectorLen(exports)):
        export = Table(executable, root.Indirect(root.Vector(exports) + 4 * i))
        name = export.String(export.Pos + export.Offset(_slot(1))).decode()
        size = export.Offset(_slot(3))  # 0 where the field has its default: that is not written
        found[name] = export.Get(Uint32Flags, export.Pos + size) if size else 0
    return found


def _slot(field: int) -> int:
    """Where a flatbuffer's table of fields has this one."""
    return 4 + 2 * field
