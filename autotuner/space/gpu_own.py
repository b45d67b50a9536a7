"""What lies near the compiler's own choice: a declared space for convolutions whose constraints it does not emit.

IREE 3.13 emits none for gradients of weights with channels first, and crashes for groups. What it chooses for them it
also builds with other tiles of a subgroup, other steps and other values of the free knobs; which instruction is used,
and for which loops, stays its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import iree_gpu, linalg

from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import enclosing, walk
from autotuner.space import gpu_config, prune
from autotuner.space.dispatch import CompilationInfo
from autotuner.space.gpu_config import COPIES, chosen_free, free_knobs, translation_info
from autotuner.space.gpu_kernel import read_chip
from autotuner.space.table import Columns, Config, Knob, Space, Value
from autotuner.targets.backends import Backend

_PIPELINE = "TileAndFuse"
_TIMES, _MOST = (1, 2, 4, 8), 32
"""Instructions of a subgroup along a loop, and all together: their sums are held in registers."""
_STEP, _PADDING = "red", "padding"


class OwnSpace:
    """The configurations near the compiler's own, with the interface of `GpuSpace`."""

    def __init__(self, module: Any, function: Any, root: Any, *, backend: Backend) -> None:
        """Use `read`."""
        self._module, self._function = module, function
        self._own = gpu_config.entries(root.attributes["lowering_config"])
        levels, pipeline = {"workgroup", "subgroup", "reduction"}, str(function.attributes["translation_info"])
        if not levels | {"mma_kind"} <= self._own.keys() or f"<{_PIPELINE}>" not in pipeline:
            raise NoCandidateError("the compiler's own choice has no tiles to vary.", remedy="Try other sizes.")
        self._tiles = {one: [ir.IntegerAttr(tile).value for tile in self._own[one]] for one in levels}
        self._loops = [loop for loop, count in enumerate(self._tiles["subgroup"]) if count]
        self._last = max(loop for loop, tile in enumerate(self._tiles["reduction"]) if tile)
        self._tiles[_PADDING] = self._padding()
        sizes = ir.ShapedType(root.operands[2].type).shape  # of the loops that are kept, which come first
        self._kept, self._chip = len(sizes), read_chip(function)
        maps = [one.value.results for one in linalg.get_indexing_maps(root)]
        self._root, self._sizes = root, _sizes(root, maps)
        self._reads = [
            ({loop for result in maps[one] for loop in gpu_config.loops_of(result)}, gpu_config.bits(root, one))
            for one in range(2)
        ]
        free = free_knobs(_PIPELINE, backend, self._chip, column_major=False)
        knobs = [Knob(f"sg_{loop}", self._counts(loop, sizes[loop])) for loop in self._loops]
        knobs += [
            Knob(_STEP, tuple(sorted({self._tiles["reduction"][self._last], *_TIMES}))),
            *(k for k in free if k.name != COPIES),
        ]
        self.space = Space.join("pipeline", {f"{_PIPELINE}/igemm": Space.product(knobs, [self._held])})

    @classmethod
    def read(cls, text: str, *, backend: Backend) -> OwnSpace:
        """Reads a module of configured dispatches (`--iree-codegen-add-tuner-attributes`)."""
        with ir.Context():
            module = ir.Module.parse(text)
            for operation in walk(module.operation):
                if "root_op" in operation.attributes and gpu_config.windowed(operation):
                    return cls(module, enclosing(operation, "translation_info"), operation, backend=backend)
        raise NoCandidateError("no dispatch of this module is a convolution.", remedy="It was compiled as it is.")

    def compilation_info(self, config: Config) -> CompilationInfo:
        """The attributes that a configuration of this space stands for."""
        if config not in self.space:
            raise UsageError(f"not a legal configuration of this dispatch: {config.as_dict()}.")
        values = config.as_dict()
        tiles = {level: list(sizes) for level, sizes in self._tiles.items()}
        for loop in self._loops:
            each = tiles["workgroup"][loop] // tiles["subgroup"][loop]
            tiles["subgroup"][loop] = int(values[f"sg_{loop}"])
            tiles["workgroup"][loop] = tiles[_PADDING][loop] = each * int(values[f"sg_{loop}"])
        depth = tiles[_PADDING][self._last] // tiles["reduction"][self._last]
        tiles["reduction"][self._last] = int(values[_STEP])
        tiles[_PADDING][self._last] = depth * int(values[_STEP])
        with self._module.context:
            parts = {**self._own, **{level: gpu_config.integers(sizes) for level, sizes in tiles.items()}}
            if _PADDING not in self._own:  # its own tiles divide all loops; others may not
                del parts[_PADDING]
                parts.update(gpu_config.padding(parts, self._root, self._sizes))
            own = self._function.attributes["translation_info"]
            return CompilationInfo(
                lowering_config=str(iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))),
                translation_info=str(translation_info(own, values, own)),
            )

    def default(self) -> Config | None:
        """The configuration that the compiler chose itself."""
        with self._module.context:
            wanted: dict[str, Value] = {
                **chosen_free(self._function.attributes["translation_info"], column_major=False),
                **{f"sg_{loop}": self._tiles["subgroup"][loop] for loop in self._loops},
                _STEP: self._tiles["reduction"][self._last],
            }
        return self.space[self.space.nearest(wanted)]

    def _padding(self) -> list[int]:
        """What each loop is rounded up to: a workgroup's tile, or that of a step in elements."""
        if _PADDING in self._own:
            return [ir.IntegerAttr(tile).value for tile in self._own[_PADDING]]
        tiles = [max(pair) for pair in zip(self._tiles["workgroup"], self._tiles["reduction"], strict=True)]
        tiles[self._last] *= self._own["mma_kind"].mnk_shape[2]
        return tiles

    def _counts(self, loop: int, size: int) -> tuple[int, ...]:
        """Instructions of a subgroup along a loop, less than half of which is padding; and the compiler's own."""
        own = self._tiles["subgroup"][loop]
        each = self._tiles["workgroup"][loop] // own
        return tuple(sorted({own, *(count for count in _TIMES if count * each < 2 * size)}))

    def _held(self, columns: Columns) -> prune.Mask:
        """What a subgroup has registers for, and a workgroup shared memory."""
        sums = np.prod([columns[f"sg_{loop}"] for loop in self._loops], axis=0)
        tiles: list[Any] = list(self._tiles[_PADDING])
        for loop in self._loops:
            tiles[loop] = tiles[loop] // self._tiles["subgroup"][loop] * columns[f"sg_{loop}"]
        tiles[self._last] = tiles[self._last] // self._tiles["reduction"][self._last] * columns[_STEP]
        depth = math.prod(tiles[self._kept :])
        shared = sum(
            math.prod(tiles[loop] for loop in loops if loop < self._kept) * depth * bits // 8
            for loops, bits in self._reads
        )
        return np.asarray((sums <= _MOST) & (shared <= self._chip.shared))


def _sizes(root: Any, maps: Sequence[Any]) -> list[int]:
    """The sizes of all loops."""
    found = {
        result.position: size
        for operand, results in zip(root.operands, maps, strict=True)
        for result, size in zip(results, ir.ShapedType(operand.type).shape, strict=True)
        if isinstance(result, ir.AffineDimExpr)
    }
    return [found[loop] for loop in sorted(found)]
