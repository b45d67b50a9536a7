"""Reads figures of a build's machine code: registers, spills, memory, size. A build never fails for lack of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from autotuner.iree.figures import NO_FIGURES, Isa
from autotuner.system import process
from autotuner.system.settings import loaded

REMARKS = "--pass-remarks-analysis=kernel-resource-usage|asm-printer"
"""Flags for LLVM's remarks on resources and instructions. They cost nothing; a dump of the assembly would generate all
code twice, a third more time for a candidate."""

_GPU_READER = "autotuner.iree.gpu_isa:read_kernels"
"""The module for GPU executables, imported on first use."""
_REMARK = re.compile(r"^remark: .*:\d+:\d+: (?:BasicBlock:.*\n(?:\w+: \d+\n)*\n?|.*\n?)", re.M)


def read_isa(binaries: Path, module: Path, *, remarks: str = "") -> Isa:
    """The figures of a build, from its dumped executables, its module and what `REMARKS` made the compiler say.

    Of several kernels the heaviest counts: the one with most matrix instructions, then with most code. Missing or
    damaged files raise nothing: unknown figures are None.
    """
    files = sorted(path for path in binaries.glob("*") if path.suffix in (".ptx", ".hsaco", ".so"))
    try:
        kernels = [isa for path in files for isa in _read(path, module, remarks)]
    except Exception:
        # The parsers raise whatever comes to them on damaged bytes, and no candidate may fail because of its figures.
        return NO_FIGURES
    return max(kernels, key=lambda isa: (isa.mma or 0, isa.code_bytes or isa.ptx_bytes or 0), default=NO_FIGURES)


def split_remarks(stderr: str) -> tuple[str, str]:
    """Splits stderr into what `REMARKS` added and the compiler's own messages."""
    remarks = "".join(m[0] for m in _REMARK.finditer(stderr))
    # Where the middle is missing, instructions would be too few.
    return "" if process.CUT in stderr else remarks, _REMARK.sub("", stderr)


def _read(path: Path, module: Path, remarks: str) -> Sequence[Isa]:
    """The figures of each kernel in a dumped executable; a processor's library counts as one kernel."""
    if path.suffix == ".so":
        with path.open("rb") as file:
            return [Isa(code_bytes=sum(s["sh_size"] for s in ELFFile(file).iter_sections() if s.name == ".text"))]
    return list(loaded(_GPU_READER)(path, module, remarks))
