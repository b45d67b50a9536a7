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
"""Of a workgroup, on every chip."""
LARGEST = (1 << 31) - 1
"""Of what a launch or a manifest counts: 32 bits, signed."""
Access = Literal["read", "write", "scratch"]
"""Scratch is memory for the time of the call, which is none of the problem's operands."""
SCRATCH: Access = "scratch"
NO_OPERAND = -1
PROBLEM = "problem"
"""The element of a buffer that has the problem's own."""
NOTHING, _ONE = Expression("0"), Expression("1")


@dataclass(frozen=True, slots=True)
class Buffer:
    """One pointer of the kernel."""

    operand: str
    element: str
    zeroed: Expression = NOTHING
    layout: str = ""
    """Letters of its dimensions; empty: the problem's own."""
    panels: Expression = NOTHING
    """The width of the panels that it comes in; 0: none."""
    panelled: str = ""
    """The dimension that is cut into panels; the others keep their order."""
    pitch: Expression = NOTHING
    """From row to row, in numbers; 0: rows follow one another."""
    bytes: Expression = NOTHING
    """Of scratch; with 0 of them the pointer is left out of the call."""
    widened: Expression = NOTHING
    """Of `out`: it is f32 where this is not 0."""
    parts: Expression = _ONE
    """Of `out`: results of parts of the depth, one behind another, which are added up after the call."""

    @property
    def access(self) -> Access:
        return SCRATCH if self.operand == SCRATCH else "write" if self.operand == "out" else "read"

    @property
    def is_scratch(self) -> bool:
        return self.access == SCRATCH


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A kernel as it is compiled, and what its bytes must be."""

    path: Path
    sha256: str

    def verified(self) -> Path:
        """The file, if it is still the one that the manifest means."""
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
    """Where the object comes from."""

    kind: str
    """A word of `PROVIDERS`, or `prebuilt`."""
    source: Path | None
    chips: tuple[str, ...]
    """What it can be built for; for prebuilt kernels, what they are known to run on. Empty: the objects say."""


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
    pitch: int = 0
    """From row to row, after `permutation`; 0: rows follow one another."""
    parts: int = 1
    """Of a result: so many of them one behind another, that are added up after the call."""

    @classmethod
    def scratch(cls, size: int, *, zeroed: bool = False) -> Binding:
        """So many bytes."""
        return cls(NO_OPERAND, SCRATCH, Operand((size,), element_type("i8")), zeroed=zeroed)

    def in_rows(self, pitch: int) -> Binding:
        """The same with so many numbers from row to row."""
        shape = self.tensor.shape
        return replace(self, tensor=replace(self.tensor, shape=(*shape[:-1], pitch)), pitch=pitch)

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


@dataclass(frozen=True, slots=True)
class Call:
    """What is replaced, and by which kernel."""

    instance: Instance
    problem: Problem


# --- Where they lie --------------------------------------------------------------------------------------------------


def own_folder(workspace: Path) -> Path:
    """Where a workspace keeps its microkernels, one folder each."""
    return workspace / "specs" / "microkernels"


def shipped_folder() -> Path:
    """Where those are that come with autotune."""
    return packaged("specs") / "microkernels"


def search_folders(workspace: Path) -> tuple[Path, ...]:
    """The workspace's and what comes with autotune; in a checkout they are the same."""
    own, shipped = own_folder(workspace), shipped_folder()
    return (shipped,) if own.resolve() == shipped.resolve() else (own, shipped)
