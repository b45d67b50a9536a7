"""Rules that reject configurations although the compiler's constraints allow them: they cannot work, or they give the
code of another one (`DUPLICATES`).

A rule sees a whole space at once: every quantity of a kernel is an array over the rows of the constraints (first
axis) and the values of each knob beside them (one further axis a knob), and numpy broadcasts the rest.
`benchmarks/pruning.py` builds a sample of what each rule rejects. The rules for duplicates were found by comparing
binaries (`python -m benchmarks.duplicates`); what they leave out differs in one knob from what stays: its plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotuner.targets.backends import Chip

Grid = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LOAD_BITS = 128


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of an operand that a workgroup works on at a time."""

    shape: tuple[Grid, ...]
    bits: int
    """Bits of an element."""

    @property
    def elements(self) -> Grid:
        product = np.ones(1, np.int64)
        for size in self.shape:
            product = product * size
        return product

    @property
    def bytes(self) -> Grid:
        return self.elements * self.bits // 8


def _nothing() -> Grid:
    return np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class Kernel:
    """The quantities of all kernels of a space that the rules read."""

    chip: Chip
    threads: Grid
    """Threads of a workgroup."""
    promoted: tuple[Tile, ...]
    """Tiles of the operands that are copied to shared memory."""
    accumulators: tuple[Tile, ...]
    """Tiles that are in registers at the same time."""
    shared: Grid
    """Bytes of shared memory."""
    waves: Grid = field(default_factory=_nothing)
    """The requested waves per execution unit; 0: no request."""
    staged: Grid = field(default_factory=_nothing)
    """Bytes that a prefetch holds in registers while the step before is computed; 0 where nothing is prefetched."""
    derived: bool = False
    """Whether each promoted operand must have a layout over the threads (VectorDistribute)."""
    unordered: Grid = field(default_factory=_nothing)
    """1 where softmax's weights go through shared memory in a loop that also prefetches operands."""
    unswizzled: Grid = field(default_factory=_nothing)
    """1 where DMA is to copy or swizzle operands in a way that the rest of the configuration does not allow."""
    widened: Grid = field(default_factory=_nothing)
    """1 where the matrix instruction adds up in another type than the operation's."""
    strided: bool = False
    """Whether a window moves by more than one, and is not copied out into a matrix first."""
    scores: tuple[Grid, Grid] = field(default_factory=lambda: (_nothing(), _nothing() + 1))
    """Attention: the tile of keys, and the columns of the instruction that multiplies queries with keys."""
    product: bool = False
    """Whether it is a plain matrix product: of a window or of softmax less is known."""
    uncopied: Grid = field(default_factory=_nothing)
    """1 where DMA is to copy rows that end in padding."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that rejects configurations."""

    name: str
    reason: str
    rejects: Callable[[Kernel], Mask]


def _underivable(kernel: Kernel) -> Mask:
    rejected = np.zeros(1, bool)
    if kernel.derived:
        for tile in kernel.promoted:
            rejected = rejected | ~_derivable(tile, kernel.threads)
    return rejected


