"""The kernels of object files, and how they are called. IREE does not check it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["hsaco", "ptx", "cubin", "elf"]
"""AMD's code object, NVIDIA's text and machine code, a processor's object."""
ArgumentKind = Literal["pointer", "value", "hidden"]
POINTER = 8
"""Bytes of a pointer."""


@dataclass(frozen=True, slots=True)
class Argument:
    kind: ArgumentKind
    """The argument's kind. Hidden ones come last, and the driver sets them."""
    type: str
    """The type in the file's words: global_buffer, by_value, hidden_block_count_x; u64, b32."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. None: the file does not say, or the chip has no such thing."""

    symbol: str
    kind: Kind
    chip: str
    arguments: tuple[Argument, ...] | None = None
    kernarg_size: int | None = None
    workgroup_size: tuple[int, int, int] | None = None
    """The required workgroup size."""
    most_threads: int | None = None
    """The most threads of a workgroup."""
    wavefront: int | None = None
    local_memory: int | None = None
    """Bytes of static shared memory."""
    dynamic_memory: bool = False
    """It uses dynamic shared memory (known for PTX only)."""
    vgpr: int | None = None
    agpr: int | None = None
    sgpr: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    scratch: int | None = None
    registers: int | None = None
    """Registers of a thread on NVIDIA's chips, known for cubins only."""
    cluster: tuple[int, int, int] | None = None
    """Workgroups of an NVIDIA cluster: the grid must be a multiple."""
    stack: int | None = None
    """Stack bytes of a thread on NVIDIA's chips."""
    code: int | None = None
    """Bytes of machine code."""

    def of_kind(self, kind: ArgumentKind) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments or () if a.kind == kind)


@dataclass(frozen=True, slots=True)
class KernelFile:
    path: Path
    kind: Kind
    chip: str
    kernels: tuple[Kernel, ...]
    linked: bool = True
    """It is linked: not the output of a compiler's -c."""
    version: str | None = None
    """The PTX version that the driver must support."""
    defined: frozenset[str] = frozenset()
    undefined: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """The visible symbols of a processor's object."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The PTX text of each kernel, with comments and strings blanked."""
