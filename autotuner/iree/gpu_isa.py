"""The figures of GPUs' kernels: from their objects, LLVM's remarks, and IREE's own executables for CUDA."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flatbuffers.number_types import Uint32Flags
from flatbuffers.table import Table

from autotuner.iree.figures import Isa
from autotuner.iree.kernels import Kernel
from autotuner.iree.objects import read_object

_CUDA_EXECUTABLE = re.compile(rb"CDA1.{60}(.{4}CDA1)", re.S)
"""The start of IREE's CUDA executables: a header, then a flatbuffer with the same letters."""
_FUNCTION = re.compile(r"Function Name: (\S+)")
_OCCUPANCY = re.compile(r"Occupancy \[waves/SIMD\]: (\d+)")
_AMD_MMA = re.compile(r"^V_(?:MFMA|SMFMAC|WMMA|SWMMAC)_\w+: (\d+)$", re.M)
_PTX_MMA = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async)\b")


def read_kernels(path: Path, module: Path, remarks: str) -> Iterator[Isa]:
    """The figures of each kernel in a dumped executable."""
    found = read_object(path)  # IREE dumps a microkernel's cubin under the name of PTX
    said = _read_remarks(remarks)
    dynamic = {} if found.kind == "hsaco" else _dynamic_shared_memory(module)
    for kernel in found.kernels:
        if found.kind == "hsaco":
            mma, occupancy = said.get(kernel.symbol, (None, None))
            yield replace(_amd(kernel), mma=mma, occupancy=occupancy)
        else:
            yield _nvidia(kernel, found.texts.get(kernel.symbol), dynamic.get(kernel.symbol))


def _read_remarks(text: str) -> dict[str, tuple[int, int | None]]:
    """Kernel -> (matrix instructions, occupancy). A function's instructions come before its name, its usage after."""
    parts = _FUNCTION.split(text)
    found = {}
    for before, name, after in zip(parts[0::2], parts[1::2], parts[2::2], strict=False):
        occupancy = _OCCUPANCY.search(after)
        found[name] = (sum(map(int, _AMD_MMA.findall(before))), int(occupancy[1]) if occupancy else None)
    return found


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
    """Figures of an NVIDIA kernel; `dynamic` are the bytes of shared memory that its launch asks for."""
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
    """Bytes of dynamic shared memory by kernel: IREE's executable has them, the PTX does not."""
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
    """The offset of a field in a flatbuffer's vtable."""
    return 4 + 2 * field
