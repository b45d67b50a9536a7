"""The figures of a kernel's machine code, as they are stored and shown. It imports nothing: `history` starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

Figures = Literal["", "code", "remarks"]
"""The source of the figures: none, the binary, or (for AMD) LLVM's remarks too."""


@dataclass(frozen=True)
class Isa:
    """The figures of one kernel; None: the target has no such figure, or it could not be read."""

    threads: int | None = None
    """Threads of a workgroup."""
    mma: int | None = None
    """Matrix instructions (MFMA, WMMA, mma.sync) in the text, however often a loop runs them."""
    code_bytes: int | None = None
    # AMD
    vgpr: int | None = None
    """Vector registers of a lane; on CDNA the AGPRs are part of them."""
    vgpr_spills: int | None = None
    lds_bytes: int | None = None
    wavefront: int | None = None
    occupancy: int | None = None
    """Waves that a SIMD can hold at once, as LLVM computes it from registers, LDS and threads."""
    # NVIDIA
    registers: int | None = None
    """Registers of a thread, known for cubins (of microkernels): PTX has virtual registers only."""
    shared_bytes: int | None = None
    ptx_bytes: int | None = None
    """Bytes of the PTX text."""

    @property
    def summary(self) -> str:
        """A table cell: the resources of a GPU's kernel, else the size of the code."""
        shown: list[tuple[str, str | int | None]] = [
            ("vgpr", self.vgpr),
            ("spills", self.vgpr_spills),
            ("lds", _short(self.lds_bytes)),
            ("occ", self.occupancy),
            ("regs", self.registers),
            ("smem", _short(self.shared_bytes)),
        ]
        known = [(name, value) for name, value in shown if value is not None]
        if not known and self.code_bytes is not None:
            return f"code {_short(self.code_bytes)}"
        return ", ".join(f"{name} {value}" for name, value in known)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Isa:
        return cls(**{name: value for name, value in (document or {}).items() if name in _NAMES})


_NAMES = tuple(one.name for one in fields(Isa))
NO_FIGURES = Isa()


def _short(size: int | None) -> str | None:
    """Bytes, in KiB where there are many."""
    if size is None or size < 1024:
        return None if size is None else str(size)
    return f"{size / 1024:.1f}".removesuffix(".0") + "k"
