"""Kernels of object files, and how they are called. IREE does not check that: it embeds what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["hsaco", "ptx", "cubin", "elf"]
"""AMD's code object, NVIDIA's text and machine code, a processor's object."""
ArgumentKind = Literal["pointer", "value", "hidden"]
POINTER = 8
"""Bytes of one."""


@dataclass(frozen=True, slots=True)
class Argument:
    kind: ArgumentKind
    """Hidden ones come after the others; the driver fills them, not the caller."""
    type: str
    """In the file's own words: global_buffer, by_value, hidden_block_count_x; u64, b32."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. None: the file does not say, or there is no such thing on the chip."""

    symbol: str
    kind: Kind
    chip: str
    arguments: tuple[Argument, ...] | None = None
    kernarg_size: int | None = None
    workgroup_size: tuple[int, int, int] | None = None
    """The only one that it can be launched with."""
    most_threads: int | None = None
    """In a workgroup."""
    wavefront: int | None = None
    local_memory: int | None = None
    """Static bytes."""
    dynamic_memory: bool = False
    """It may use more, given at launch (PTX only: others do not say)."""
    vgpr: int | None = None
    agpr: int | None = None
    sgpr: int | None = None
    vgpr_spills: int | None = None
    sgpr_spills: int | None = None
    scratch: int | None = None
    registers: int | None = None
    """Of a thread on NVIDIA's chips: a cubin says so, PTX has virtual ones only."""
    cluster: tuple[int, int, int] | None = None
    """Workgroups that NVIDIA's driver launches together: the grid must be a multiple."""
    stack: int | None = None
    """Bytes of a thread on NVIDIA's chips."""
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
    """Not so for what a compiler's -c makes."""
    version: str | None = None
    """Of PTX: what the driver must know."""
    defined: frozenset[str] = frozenset()
    undefined: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Names of a processor's object that are visible from outside."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Of PTX: each kernel from its name to the next one's, comments and strings blanked."""
