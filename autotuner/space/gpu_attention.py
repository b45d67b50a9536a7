"""Attention where the compiler emits no constraints: a declared space for NVIDIA's matrix instructions.

IREE offers constraints for attention only with square instructions, and those of NVIDIA are not. What is legal is
known from its layouts: a workgroup's tiles are whole instructions for every subgroup, tiles divide their loops, and
every operand that goes through shared memory can be spread over the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu

from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import ATTENTION, dispatch_of, enclosing, map_positions, walk
from autotuner.space import gpu_config, prune
from autotuner.space.dispatch import CompilationInfo
from autotuner.space.gpu_config import (
    BANK_CONFLICTS,
    IN_ORDER,
    REORDER,
    TRANSPOSE,
    chosen_free,
    translation_info,
)
from autotuner.space.gpu_kernel import read_chip, target_info
from autotuner.space.prune import USED
from autotuner.space.table import Columns, Config, Knob, Space, Value
from autotuner.targets.backends import Chip

_FAMILY = "NV_MMA_SYNC"
"""The older NV_WMMA instructions have no layout that attention could use: the compiler crashes."""
_SUBGROUP = 32
_LARGEST_TILE = 512
_PROMOTED = {"promote_q": 0, "promote_k": 1, "promote_v": 2}
_DERIVED = "#iree_gpu.derived_thread_config"
_TableRule = Callable[[Columns], prune.Mask]


@dataclass(frozen=True)
class _Loops:
    """The loops of an attention operation by what they are for, and their sizes."""

    sizes: tuple[int, ...]
    m: int
    n: int
    k1: int
    k2: int
    operands: tuple[tuple[int, ...], ...]
    """The loops of query, key and value, outermost first."""
    bits: tuple[int, ...]

    @classmethod
    def read(cls, root: Any) -> _Loops | None:
        """None when an operand is not indexed by plain loops, or a role has several."""
        dispatch = dispatch_of(root)
        if dispatch is None or dispatch.dynamic or not dispatch.dims("m"):
            return None
        roles = [dispatch.dims(role) for role in ("n", "k1", "k2")]
        operands = tuple(tuple(p for p in map_positions(text) if p is not None) for text in dispatch.maps[:3])
        shapes = [ir.ShapedType(root.operands[i].type) for i in range(3)]
        if any(len(role) != 1 for role in roles) or [len(o) for o in operands] != [shape.rank for shape in shapes]:
            return None
        (n,), (k1,), (k2,) = roles
        bits = tuple(int(shape.element_type.width) for shape in shapes)
        # A dimension of heads that keys do not have also looks like a row of the query: the last one is it.
        return cls(dispatch.loops, max(dispatch.dims("m")), n, k1, k2, operands=operands, bits=bits)


class AttentionSpace:
    """The configurations of an attention dispatch on an NVIDIA GPU, with the interface of `GpuSpace`."""

    def __init__(self, module: Any, function: Any, root: Any, *, rules: Sequence[prune.Rule]) -> None:
        """Use `read`."""
        self._module, self._function, self._root, self._rules = module, function, root, tuple(rules)
        with module.context:
            loops = _Loops.read(root)
            instructions = dict(self._instructions())
        if loops is None or not instructions:
            raise NoCandidateError(
                "this attention has no matrix instruction on this target.",
                remedy="Try another element type or target.",
            )
        self._loops, self._mma = loops, instructions
        declared = self._declare()
        # Named like every other part of a GPU's space, though it is the only one.
        self._space = Space.join("pipeline", {"VectorDistribute": declared}) if len(declared) else declared

    @classmethod
    def read(cls, text: str, *, rules: Sequence[prune.Rule] = USED) -> AttentionSpace:
        """Reads the attention of a module of configured dispatches (`--iree-codegen-add-tuner-attributes`)."""
        with ir.Context():
            module = ir.Module.parse(text)
            for operation in walk(module.operation):
                if operation.name == ATTENTION and "lowering_config" in operation.attributes:
                    return cls(module, enclosing(operation, "translation_info"), operation, rules=rules)
        raise NoCandidateError(
            "no dispatch of this module is an attention.", remedy="Its operation was compiled into something else."
        )

    @property
    def space(self) -> Space:
        if not len(self._space):
            raise NoCandidateError(
                "no tile of this target's matrix instructions divides this attention.",
                remedy="Try sizes that are multiples of 16.",
            )
        return self._space

    def compilation_info(self, config: Config) -> CompilationInfo:
        """The attributes that a configuration of this space stands for."""
        if config not in self.space:
            raise UsageError(f"not a legal configuration of this dispatch: {config.as_dict()}.")
        values = config.as_dict()
        loops, count = self._loops, len(self._loops.sizes)
        groups = int(values["sg_m_cnt"]), int(values["sg_n_cnt"])
        with self._module.context:
            workgroup, reduction, basis = [1] * count, [0] * count, [1] * count
            workgroup[loops.m], workgroup[loops.n] = int(values["m_tile"]), int(values["n_tile"])
            workgroup[loops.k1] = workgroup[loops.k2] = 0
            reduction[loops.k2] = int(values["red_k2"])
            basis[loops.m], basis[loops.n] = groups
            parts = gpu_config.entries(self._root.attributes["lowering_config"])
            parts = {name: part for name, part in parts.items() if name in ("promote_operands", "promotion_types")}
            parts |= {"workgroup": gpu_config.integers(workgroup), "reduction": gpu_config.integers(reduction)}
            mma = self._mma[str(values["mma"])]
            chosen = [operand for name, operand in _PROMOTED.items() if values[name]]
            qk = self._matmul(mma, [o for o in chosen if o < 2], basis, without=loops.n)
            pv = self._matmul(mma, [1] if 2 in chosen else [], basis, without=loops.k1)
            own = self._function.attributes["translation_info"]
            translation = iree_codegen.TranslationInfoAttr.get(
                own.pass_pipeline,
                own.codegen_spec,
                [_SUBGROUP * groups[0] * groups[1], 1, 1],
                _SUBGROUP,
                ir.DictAttr.get({}),
            )
            return CompilationInfo(
                lowering_config=str(iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))),
                translation_info=str(translation_info(translation, values, own)),
                decomposition_config=str(ir.DictAttr.get({"pv_attrs": pv, "qk_attrs": qk})),
            )

    def default(self) -> Config | None:
        """The configuration that the compiler chose itself, or the one nearest to it."""
        with self._module.context:
            parts = gpu_config.entries(self._root.attributes["lowering_config"])
            if "decomposition_config" not in self._root.attributes or "reduction" not in parts:
                return None
            decomposition = gpu_config.entries(self._root.attributes["decomposition_config"])
            qk, pv = (
                gpu_config.entries(gpu_config.entries(decomposition[name])["lowering_config"])
                for name in ("qk_attrs", "pv_attrs")
            )
            if "mma_kind" not in pv or "subgroup_basis" not in pv:
                return None
            workgroup, basis = (
                [ir.IntegerAttr(v).value for v in part] for part in (parts["workgroup"], pv["subgroup_basis"][0])
            )
            promoted = [{ir.IntegerAttr(v).value for v in part.get("promote_operands", ())} for part in (qk, pv)]
            own = self._function.attributes["translation_info"]
            wanted: dict[str, Value] = {
                **chosen_free(own, column_major=False),
                "mma": gpu_config.option_name(pv["mma_kind"]),
                "m_tile": workgroup[self._loops.m],
                "n_tile": workgroup[self._loops.n],
                "red_k2": ir.IntegerAttr(parts["reduction"][self._loops.k2]).value,
                "sg_m_cnt": basis[self._loops.m],
                "sg_n_cnt": basis[self._loops.n],
                "promote_q": int(0 in promoted[0]),
                "promote_k": int(1 in promoted[0]),
                "promote_v": int(1 in promoted[1]),
            }
        return self.space[self.space.nearest(wanted)]

    def _instructions(self) -> Iterator[tuple[str, Any]]:
        """The target's instructions for these element types that accumulate in f32, which softmax is computed in."""
        elements = {ir.ShapedType(self._root.operands[i].type).element_type for i in range(3)}
        for intrinsic in target_info(self._function).mma_intrinsics:
            if isinstance(intrinsic, iree_gpu.MMAIntrinsic) and intrinsic.name.startswith(_FAMILY):
                mma = iree_gpu.MMAAttr.get(int(intrinsic))
                left, right, accumulator = mma.abc_element_types
                if {left, right} == elements and isinstance(accumulator, ir.F32Type):
                    yield intrinsic.name, mma

    def _declare(self) -> Space:
        loops = self._loops
        parts: dict[str, Space] = {}
        free = (Knob(REORDER, (IN_ORDER, TRANSPOSE)),)
        with self._module.context:
            chip = read_chip(self._function)
            shapes = {name: tuple(int(s) for s in mma.mnk_shape) for name, mma in self._mma.items()}
        for name, (m, n, k) in shapes.items():
            tiles = {
                "m_tile": _tiles(loops.sizes[loops.m], m),
                "n_tile": _tiles(loops.sizes[loops.n], n),
                # Keys are columns of the first product and the depth of the second.
                "red_k2": _tiles(loops.sizes[loops.k2], max(n, k)),
            }
            if loops.sizes[loops.k1] % k or not all(tiles.values()):
                continue
            knobs = [
                *(Knob(level, sizes) for level, sizes in tiles.items()),
                Knob("sg_m_cnt", (1, 2, 4, 8, 16)),  # with two beside each other the most threads that there are
                Knob("sg_n_cnt", (1, 2)),
                *(Knob(operand, (0, 1)) for operand in _PROMOTED),
                Knob(BANK_CONFLICTS, (0, 1)),
            ]
            space = Space.product(knobs, [_whole_instructions(m, n), _pads_something, self._works(chip)])
            if len(space):
                parts[name] = space.cross(free)
        return Space.join("mma", parts) if parts else Space.empty()

    def _works(self, chip: Chip) -> _TableRule:
        def rule(columns: Columns) -> prune.Mask:
            rows = len(columns["m_tile"])
            return prune.apply(self._kernel(columns, chip), self._rules, shape=(rows,))

        return rule

    def _kernel(self, columns: Columns, chip: Chip) -> prune.Kernel:
        loops = self._loops
        full = [np.full(1, 1 if i in self._batch else size, np.int64) for i, size in enumerate(loops.sizes)]
        full[loops.m], full[loops.n], full[loops.k2] = columns["m_tile"], columns["n_tile"], columns["red_k2"]
        used = [columns[name] for name in _PROMOTED]
        operands = [
            prune.Tile(tuple(full[loop] for loop in operand), bits)
            for operand, bits in zip(loops.operands, loops.bits, strict=True)
        ]
        return prune.Kernel(
            chip=chip,
            threads=_SUBGROUP * columns["sg_m_cnt"] * columns["sg_n_cnt"],
            # An operand that is read directly has no layout to derive: a tile of one element always has one.
            promoted=tuple(
                prune.Tile(tuple(np.where(on, size, 1) for size in tile.shape), tile.bits)
                for tile, on in zip(operands, used, strict=True)
            ),
            # Subgroups beside each other along n compute the same scores.
            accumulators=(
                prune.Tile((full[loops.m], full[loops.n]), 32),
                prune.Tile((full[loops.m], full[loops.k2], columns["sg_n_cnt"]), 32),
            ),
            # Softmax's weights stay in registers: the two layouts agree.
            shared=sum((tile.bytes * on for tile, on in zip(operands, used, strict=True)), np.zeros(1, np.int64)),
            derived=True,
        )

    @cached_property
    def _batch(self) -> frozenset[int]:
        loops = self._loops
        return frozenset(range(len(loops.sizes))) - {loops.m, loops.n, loops.k1, loops.k2}

    def _matmul(self, mma: Any, promoted: Sequence[int], basis: Sequence[int], *, without: int) -> Any:
        """The lowering config of one of the two products, which has all loops but one."""
        used = [loop for loop in range(len(basis)) if loop != without]
        parts = {
            "mma_kind": mma,
            "subgroup_basis": ir.ArrayAttr.get([gpu_config.integers(basis), gpu_config.integers(used)]),
        }
        if promoted:
            parts["promote_operands"] = gpu_config.integers(promoted)
            parts["promotion_types"] = ir.ArrayAttr.get([ir.Attribute.parse(_DERIVED)] * len(promoted))
        return ir.DictAttr.get({"lowering_config": iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))})


def _tiles(size: int, least: int) -> tuple[int, ...]:
    """Multiples of an instruction that divide a loop."""
    return tuple(tile for tile in range(least, min(size, _LARGEST_TILE) + 1, least) if size % tile == 0)


def _whole_instructions(m: int, n: int) -> _TableRule:
    def rule(columns: Columns) -> prune.Mask:
        along_m, along_n = columns["sg_m_cnt"], columns["sg_n_cnt"]
        return np.asarray((columns["m_tile"] % (along_m * m) == 0) & (columns["n_tile"] % (along_n * n) == 0))

    return rule


def _pads_something(columns: Columns) -> prune.Mask:
    """A rule: padding needs an operand in shared memory; without one the code would be the same."""
    return np.asarray(columns[BANK_CONFLICTS] <= np.maximum.reduce([columns[name] for name in _PROMOTED]))
