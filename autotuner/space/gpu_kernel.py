"""The resources that the configurations of a constraints op need: threads, tiles, shared memory, registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu, linalg

from autotuner.iree.mlir import enclosing
from autotuner.space import gpu_config
from autotuner.space.constraints import Column, ConstraintsError
from autotuner.space.gpu_config import (
    BANK_CONFLICTS,
    BY_DMA,
    BY_SWIZZLED_DMA,
    BY_THREADS,
    COLUMN_MAJOR,
    COPIES,
    PREFETCH,
    WAVES,
    bits,
    dma_elements,
    windowed,
)
from autotuner.space.prune import Grid, Kernel, Tile
from autotuner.space.table import Knob, Value
from autotuner.targets.backends import Chip, backend_of

_LANES = 64
_PADDING = 8
"""Bytes of padding of each row in shared memory, against bank conflicts; none where a workgroup has no room for it."""


def target_info(function: Any) -> Any:
    """The compiler's description of the chip that a dispatch function is compiled for."""
    variant = enclosing(function, "target")
    if variant is None:
        raise ConstraintsError("the module with pipeline constraints names no target.")
    return iree_gpu.TargetInfo.get_gpu_target_info(variant.attributes["target"])


def read_chip(function: Any) -> Chip:
    """The catalogue's entry of that chip."""
    arch = target_info(function).arch
    return backend_of(arch).like(arch)


@dataclass(frozen=True)
class Rows:
    """The knobs of a constraints op as arrays: rows along the first axis, each free knob along one of its own."""

    columns: Mapping[str, Column]
    free: tuple[Knob, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(next(iter(self.columns.values()))), *(len(k.values) for k in self.free))

    def of(self, attribute: Any) -> Grid:
        """The values of a place in the `knobs` attribute: those of its knob, or the number there."""
        if isinstance(attribute, iree_codegen.IntKnobAttr):
            return self._along(self.columns[attribute.name], 0)
        return self._along(np.array([ir.IntegerAttr(attribute).value], np.int64), 0)

    def option(self, knob: Any, values: Sequence[int]) -> Grid:
        """A number for each chosen option."""
        return self._along(np.array(values, np.int64)[self.columns[knob.name]], 0)

    def free_knob(self, name: str) -> Grid:
        """The values of a free knob; 0 where there is none of this name."""
        return self._free(name, int, without=0)

    def chosen(self, name: str, value: Value) -> Grid:
        """1 where a free knob has this value, and everywhere without such a knob."""
        return self._free(name, lambda one: int(one == value), without=1)

    def _free(self, name: str, number: Callable[[Value], int], *, without: int) -> Grid:
        for axis, knob in enumerate(self.free, start=1):
            if knob.name == name:
                return self._along(np.array([number(v) for v in knob.values], np.int64), axis)
        return self._along(np.full(1, without, np.int64), 0)

    def _along(self, values: Column, axis: int) -> Grid:
        shape = [1] * (len(self.free) + 1)
        shape[axis] = len(values)
        return values.reshape(shape)


def read_kernel(operation: Any, root: Any, chip: Chip, dimensions: Sequence[int], rows: Rows) -> Kernel:
    """The resources of the kernels of a constraints op, by row."""
    knobs = gpu_config.entries(operation.attributes["knobs"])
    if "decomposition_config" in knobs:
        return _attention(knobs, root, chip, dimensions, rows)
    derived = operation.attributes["pipeline"].value.name == "VectorDistribute"
    return _contraction(knobs, root, chip, dimensions, rows, derived=derived)


