"""Products of numbers with shared scales (MX): a declared space, because the compiler emits no constraints for them.

What is legal is known from the instructions: a workgroup's tiles are whole instructions for every subgroup, and every
step takes whole instructions of the depth. Rows and columns that tiles do not divide are padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu

from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import SCALED, dispatch_of, enclosing, walk
from autotuner.space import gpu_config, prune
from autotuner.space.dispatch import CompilationInfo
from autotuner.space.gpu_config import (
    BANK_CONFLICTS,
    PREFETCH,
    WAVES,
    chosen_free,
    translation_info,
)
from autotuner.space.gpu_kernel import read_chip
from autotuner.space.table import Columns, Config, Knob, Space, Value
from autotuner.targets.backends import Chip, backend_of

_INSTRUCTIONS = {"MFMA_SCALE_F32_16x16x128_B32": (16, 128), "MFMA_SCALE_F32_32x32x64_B32": (32, 64)}
"""Rows and columns of each, and the depth that it takes at once."""
_SMALLEST_TILE, _LARGEST_TILE, _SUBGROUPS, _STEPS, _MOST_THREADS = 16, 256, (1, 2, 4, 8), (1, 2, 4), 1024
_PREFETCH = (0, 2)
"""With three stages the compiler crashes for one in five."""
_SWIZZLED, _PROMOTION, _PADDING = "swizzled", "promotion_types", "padding"


class ScaledSpace:
    """The configurations of a scaled product, with the interface of `GpuSpace`."""

    def __init__(self, module: Any, function: Any, root: Any) -> None:
        """Use `read`."""
        self._module, self._function, self._root = module, function, root
        dispatch = dispatch_of(root)
        if dispatch is None or dispatch.dynamic:
            raise NoCandidateError("this scaled product has no static sizes.", remedy="Tune static sizes.")
        self._element = dispatch.element_types[0]
        own = gpu_config.entries(root.attributes["lowering_config"])
        if "scaled_mma_layout" not in str(own.get("mma_kind", "")):
            raise NoCandidateError(
                f"the compiler gives this product of {self._element} no matrix instructions.",
                remedy="Try more rows or columns, and a target that has such instructions (gfx950).",
            )
        self._m, self._n, blocks, self._block = dispatch.loops
        self._depth = blocks * self._block
        self._own, self._chip = own, read_chip(function)
        parts = dict(self._parts())
        self.space = Space.join("pipeline", {"TileAndFuse": Space.join("mma", parts)}) if parts else Space.empty()
        if not parts:
            raise NoCandidateError(
                "K has no whole steps of this target's matrix instructions.",
                remedy="Try a K that is a multiple of 128.",
            )

    @classmethod
    def read(cls, text: str) -> ScaledSpace:
        """Reads the product of a module of configured dispatches (`--iree-codegen-add-tuner-attributes`)."""
        with ir.Context():
            module = ir.Module.parse(text)
            for operation in walk(module.operation):
                if "root_op" in operation.attributes and SCALED in str(operation):
                    return cls(module, enclosing(operation, "translation_info"), operation)
        raise NoCandidateError(
            "no dispatch of this module is a scaled product.", remedy="It was compiled into something else."
        )

    def compilation_info(self, config: Config) -> CompilationInfo:
        """The attributes that a configuration of this space stands for."""
        if config not in self.space:
            raise UsageError(f"not a legal configuration of this dispatch: {config.as_dict()}.")
        values = config.as_dict()
        size, depth = _INSTRUCTIONS[str(values["mma"])]
        counts = int(values["sg_m_cnt"]), int(values["sg_n_cnt"])
        tiles = int(values["m_tile"]), int(values["n_tile"])
        each = [tile // (count * size) for tile, count in zip(tiles, counts, strict=True)]
        with self._module.context:
            parts = dict(self._own)
            mma = str(parts["mma_kind"])
            parts["mma_kind"] = ir.Attribute.parse(mma.replace(_named(mma), str(values["mma"])))
            if not values[_SWIZZLED]:
                parts.pop(_PROMOTION, None)
            parts.pop(_PADDING, None)  # of the compiler's own tiles
            if self._m % tiles[0] or self._n % tiles[1]:
                parts[_PADDING] = gpu_config.integers([*tiles, int(values["red_k"]) * depth // self._block, 1])
            parts["workgroup"] = gpu_config.integers([*tiles, 0, 0])
            parts["subgroup"] = gpu_config.integers([*each, 0, 0])
            parts["reduction"] = gpu_config.integers([0, 0, int(values["red_k"]), 1])
            own = self._function.attributes["translation_info"]
            subgroup = self._chip.subgroup
            translation = iree_codegen.TranslationInfoAttr.get(
                own.pass_pipeline,
                own.codegen_spec,
                [subgroup * counts[0] * counts[1], 1, 1],
                subgroup,
                own.configuration,
            )
            return CompilationInfo(
                lowering_config=str(iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))),
                translation_info=str(translation_info(translation, values, own)),
            )

    def default(self) -> Config | None:
        """The configuration that the compiler chose itself, or the one nearest to it."""
        with self._module.context:
            workgroup, subgroup, reduction = (
                [ir.IntegerAttr(size).value for size in self._own[level]]
                for level in ("workgroup", "subgroup", "reduction")
            )
            mma = _named(str(self._own["mma_kind"]))
            size, _ = _INSTRUCTIONS[mma]
            wanted: dict[str, Value] = {
                **chosen_free(self._function.attributes["translation_info"], column_major=False),
                "mma": mma,
                "m_tile": workgroup[0],
                "n_tile": workgroup[1],
                "sg_m_cnt": workgroup[0] // (size * subgroup[0]),
                "sg_n_cnt": workgroup[1] // (size * subgroup[1]),
                "red_k": reduction[2],
                _SWIZZLED: int(_PROMOTION in self._own),
            }
        return self.space[self.space.nearest(wanted)]

    def _parts(self) -> Iterator[tuple[str, Space]]:
        """The space of each instruction whose depth divides K."""
        free = backend_of(self._chip.name).free_knobs[WAVES]
        for name, (size, depth) in _INSTRUCTIONS.items():
            steps = tuple(step for step in _STEPS if self._depth % (depth * step) == 0)
            rows, columns = (_tiles(loop, size) for loop in (self._m, self._n))
            if not (steps and rows and columns):
                continue
            knobs = [
                *(Knob("m_tile", rows), Knob("n_tile", columns), Knob("red_k", steps)),
                *(Knob("sg_m_cnt", _SUBGROUPS), Knob("sg_n_cnt", _SUBGROUPS)),
                *(Knob(PREFETCH, _PREFETCH), Knob(WAVES, free)),
                *(Knob(_SWIZZLED, (0, 1) if _PROMOTION in self._own else (0,)), Knob(BANK_CONFLICTS, (0, 1))),
            ]

            def works(columns: Columns, size: int = size, depth: int = depth) -> prune.Mask:
                along = [columns[f"{side}_tile"] % (columns[f"sg_{side}_cnt"] * size) == 0 for side in "mn"]
                kernel = self._kernel(columns, self._chip, depth)
                kept = prune.apply(kernel, prune.USED, shape=(len(columns["m_tile"]),))
                padded = (columns[_SWIZZLED] > 0) & (columns[BANK_CONFLICTS] == 0)  # one or the other
                return np.asarray(along[0] & along[1] & (kernel.threads <= _MOST_THREADS) & kept & ~padded)

            space = Space.product(knobs, [works])
            if len(space):
                yield name, space

    def _kernel(self, columns: Columns, chip: Chip, depth: int) -> prune.Kernel:
        rows, wide, step = columns["m_tile"], columns["n_tile"], columns["red_k"] * depth
        bits = 4 if self._element.startswith("f4") else 8
        promoted = (prune.Tile((rows, step), bits), prune.Tile((wide, step), bits))
        scales = (prune.Tile((rows, step // self._block), 8), prune.Tile((wide, step // self._block), 8))
        shared = sum((tile.bytes for tile in (*promoted, *scales)), np.zeros(1, np.int64))
        shared = np.where(columns[BANK_CONFLICTS] > 0, shared, shared * 3 // 2)  # padding adds half of it
        return prune.Kernel(
            chip=chip,
            threads=chip.subgroup * columns["sg_m_cnt"] * columns["sg_n_cnt"],
            promoted=promoted,
            accumulators=(prune.Tile((rows, wide), 32),),
            shared=shared,
            waves=columns[WAVES],
            staged=np.where(columns[PREFETCH] > 1, shared, 0),
            product=True,
        )


def _named(mma: str) -> str:
    return next(name for name in _INSTRUCTIONS if name in mma)


def _tiles(loop: int, least: int) -> tuple[int, ...]:
    """Tiles of a power of two times the instruction, less than half of which is padding; and the smallest."""
    sizes = (least << shift for shift in range(8))
    return tuple(size for size in sizes if size <= _LARGEST_TILE and (size < 2 * loop or size == _SMALLEST_TILE))
