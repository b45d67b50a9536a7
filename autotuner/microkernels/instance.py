"""A microkernel bound to one problem and one chip: all that a spec needs, and all that is checked before a compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from autotuner.problems import Operand, Problem
from autotuner.problems.dtypes import element_type

Access = Literal["read", "write", "scratch"]
"""Scratch is memory for the time of the call, which is none of the problem's operands."""
SCRATCH: Access = "scratch"
NO_OPERAND = -1


@dataclass(frozen=True, slots=True)
class Panels:
    """An operand in panels, with zeros behind its end. Constants are packed when the program is compiled."""

    axis: int
    width: int
    order: tuple[int, ...]
    """Of the dimensions, that of the panels among them."""
    source: Operand
    """What is packed."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One buffer of the kernel, in the order of its parameters."""

    operand: int
    """Which of the problem's operands it is; the output is the last. Scratch is `NO_OPERAND`."""
    access: Access
    tensor: Operand
    """As the kernel wants it, after `permutation`."""
    permutation: tuple[int, ...] = ()
    """How the problem's operand is transposed before the call; empty: it is taken as it is."""
    zeroed: bool = False
    """The kernel adds to what is there: the buffer must be zero before. Scratch it leaves as zero again."""
    panels: Panels | None = None
    """How it is packed, after `permutation`."""
    parts: int = 1
    """Of a result: so many of them one behind another, that are added up after the call."""

    @classmethod
    def scratch(cls, size: int, *, zeroed: bool = False) -> Binding:
        """So many bytes."""
        return cls(NO_OPERAND, SCRATCH, Operand((size,), element_type("i8")), zeroed=zeroed)

    def in_panels(self, axis: int, width: int, *, lead: int) -> Binding:
        """The same with one dimension cut into panels: they stand after `lead` dimensions, the others behind them in
        their order, and the entries of a panel innermost."""
        shape = self.tensor.shape
        others = tuple(a for a in range(len(shape)) if a != axis)
        panels = Panels(axis, width, (*others[:lead], axis, *others[lead:]), self.tensor)
        sizes = [-(-shape[a] // width) if a == axis else shape[a] for a in panels.order]
        return replace(self, tensor=replace(self.tensor, shape=(*sizes, width)), panels=panels)


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


_C_TYPES = {"f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t"}
"""What C calls an element; others have no name there, and two bytes are two bytes."""


def c_signature(instance: Instance) -> str:
    """The C function that a processor's shim calls: pointers, i32 constants, and the workgroup's three ids."""
    pointers = [
        f"{'const ' if one.access == 'read' else ''}{_C_TYPES.get(one.tensor.element.name, 'void')} *"
        for one in instance.bindings
    ]
    words = [*pointers, *["int32_t"] * len(instance.constants), *["size_t"] * len(instance.grid)]
    return f"void {instance.symbol}({', '.join(words)})"


@dataclass(frozen=True, slots=True)
class Call:
    """What is replaced, and by which kernel."""

    instance: Instance
    problem: Problem


def crash_words(reason: str, calls: Sequence[Call], *, wrong: bool = False) -> str:
    """Why a run failed; of a crash in C of one's own, or a `wrong` result, also how that is called."""
    if not (wrong or reason.startswith("ended by ")) or not calls:
        return reason
    return f"{reason}; IREE calls it as `{c_signature(calls[0].instance)}`, and its function must take just that"
