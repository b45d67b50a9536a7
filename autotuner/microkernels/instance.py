"""The parts of a manifest, and a kernel bound to one problem and one chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from autotuner.errors import UsageError
from autotuner.microkernels.expressions import Expression
from autotuner.problems import Operand, Problem
from autotuner.problems.dtypes import element_type
from autotuner.system.digests import file_digest
from autotuner.system.settings import packaged

PREBUILT = "prebuilt"
MOST_THREADS = 1024
"""Threads of a workgroup, on every chip."""
LARGEST = (1 << 31) - 1
"""The largest number in a launch or a manifest: 32 bits, signed."""
Access = Literal["read", "write", "scratch"]
"""How a kernel uses a buffer. Scratch is memory for one call; it is no operand of the problem."""
SCRATCH: Access = "scratch"
NO_OPERAND = -1
PROBLEM = "problem"
"""A buffer with this element type has that of the problem's operand."""
NOTHING, _ONE = Expression("0"), Expression("1")


@dataclass(frozen=True, slots=True)
class Buffer:
    """One pointer parameter of the kernel."""

    operand: str
    element: str
    zeroed: Expression = NOTHING
    layout: str = ""
    """Letters of its dimensions; empty: the problem's own layout."""
    panels: Expression = NOTHING
    """The width of its panels; 0: it has none."""
    panelled: str = ""
    """The dimension that is cut into panels; the others keep their order."""
    pitch: Expression = NOTHING
    """Elements from one row to the next; 0: rows are contiguous."""
    bytes: Expression = NOTHING
    """Bytes of scratch; with 0 the pointer is left out of the call."""
    widened: Expression = NOTHING
    """For `out`: the kernel writes f32 where this is not 0."""
    parts: Expression = _ONE
    """For `out`: the number of partial results (split K), which are added up after the call."""

    @property
    def access(self) -> Access:
        return SCRATCH if self.operand == SCRATCH else "write" if self.operand == "out" else "read"

    @property
    def is_scratch(self) -> bool:
        return self.access == SCRATCH


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An object file, and the hash that its bytes must have."""

    path: Path
    sha256: str

    def verified(self) -> Path:
        """The file, if its bytes still have this hash."""
        try:
            digest = file_digest(self.path)
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be read: {error.strerror}.", remedy="Put the object there, or correct its path."
            ) from error
        if digest != self.sha256:
            raise UsageError(
                f"{self.path} has the sha256 {digest}; its manifest says {self.sha256}.",
                remedy="If you replaced it on purpose, write the new sha256 into the manifest.",
            )
        return self.path


@dataclass(frozen=True, slots=True)
class Provided:
    """Where a kernel's object comes from."""

    kind: str
    """A word of `PROVIDERS`, or `prebuilt`."""
    source: Path | None
    chips: tuple[str, ...]
    """Chips that it can be built for; for prebuilt kernels, chips that they are known to run on. Empty: the objects
    say."""


@dataclass(frozen=True, slots=True)
class Panels:
    """An operand packed into panels, padded with zeros. Constants are packed when the program is compiled."""

    axis: int
    width: int
    order: tuple[int, ...]
    """The order of the dimensions, with that of the panels among them."""
    source: Operand
    """The operand that is packed."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A buffer of the kernel, bound to an operand of the problem."""

    operand: int
    """The index of the problem's operand; the output is the last. Scratch has `NO_OPERAND`."""
    access: Access
    tensor: Operand
    """The tensor that the kernel takes, after `permutation`."""
    permutation: tuple[int, ...] = ()
    """How the problem's operand is transposed before the call; empty: not at all."""
    zeroed: bool = False
    """The kernel adds to the buffer, which must be zero before. It leaves scratch as zero again."""
    panels: Panels | None = None
    """How the operand is packed, after `permutation`."""
    pitch: int = 0
    """Elements from one row to the next, after `permutation`; 0: rows are contiguous."""
    parts: int = 1
    """For a result: the number of partial results, which are added up after the call."""

    @classmethod
    def scratch(cls, size: int, *, zeroed: bool = False) -> Binding:
        """A binding for so many bytes of scratch."""
        return cls(NO_OPERAND, SCRATCH, Operand((size,), element_type("i8")), zeroed=zeroed)

    def in_rows(self, pitch: int) -> Binding:
        """This binding with a row pitch."""
        shape = self.tensor.shape
        return replace(self, tensor=replace(self.tensor, shape=(*shape[:-1], pitch)), pitch=pitch)

    def in_panels(self, axis: int, width: int, *, lead: int) -> Binding:
        """This binding with one dimension cut into panels. The panels' dimension comes after `lead` dimensions, the
        others follow in their order, and the entries of a panel are innermost."""
        shape = self.tensor.shape
        others = tuple(a for a in range(len(shape)) if a != axis)
        panels = Panels(axis, width, (*others[:lead], axis, *others[lead:]), self.tensor)
        sizes = [-(-shape[a] // width) if a == axis else shape[a] for a in panels.order]
        return replace(self, tensor=replace(self.tensor, shape=(*sizes, width)), panels=panels)


@dataclass(frozen=True, slots=True)
class Instance:
    """A microkernel bound to one problem and chip: what its `hal.dispatch.extern` (on a processor, an executable with a
    shim) needs."""

    name: str
    """The manifest's name, and the variant's where a provider makes several."""
    symbol: str
    chip: str
    """The chip of the object: gfx942, sm_90, x86_64, aarch64, …."""
    objects: tuple[Path, ...]
    bindings: tuple[Binding, ...]
    constants: tuple[int, ...]
    """The i32 parameters, which follow all pointers."""
    workgroup_size: tuple[int, int, int]
    subgroup_size: int | None
    local_memory: int
    """Bytes of dynamic shared memory."""
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Call:
    """A problem, and the kernel that replaces it."""

    instance: Instance
    problem: Problem
    view: Problem | None = None
    """The problem as the kernel computes it, where it is another operation on the same memory."""


# --- Where they lie --------------------------------------------------------------------------------------------------


def own_folder(workspace: Path) -> Path:
    """The folder of a workspace's own microkernels."""
    return workspace / "specs" / "microkernels"


def shipped_folder() -> Path:
    """The folder of the microkernels that come with autotune."""
    return packaged("specs") / "microkernels"


def search_folders(workspace: Path) -> tuple[Path, ...]:
    """Both folders, the workspace's first; in a checkout they are the same."""
    own, shipped = own_folder(workspace), shipped_folder()
    return (shipped,) if own.resolve() == shipped.resolve() else (own, shipped)