def _contraction(
    knobs: Mapping[str, Any], root: Any, chip: Chip, dimensions: Sequence[int], rows: Rows, *, derived: bool
) -> Kernel:
    """Matrix products and convolutions; IGEMM has one loop for window and channels together."""
    maps = [m.value for m in linalg.get_indexing_maps(root)]
    tiles = _tiles(knobs, rows, counted_in_instructions=not derived)
    last = len(tiles) - 1
    promoted = []
    for operand in (ir.IntegerAttr(o).value for o in knobs["promote_operands"]):
        shape: list[Grid] = []
        seen: set[int] = set()
        for expression in maps[operand].results:
            loops = [min(loop, last) for loop in gpu_config.loops_of(expression)]
            # Of a window, the tile is one position of the filter: then the image has no more than the output's tile.
            sizes = [tiles[loop] for loop in loops if loop not in seen]
            seen.update(loops)
            if len(tiles) < len(dimensions):
                shape += sizes
            elif sizes:
                shape.append(np.maximum.reduce(np.broadcast_arrays(*sizes)))
        promoted.append(Tile(tuple(shape), bits(root, operand)))
    parallel = {loop for result in maps[2].results for loop in gpu_config.loops_of(result)}
    counts = [*dimensions[:last], math.prod(dimensions[last:])]
    trips = _product([-(-counts[i] // np.maximum(tiles[i], 1)) for i in range(len(tiles)) if i not in parallel])
    product, accumulators = not windowed(root), Tile(tuple(tiles[loop] for loop in sorted(parallel)), bits(root, 2))
    # Of a window less is known.
    ragged = _ragged(maps, knobs, tiles, counts) if product else np.zeros(1, np.int64)
    torn = _torn(promoted, _threads(knobs, rows) // chip.subgroup) if product else np.zeros(1, np.int64)
    stages, by_threads = rows.free_knob(PREFETCH), np.maximum(rows.chosen(COPIES, BY_THREADS), ragged)
    shared = _sum([tile.bytes for tile in promoted])
    # What the hardware copies has no registers to wait in: every stage has memory of its own, with its own padding.
    padding = _sum([_PADDING * _product(tile.shape[:-1]) for tile in promoted])
    padded = shared + padding * (1 - rows.free_knob(BANK_CONFLICTS))
    staged = np.where((stages > 1) & (trips > stages), shared, 0) * by_threads
    single = shared + accumulators.bytes * torn
    by_dma = np.where(stages < 2, single, np.where(torn > 0, np.minimum(single, padded * stages), padded * stages))
    shared = np.where(by_threads > 0, shared, by_dma)
    return Kernel(
        chip=chip,
        threads=_threads(knobs, rows),
        promoted=tuple(promoted),
        accumulators=(accumulators,),
        shared=shared,
        waves=rows.free_knob(WAVES),
        staged=staged,
        derived=derived,
        unswizzled=_unswizzled(knobs, root, rows),
        widened=_widened(knobs["mma_kind"], root, rows),
        strided=len(tiles) == len(dimensions) and _strided(maps, parallel),
        product=product,
        uncopied=rows.chosen(COPIES, BY_DMA) * ragged if _copied(rows) else np.zeros(1, np.int64),
    )


def _copied(rows: Rows) -> bool:
    """Whether the chip has a choice of copies."""
    return any(knob.name == COPIES for knob in rows.free)


def _ragged(maps: Sequence[Any], knobs: Mapping[str, Any], tiles: Sequence[Grid], counts: Sequence[int]) -> Grid:
    """1 where an operand's rows end in padding: IREE copies by threads there, whatever is asked."""
    rows = [maps[ir.IntegerAttr(operand).value].results[-1] for operand in knobs["promote_operands"]]
    inner = {loop for result in rows for loop in gpu_config.loops_of(result)}
    ends = [counts[loop] % np.maximum(tiles[loop], 1) > 0 for loop in inner]
    return np.asarray(np.any(np.broadcast_arrays(*ends), axis=0), np.int64)


def _torn(promoted: Sequence[Tile], waves: Grid) -> Grid:
    """1 where waves share rows in their copies by DMA: then there is one stage, and results go through shared memory.

    Waves are spread over rows, and those that are left over what is in a row. One in twenty has all stages anyway.
    """
    found = np.zeros(1, bool)
    for tile in promoted:
        left = waves // np.gcd(_product(tile.shape[:-1]), waves)
        found = found | ((left > 1) & (tile.shape[-1] % np.maximum(left, 1) == 0))
    return np.asarray(found, np.int64)


def _widened(mma_kind: Any, root: Any, rows: Rows) -> Grid:
    """1 where the matrix instruction adds up in another type than the operation's."""
    own = ir.ShapedType(root.operands[2].type).element_type
    return rows.option(mma_kind, [int(mma.abc_element_types[2] != own) for mma in mma_kind.options])


def _unswizzled(knobs: Mapping[str, Any], root: Any, rows: Rows) -> Grid:
    """1 where DMA copies operands that are padded, or is to swizzle some that are not read in the swizzle's vectors."""
    if not _copied(rows):
        return np.zeros(1, np.int64)
    wanted = dma_elements(bits(root, 0))
    vectors = [int(mma.mnk_shape[1]) * int(mma.mnk_shape[2]) // _LANES for mma in knobs["mma_kind"].options]
    fits = rows.option(knobs["mma_kind"], [int(v == wanted) for v in vectors]) * rows.free_knob(BANK_CONFLICTS)
    padded: Grid = rows.chosen(COPIES, BY_DMA) * (1 - rows.free_knob(BANK_CONFLICTS))
    torn: Grid = rows.chosen(COPIES, BY_SWIZZLED_DMA) * (1 - fits)
    return padded + torn


def _strided(maps: Sequence[Any], parallel: set[int]) -> bool:
    """Whether a loop of the output is multiplied in an index; those of a filter may be (a dilation)."""

    def scaled(expression: Any) -> bool:
        if isinstance(expression, ir.AffineMulExpr):
            return bool(parallel & set(gpu_config.loops_of(expression)))
        binary = isinstance(expression, ir.AffineBinaryExpr)
        return binary and (scaled(expression.lhs) or scaled(expression.rhs))

    return any(scaled(result) for m in maps for result in m.results)


def _attention(knobs: Mapping[str, Any], root: Any, chip: Chip, dimensions: Sequence[int], rows: Rows) -> Kernel:
    maps = [a.value for a in root.attributes["indexing_maps"]]
    parts = {name: gpu_config.entries(part) for name, part in gpu_config.entries(knobs["decomposition_config"]).items()}
    matmuls = {name: gpu_config.entries(part["lowering_config"]) for name, part in parts.items()}
    qk, pv = matmuls["qk_attrs"]["mma_kind"], matmuls["pv_attrs"]["mma_kind"]
    tiles = _tiles(knobs, rows, counted_in_instructions=False)
    # A loop that is tiled at no level is whole in every tile: the one that queries and keys are multiplied over.
    full = [
        np.full(1, size) if not tile.any() else np.maximum(tile, 1)
        for tile, size in zip(tiles, dimensions, strict=True)
    ]

    def tile(operand: int) -> Tile:
        loops = [loop for result in maps[operand].results for loop in gpu_config.loops_of(result)]
        return Tile(tuple(full[loop] for loop in loops), bits(root, operand))

    query, key, value = tile(0), tile(1), tile(2)
    roles = [{loop for r in maps[i].results for loop in gpu_config.loops_of(r)} for i in range(3)]
    keys = max((roles[1] & roles[2]) - roles[0])
    rows_of_out = roles[0] - roles[1]
    score_shape = (*(full[loop] for loop in sorted(rows_of_out)), full[keys])
    scores = Tile(score_shape, 32)
    out = {loop for result in maps[-3].results for loop in gpu_config.loops_of(result)}  # maximum and sum come last
    shared = 1 - _stays(rows, pv)
    stages, trips = rows.free_knob(PREFETCH), -(-dimensions[keys] // full[keys])
    return Kernel(
        chip=chip,
        threads=_threads(knobs, rows),
        promoted=(query, key, value),
        accumulators=(Tile(tuple(full[loop] for loop in sorted(out)), 32), scores),
        shared=query.bytes + key.bytes + value.bytes + Tile(score_shape, value.bits).bytes * shared,
        unordered=shared * ((stages > 1) & (trips > stages)),
        waves=rows.free_knob(WAVES),
        derived=True,
        scores=(full[keys], rows.option(qk, [mma.mnk_shape[1] for mma in qk.options])),
    )


def _stays(rows: Rows, pv: Any) -> Grid:
    """1 where softmax's weights stay in registers, 0 where they go through shared memory.

    Column-major, a lane's results of the first product are four keys in a row; the second product can take them as they
    are when its instruction also gives a lane four of them in a row.
    """
    return rows.free_knob(COLUMN_MAJOR) * rows.option(pv, [int(_four_in_a_row(mma)) for mma in pv.options])


def _four_in_a_row(mma: Any) -> bool:
    if isinstance(mma, iree_gpu.VirtualMMAAttr):
        # Virtual 8-bit instructions interleave keys in fours; the 16-bit ones take eight in a row.
        return bool(mma.abc_element_types[0].width == 8)
    _, n, k = mma.mnk_shape
    return int(n) * int(k) // _LANES == 4


def _tiles(knobs: Mapping[str, Any], rows: Rows, *, counted_in_instructions: bool) -> list[Grid]:
    """The tile of each loop in elements: that of the workgroup, or that of a step of the reduction."""
    workgroup, reduction = ([rows.of(tile) for tile in knobs[level]] for level in ("workgroup", "reduction"))
    if counted_in_instructions:
        last = max(i for i, tile in enumerate(reduction) if tile.any())
        depth = [mma.mnk_shape[2] for mma in knobs["mma_kind"].options]
        reduction[last] = reduction[last] * rows.option(knobs["mma_kind"], depth)
    return [np.maximum(*pair) for pair in zip(workgroup, reduction, strict=True)]


def _threads(knobs: Mapping[str, Any], rows: Rows) -> Grid:
    return _product([rows.of(size) for size in knobs["workgroup_size"]])


def _sum(grids: Sequence[Grid]) -> Grid:
    return sum(grids, np.zeros(1, np.int64))


def _product(grids: Sequence[Grid]) -> Grid:
    return math.prod(grids, start=np.ones(1, np.int64))