def _derivable(tile: Tile, threads: Grid) -> Mask:
    """Whether IREE can spread a tile over all threads of a workgroup.

    The threads are handed out from the innermost dimension on, and each dimension must divide what is left of them, or
    the other way round.
    """
    shape, steps, left = _vectors(tile, threads)
    works: Mask = np.ones_like(left, bool)
    for size, step in zip(reversed(shape), reversed(steps), strict=True):
        works = works & (size % step == 0)
        blocks = np.maximum(size // step, 1)
        works = works & ((left % blocks == 0) | (blocks % left == 0))
        left = np.maximum(left // np.minimum(blocks, left), 1)
    return works


def _vectors(tile: Tile, threads: Grid) -> tuple[list[Grid], list[Grid], Grid]:
    """The shape of a tile, how much of it a thread copies at a time in each dimension, and the threads.

    That is a vector of 128 bits along the innermost dimension, or less when there is not enough for all threads.
    """
    *arrays, threads = np.broadcast_arrays(*tile.shape, threads)
    shape = [np.maximum(size, 1) for size in arrays]
    inner, total = shape[-1], np.prod(shape, axis=0)
    widest = _LOAD_BITS // tile.bits
    even = total % threads == 0
    vector = np.where(even, np.minimum(widest, np.maximum(total // threads, 1)), widest)
    fits = ~even | (inner % vector == 0) | (vector % inner == 0)
    steps = [np.ones_like(inner) for _ in shape]
    steps[-1] = np.where(fits, np.minimum(inner, vector), 1)
    # A vector that is longer than the innermost dimension goes on into the next one, as long as it covers it whole.
    going = even & fits & (inner < vector)
    rest = np.where(going, vector // inner, 1)
    for axis in range(len(shape) - 2, -1, -1):
        going = going & (rest % shape[axis] == 0)
        steps[axis] = np.where(going, shape[axis], 1)
        rest = np.where(going, rest // shape[axis], rest)
    return shape, steps, threads


def _registers(kernel: Kernel) -> Mask:
    return _held(kernel) >= _available(kernel) * kernel.threads


def _held(kernel: Kernel) -> Grid:
    """Registers of 32 bits that a workgroup's accumulators and prefetched operands take."""
    return sum((tile.elements * tile.bits // 32 for tile in kernel.accumulators), kernel.staged // 4)


def _available(kernel: Kernel) -> Grid:
    """Registers of 32 bits that a thread can have."""
    threads = np.maximum(kernel.threads, 1)
    chip = kernel.chip
    if chip.register_file:
        return np.asarray(np.minimum(chip.registers, chip.register_file // threads))
    if not chip.simds:
        return np.full(1, chip.registers)
    waves = -(-threads // chip.subgroup)
    # A whole workgroup runs on one compute unit, so its waves share the registers of the SIMDs.
    resident = -(-waves // chip.simds)
    # The compiler ignores a request for more waves than shared memory leaves room for.
    used = np.maximum(kernel.shared * 3 // 2, 1)  # padding may add half of it
    possible = chip.shared // used * waves // chip.simds
    asked = np.where(kernel.waves <= possible, kernel.waves, 0)
    return np.asarray(chip.registers // np.maximum(np.maximum(resident, asked), 1) // 8 * 8)


def _idle_request(kernel: Kernel) -> Mask:
    chip = kernel.chip
    if not chip.simds:
        return np.zeros(1, bool)
    # Shared memory is counted without padding, so there is never less room than this.
    waves = chip.shared // np.maximum(kernel.shared, 1) * -(-kernel.threads // chip.subgroup)
    possible: Grid = -(-waves // chip.simds)
    return kernel.waves > possible


def _few_registers(kernel: Kernel) -> Mask:
    if not kernel.chip.simds or not kernel.product:
        return np.zeros(1, bool)
    return np.asarray((kernel.waves == 2) & (_held(kernel) <= kernel.chip.registers // 4 * kernel.threads))


WIDENED = Rule("accumulator", "an instruction that adds up in another type than the operation", lambda k: k.widened > 0)
"""IREE fails with 'failed to distribute' (VectorDistribute) or on a write that is not distributed (TileAndFuse)."""

UNSWIZZLED = Rule(
    "swizzle",
    "operands copied by DMA beside padding, or swizzled beside narrower vectors",
    lambda k: k.unswizzled > 0,
)
"""IREE fails with 'all swizzle hints must resolve' or on the types of a swizzle_hint. A plain copy by DMA is built and
wrong: a wave writes its rows without the padding that they are read with."""

UNORDERED = Rule(
    "barrier", "prefetched steps whose softmax goes through shared memory", lambda k: np.asarray(k.unordered > 0)
)
"""IREE builds it and it is wrong: a subgroup reads what others write, with no barrier between."""

STRIDED = Rule("stride", "a direct convolution whose window moves by more than one", lambda k: np.full(1, k.strided))
"""IREE fails with "'iree_codegen.inner_tiled' op expected indexing map to be a projected permutation", or crashes."""

UNDERIVABLE = Rule("layout", "a promoted operand cannot be laid out over the threads", _underivable)
"""IREE fails with 'failed to derive layout for promoted read-like op'."""

TORN_SCORES = Rule(
    "scores", "the tile of keys is no multiple of the instruction's columns", lambda k: np.mod(*k.scores) != 0
)
"""IREE fails with "'linalg.pack' op tile size analysis did not determine a valid tile size"."""

SHARED_MEMORY = Rule("shared-memory", "more shared memory than a workgroup has", lambda k: k.shared > k.chip.shared)
"""IREE fails with 'uses N bytes of shared memory; exceeded the limit'."""

REGISTERS = Rule("registers", "accumulators and prefetched operands fill the registers", _registers)
"""IREE builds it, often for minutes; the kernel then spills in its innermost loop."""

RULES: tuple[Rule, ...] = (
    WIDENED,
    STRIDED,
    UNSWIZZLED,
    UNORDERED,
    UNDERIVABLE,
    TORN_SCORES,
    SHARED_MEMORY,
    REGISTERS,
)


IDLE_REQUEST = Rule("waves", "the same as without a request: more waves than shared memory has room for", _idle_request)
"""LLVM ignores the request."""

FEW_REGISTERS = Rule(
    "registers", "the same as without a request: registers enough for two waves anyway", _few_registers
)
"""Two waves leave each thread 256 registers. What accumulators and prefetched operands need is known, the rest is not:
they may have half of them."""

UNCOPIED = Rule(
    "copies", "the same as by threads: DMA of rows that end in padding", lambda k: np.asarray(k.uncopied > 0)
)
"""IREE copies by threads there."""

DUPLICATES: tuple[Rule, ...] = (IDLE_REQUEST, FEW_REGISTERS, UNCOPIED)
USED: tuple[Rule, ...] = (*RULES, *DUPLICATES)
"""The rules that every space uses."""


def apply(kernel: Kernel, rules: Sequence[Rule], *, shape: tuple[int, ...]) -> Mask:
    """A mask of what no rule rejects, over rows and free knobs."""
    keep = np.ones(shape, bool)
    for rule in rules:
        keep &= ~rule.rejects(kernel)
    return keep
