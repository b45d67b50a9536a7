"""The figures of a kernel's machine code, as they are stored and shown. It imports nothing: `history` must not wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

_SPILLS = 16
"""Up to so many spilled registers are no reason to wait: their traffic hides behind the matrix instructions."""
PTXAS_LIMIT = 200_000
"""Bytes of PTX. ptxas takes 0.1 s for most kernels, but grows faster than they do: 2 to 30 s above this size."""


@dataclass(frozen=True)
class Isa:
    """The figures of one kernel; None where a target has no such thing, or nothing was there to read."""

    threads: int | None = None
    """Of a workgroup."""
    mma: int | None = None
    """Matrix instructions (MFMA, WMMA, mma.sync) in the text, however often a loop runs them."""
    code_bytes: int | None = None
    # AMD
    vgpr: int | None = None
    """Vector registers of a lane; on CDNA the AGPRs are part of them."""
    agpr: int | None = None
    sgpr: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    scratch_bytes: int | None = None
    lds_bytes: int | None = None
    wavefront: int | None = None
    occupancy: int | None = None
    """Waves that a SIMD can hold at once, as LLVM computes it from registers, LDS and threads."""
    # NVIDIA
    registers: int | None = None
    spill_bytes: int | None = None
    """Stores and loads together."""
    stack_bytes: int | None = None
    shared_bytes: int | None = None
    ptx_bytes: int | None = None
    """Of its text."""
    source: Literal["ptxas", "ptx", "cubin"] | None = None
    """Where NVIDIA's figures come from. PTX has virtual registers only, so without ptxas there is no `registers`;
    a cubin, which microkernels may be, does not say what is spilled."""

    @property
    def spills_badly(self) -> bool:
        """More than 16 registers: as VGPRs, or as 4-byte registers that are stored once and loaded once.

        PTX too long for ptxas counts as well: every such kernel that was given to it spilled by tens of kilobytes.
        """
        unread = self.spill_bytes is None and (self.ptx_bytes or 0) > PTXAS_LIMIT
        return unread or (self.vgpr_spills or 0) > _SPILLS or (self.spill_bytes or 0) > _SPILLS * 4 * 2

    @property
    def summary(self) -> str:
        """For a cell of a table: what decides how the kernel runs, else the size of its code."""
        shown: list[tuple[str, str | int | None]] = [
            ("vgpr", self.vgpr),
            ("spills", self.vgpr_spills),
            ("lds", _short(self.lds_bytes)),
            ("occ", self.occupancy),
            ("regs", self.registers),
            ("spills", _short(self.spill_bytes)),
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
