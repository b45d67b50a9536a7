"""The search space of one GPU dispatch: what the compiler says is legal, and the knobs that it pins without need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu, linalg

from autotuner.errors import NoCandidateError, UsageError
from autotuner.space import attributes
from autotuner.space.constraints import Column, constraint_operations, read_program
from autotuner.space.solver import legal
from autotuner.space.table import Config, Knob, Space, Value

Vendor = Literal["amd", "nvidia"]

PREFETCH = "prefetch_num_stages"
BANK_CONFLICTS = "no_reduce_shared_memory_bank_conflicts"
REORDER = "reorder_workgroups"
WAVES = "waves_per_eu"
COLUMN_MAJOR = "mma_col_major"

UNDERIVABLE = "a promoted operand cannot be laid out over the threads"
"""Reason in `GpuSpace.pruned`: IREE would fail with 'failed to derive layout for promoted read-like op'."""
UNPADDABLE = "a loop of the convolution window cannot be padded to its tile"
"""Reason in `GpuSpace.pruned`: direct convolutions whose image is not a multiple of the tile."""

_OPTIONS = "gpu_pipeline_options"
_FUNCTION_ATTRIBUTES = "llvm_func_attrs"
_WAVES_ATTRIBUTE = "amdgpu-waves-per-eu"
_LOAD_BITS = 128


@dataclass(frozen=True, slots=True)
class CompilationInfo:
    """The attributes of one configuration, as the text that stands for them in MLIR."""

    lowering_config: str
    translation_info: str
    decomposition_config: str | None = None
    """Attention only: an attribute of the operation, beside its compilation info."""


@dataclass(frozen=True)
class _Pipeline:
    """One constraints op: all its knobs as columns, and the space over those that are worth searching."""

    operation: Any
    columns: Mapping[str, Column]
    space: Space
    free: tuple[Knob, ...]
    dimensions: tuple[int, ...]

    def row(self, values: Mapping[str, Value]) -> int | None:
        return self.space.index(Config.of({k.name: values[k.name] for k in self.space.knobs if k.name in values}))


class GpuSpace:
    """The configurations of a dispatch on a GPU, and the attributes that each of them stands for."""

    def __init__(self, module: Any, function: Any, operations: Sequence[Any], *, vendor: Vendor, batch: int) -> None:
        """Use `read`: the operations must be of the module, which keeps them alive."""
        self._module, self._function, self._vendor, self._batch = module, function, vendor, batch
        self._pipelines: dict[str, _Pipeline] = {}
        pruned: dict[str, int] = {}
        with module.context:
            self._root = attributes.root_operation(function)
            for operation in operations:
                label, pipeline = self._read_pipeline(operation, pruned)
                if label in self._pipelines:
                    label = f"{label}/{len(self._pipelines)}"
                self._pipelines[label] = pipeline
        self.pruned: Mapping[str, int] = MappingProxyType(pruned)
        """Rows that the constraints allow but that are known not to build, counted by reason."""

    @classmethod
    def read(cls, text: str, *, vendor: Vendor, function: str | None = None, batch: int = 0) -> GpuSpace:
        """From the module that `--iree-codegen-emit-pipeline-constraints` writes.

        `function` names the dispatch function, which is needed when several have constraints.
        `batch` is the number of leading batch loops that the real dispatch has and this module does not: 3.13
        crashes when it emits constraints for a batched matmul, so its space is read from the matmul of one batch.
        """
        with ir.Context():
            module = ir.Module.parse(text)
            found: dict[str, tuple[Any, list[Any]]] = {}
            for operation in constraint_operations(module.operation):
                parent = operation.parent.operation
                name = ir.StringAttr(parent.attributes["sym_name"]).value
                found.setdefault(name, (parent, []))[1].append(operation)
        if not found:
            raise NoCandidateError(
                "the compiler gives no tunable pipeline for this dispatch on this target.",
                remedy="Its operation or element type has no matrix instruction there: try another target or type.",
            )
        if function is None and len(found) > 1:
            raise UsageError(f"several dispatches can be tuned: {', '.join(found)}.", remedy="Name one of them.")
        if function is not None and function not in found:
            raise UsageError(f"dispatch {function!r} cannot be tuned.", remedy=f"There is {', '.join(found)}.")
        parent, operations = found[function or next(iter(found))]
        return cls(module, parent, operations, vendor=vendor, batch=batch)

    @cached_property
    def space(self) -> Space:
        """Every configuration: the pipelines side by side, each with its free knobs."""
        parts = {label: p.space.cross(p.free) for label, p in self._pipelines.items() if len(p.space)}
        if not parts:
            raise NoCandidateError(
                "the compiler's constraints leave no legal configuration for this dispatch.",
                remedy="Its sizes do not fit the target's matrix instructions: try other sizes or another type.",
            )
        return Space.join("pipeline", parts)

    def compilation_info(self, config: Config) -> CompilationInfo:
        """The attributes that a configuration of this space stands for."""
        values = config.as_dict()
        pipeline = self._pipelines.get(str(values.get("pipeline")))
        row = pipeline.row(values) if pipeline else None
        if pipeline is None or row is None:
            raise UsageError(f"not a legal configuration of this dispatch: {values}.")
        assignment = {knob: int(column[row]) for knob, column in pipeline.columns.items()}
        operation = pipeline.operation
        with self._module.context:
            info = iree_codegen.materialize_compilation_info(operation, assignment)
            decomposition = None
            if "decomposition_config" in attributes.entries(operation.attributes["knobs"]):
                decomposition = iree_codegen.materialize_configuration_attr(
                    operation, "decomposition_config", assignment
                )
                if values.get(COLUMN_MAJOR):
                    decomposition = attributes.with_column_major(decomposition)
            return CompilationInfo(
                lowering_config=str(self._lowering_config(info, pipeline.dimensions)),
                translation_info=str(self._translation_info(info, values)),
                decomposition_config=None if decomposition is None else str(decomposition),
            )

    def default(self) -> Config | None:
        """The configuration that the compiler chose itself, or the legal one nearest to it.

        What no knob stands for is not compared: on gfx950 the compiler also chooses how operands are copied to shared
        memory (`promotion_types` with global load DMA), which its constraints do not offer.
        """
        with self._module.context:
            translation = self._function.attributes["translation_info"]
            real = attributes.chosen(self._function, self._root)
            best: tuple[float, str, int] | None = None
            for label, pipeline in self._pipelines.items():
                known: dict[str, int] = {}
                operation = pipeline.operation
                same = operation.attributes["pipeline"] == translation.pass_pipeline
                if not (same and len(pipeline.space) and attributes.match(operation.attributes["knobs"], real, known)):
                    continue
                distance = _distance(pipeline.columns, known)
                row = int(distance.argmin())
                if best is None or distance[row] < best[0]:
                    best = (float(distance[row]), label, row)
            if best is None:
                return None
            _, label, row = best
            wanted = {"pipeline": label, **self._chosen_free(), **self._pipelines[label].space[row].as_dict()}
        return self.space[self.space.nearest(wanted)]

    def _read_pipeline(self, operation: Any, pruned: dict[str, int]) -> tuple[str, _Pipeline]:
        program = read_program(operation)
        columns = legal(program)
        places = attributes.places(operation.attributes["knobs"])
        name = operation.attributes["pipeline"].value.name
        rules = {"VectorDistribute": (UNDERIVABLE, self._derivable), "TileAndFuse": (UNPADDABLE, self._paddable)}
        if name in rules:
            reason, rule = rules[name]
            keep = rule(program.dimensions, attributes.entries(operation.attributes["knobs"]), columns)
            if not keep.all():
                pruned[reason] = pruned.get(reason, 0) + int((~keep).sum())
                columns = {knob: column[keep] for knob, column in columns.items()}
        columns, space = _searched(columns, places)
        igemm = columns.get("use_igemm_idx")
        label = f"{name}/igemm" if igemm is not None and igemm.any() else name
        return label, _Pipeline(operation, columns, space, self._free(name), program.dimensions)

    def _free(self, pipeline: str) -> tuple[Knob, ...]:
        """The knobs that the compiler pins but that 3.13 honours, found by comparing binaries."""
        free = [Knob(BANK_CONFLICTS, (0, 1))]
        if self._vendor == "amd":
            # 1 gives the binary of 0, 4 that of 3. On NVIDIA no value changes the binary.
            free.append(Knob(PREFETCH, (0, 2, 3)))
            # 0: no attribute. 1 never changes the binary, 2 to 4 do where registers limit the occupancy.
            free.append(Knob(WAVES, (0, 2, 3, 4)))
        if pipeline == "VectorDistribute":
            # TileAndFuse takes the strategy and ignores it.
            free.append(Knob(REORDER, ("none", "transpose")))
        if self._column_major:
            free.append(Knob(COLUMN_MAJOR, (0, 1)))
        return tuple(free)

    @cached_property
    def _column_major(self) -> bool:
        """Attention on CDNA: the compiler's choice has column-major instructions, its constraints never do."""
        own = self._root.attributes
        return "decomposition_config" in own and attributes.column_major(own["decomposition_config"])

    def _chosen_free(self) -> dict[str, Value]:
        """The free knobs as the compiler set them."""
        configuration = attributes.entries(self._function.attributes["translation_info"].configuration)
        values: dict[str, Value] = {PREFETCH: 0, BANK_CONFLICTS: 0, REORDER: "none", WAVES: 0}
        values[COLUMN_MAJOR] = int(self._column_major)
        options = configuration.get(_OPTIONS)
        if options is not None:
            values[PREFETCH] = options.prefetch_num_stages or 0
            values[BANK_CONFLICTS] = int(bool(options.no_reduce_shared_memory_bank_conflicts))
            strategy = options.reorder_workgroups_strategy
            values[REORDER] = "transpose" if strategy is not None and strategy == _transpose() else "none"
        functions = attributes.entries(configuration.get(_FUNCTION_ATTRIBUTES))
        if _WAVES_ATTRIBUTE in functions:
            values[WAVES] = int(ir.StringAttr(functions[_WAVES_ATTRIBUTE]).value)
        return values

    def _lowering_config(self, info: Any, dimensions: Sequence[int]) -> Any:
        parts = attributes.entries(info.lowering_config)
        if info.translation_info.pass_pipeline == self._function.attributes["translation_info"].pass_pipeline:
            # Flags that the compiler's own configuration of this pipeline carries beside the knobs.
            for name, attribute in attributes.entries(self._root.attributes["lowering_config"]).items():
                if isinstance(attribute, ir.UnitAttr):
                    parts.setdefault(name, attribute)
        if "subgroup" in parts:
            padding = _padding(parts, dimensions)
            if padding:
                parts["padding"] = attributes.integers(padding)
        if self._batch:
            parts = attributes.batched(parts, self._batch)
        return iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))

    def _translation_info(self, info: Any, values: Mapping[str, Value]) -> Any:
        translation = info.translation_info
        configuration = attributes.entries(translation.configuration)
        options = configuration.get(_OPTIONS)
        configuration[_OPTIONS] = iree_gpu.PipelineOptionsAttr.get(
            prefetch_num_stages=int(values[PREFETCH]) if PREFETCH in values else None,
            no_reduce_shared_memory_bank_conflicts=bool(values[BANK_CONFLICTS]),
            use_igemm_convolution=None if options is None else options.use_igemm_convolution,
            reorder_workgroups_strategy=_transpose() if values.get(REORDER) == "transpose" else None,
        )
        if values.get(WAVES):
            waves = ir.StringAttr.get(str(values[WAVES]))
            configuration[_FUNCTION_ATTRIBUTES] = ir.DictAttr.get({_WAVES_ATTRIBUTE: waves})
        # What the compiler sets beside the knobs (how denormals are treated) is part of the program's meaning.
        own = attributes.entries(self._function.attributes["translation_info"].configuration)
        for name, attribute in own.items():
            if name not in (_OPTIONS, _FUNCTION_ATTRIBUTES):
                configuration.setdefault(name, attribute)
        return iree_codegen.TranslationInfoAttr.get(
            translation.pass_pipeline,
            translation.codegen_spec,
            translation.workgroup_size,
            translation.subgroup_size,
            ir.DictAttr.get(configuration),
        )

    def _derivable(
        self, _: Sequence[int], knobs: Mapping[str, Any], columns: Mapping[str, Column]
    ) -> npt.NDArray[np.bool_]:
        """Rows whose promoted operands can be loaded by all threads together.

        Each thread loads vectors of 128 bits along the operand's innermost dimension; IREE finds a layout only when
        the vectors of a row divide the threads evenly, or the other way round.
        """
        keep = np.ones(len(next(iter(columns.values()))), bool)
        maps = linalg.get_indexing_maps(self._root)
        if maps is None:
            return keep  # attention: its constraints have the rule already
        threads = np.prod([_column(size, columns) for size in knobs["workgroup_size"]], axis=0)
        for operand in (ir.IntegerAttr(o).value for o in knobs["promote_operands"]):
            inner = maps[operand].value.results[-1]
            if not isinstance(inner, ir.AffineDimExpr):
                continue
            levels = [_column(knobs[level][inner.position], columns) for level in ("workgroup", "reduction")]
            element = ir.ShapedType(self._root.operands[operand].type).element_type
            vectors = np.maximum(np.maximum(*levels) * element.width // _LOAD_BITS, 1)
            keep &= (vectors % threads == 0) | (threads % vectors == 0)
        return keep

    def _paddable(
        self, dimensions: Sequence[int], knobs: Mapping[str, Any], columns: Mapping[str, Column]
    ) -> npt.NDArray[np.bool_]:
        """Rows whose padding IREE can make: a loop of a convolution's window has no room for any."""
        keep = np.ones(len(next(iter(columns.values()))), bool)
        maps = linalg.get_indexing_maps(self._root)
        if maps is None or len(knobs["workgroup"]) != len(dimensions):
            return keep  # IGEMM: its loops are those of a matrix product
        for expression in (result for m in maps for result in m.value.results):
            if isinstance(expression, ir.AffineBinaryExpr):
                for loop in attributes.loops(expression):
                    tile = _column(knobs["workgroup"][loop], columns)
                    keep &= dimensions[loop] % np.maximum(tile, 1) == 0
        return keep


def _padding(parts: Mapping[str, Any], dimensions: Sequence[int]) -> list[int]:
    """The tile of each loop when a loop is not a multiple of its tile, and nothing when all are.

    TileAndFuse's constraints round loops up to the matrix instruction and leave it to us to ask for the padding,
    without which such a configuration does not build.
    """
    workgroup, reduction = ([ir.IntegerAttr(t).value for t in parts[level]] for level in ("workgroup", "reduction"))
    last = max(i for i, tile in enumerate(reduction) if tile)
    reduction[last] *= parts["mma_kind"].mnk_shape[2]
    tiles = [max(pair) for pair in zip(workgroup, reduction, strict=True)]
    loops = [*dimensions[: len(tiles) - 1], math.prod(dimensions[len(tiles) - 1 :])]  # IGEMM: one reduction loop
    return tiles if any(loop % max(tile, 1) for loop, tile in zip(loops, tiles, strict=True)) else []


def _transpose() -> Any:
    return iree_gpu.ReorderWorkgroupsStrategyAttr.get(int(iree_gpu.ReorderWorkgroupsStrategy.Transpose))


def _column(attribute: Any, columns: Mapping[str, Column]) -> Column:
    """The values of a place in the knobs attribute: those of its knob, or the number that stands there."""
    if isinstance(attribute, iree_codegen.IntKnobAttr):
        return columns[attribute.name]
    rows = len(next(iter(columns.values())))
    return np.full(rows, ir.IntegerAttr(attribute).value, np.int64)


def _distance(columns: Mapping[str, Column], known: Mapping[str, int]) -> npt.NDArray[np.float64]:
    """How far each row is from known values: first the number of knobs that differ, then by how much."""
    distance = np.zeros(len(next(iter(columns.values()))), np.float64)
    for knob, value in known.items():
        if knob in columns and knob != PREFETCH:
            steps = np.abs(np.log2((columns[knob] + 1) / (value + 1)))
            distance += (steps > 0) + steps / 64
    return distance


def _searched(columns: Mapping[str, Column], places: Mapping[str, attributes.Place]) -> tuple[dict[str, Column], Space]:
    """The space over the knobs that the others do not determine, and all columns in the order of its rows.

    Tile sizes go first: with subgroup tiles and counts left, one of them can change alone and stay legal.
    """
    ranks = {"workgroup_size": 0, "subgroup_size": 0, _OPTIONS: 0, "workgroup": 1, "mma_kind": 3}
    indices = {name: np.unique(column, return_inverse=True)[1] for name, column in columns.items()}
    kept = [name for name in columns if indices[name].max(initial=0) > 0]

    def distinct(names: Sequence[str]) -> int:
        code = np.zeros(len(next(iter(columns.values()))), np.int64)
        for name in names:
            code = np.unique(code * (indices[name].max(initial=0) + 1) + indices[name], return_inverse=True)[1]
        return int(code.max(initial=-1)) + 1

    rows = distinct(kept)
    for name in sorted(kept, key=lambda n: (ranks.get(places[n].field, 2) if n in places else 2, -kept.index(n))):
        others = [n for n in kept if n != name]
        if distinct(others) == rows:
            kept = others
    total = len(next(iter(columns.values())))
    order = np.lexsort([columns[name] for name in reversed(kept)]) if kept else np.arange(min(total, 1))
    ordered = {name: column[order] for name, column in columns.items()}
    knobs = []
    for name in kept:
        values = tuple(int(v) for v in np.unique(columns[name]))
        options = places[name].options if name in places else ()
        if options:
            labels = attributes.option_names(options)
            knobs.append(Knob(name.removesuffix("_idx"), tuple(labels[v] for v in values)))
        else:
            knobs.append(Knob(name, values))
    table = np.stack([indices[name][order] for name in kept], axis=1) if kept else np.zeros((len(order), 0), np.int64)
    return ordered, Space(knobs, table)
