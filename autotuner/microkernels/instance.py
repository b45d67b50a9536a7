"""A microkernel bound to one problem and one chip: all that a spec needs, and all that is checked before a compile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotuner.problems import Operand, Problem

Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Binding:
    """One buffer of the kernel, in the order of its parameters."""

    operand: int
    """Which of the problem's operands it is; the output is the last."""
    access: Access
    tensor: Operand
    """As the kernel wants it, after `permutation`."""
    permutation: tuple[int, ...] = ()
    """How the problem's operand is transposed before the call; empty: it is taken as it is."""
    zeroed: bool = False
    """The kernel adds to what is there: the buffer must be zero before."""


@dataclass(frozen=True, slots=True)
class Instance:
    """What `hal.dispatch.extern` (or, on a processor, an executable with a shim) is made of."""

    name: str
    """The manifest's, and the variant's where a provider makes several."""
    symbol: str
    chip: str
    """gfx942, sm_90, x86_64, aarch64, …: what the object is for."""
    objects: tuple[Path, ...]
    bindings: tuple[Binding, ...]
    constants: tuple[int, ...]
    """i32 parameters, after all pointers."""
    workgroup_size: tuple[int, int, int]
    subgroup_size: int | None
    local_memory: int
    """Bytes of dynamic shared memory."""
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Call:
    """What is replaced, and by which kernel."""

    instance: Instance
    problem: Problem
