"""The search space of one GPU dispatch: what the compiler says is legal, and the knobs that it only pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu

from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import symbol
from autotuner.space import gpu_config, prune
from autotuner.space.constraints import Column, constraint_operations, read_program
from autotuner.space.dispatch import UNBATCHED, Batch, CompilationInfo
from autotuner.space.gpu_config import (
    COLUMN_MAJOR,
    COPIES,
    OPTIONS,
    PREFETCH,
    chosen_copies,
    chosen_free,
    copies,
    free_knobs,
    padding,
    translation_info,
)
from autotuner.space.gpu_kernel import Rows, read_chip, read_kernel
from autotuner.space.prune import USED
from autotuner.space.solver import legal
from autotuner.space.table import Config, Knob, Space, Value
from autotuner.targets.backends import Backend

IGEMM = "/igemm"
"""The suffix of a pipeline that turns a convolution into a matrix product first."""


@dataclass(frozen=True)
class _Pipeline:
    """One constraints op: all its knobs as columns, and the space of those that are searched."""

    operation: Any
    columns: Mapping[str, Column]
    rows: Space
    """The searched knobs of the constraints; row i belongs to row i of the columns."""
    space: Space
    """The rows combined with the free knobs, without what the rules reject."""
    dimensions: tuple[int, ...]

    def row(self, values: Mapping[str, Value]) -> int | None:
        return self.rows.index(Config.of({k.name: values[k.name] for k in self.rows.knobs if k.name in values}))


class GpuSpace:
    """The configurations of a dispatch on a GPU, and the attributes that each of them stands for."""

    def __init__(
        self,
        module: Any,
        function: Any,
        operations: Sequence[Any],
        *,
        backend: Backend,
        batch: Batch = UNBATCHED,
        rules: Sequence[prune.Rule] = USED,
    ) -> None:
        """Use `read`: the operations must be of the module, which keeps them alive."""
        self._module, self._function, self._backend, self._batch = module, function, backend, batch
        self._pipelines: dict[str, _Pipeline] = {}
        with module.context:
            self._root = gpu_config.root_operation(function)
            for operation in operations:
                label, pipeline = self._read_pipeline(operation, rules)
                if batch.loops and batch.at and not label.endswith(IGEMM):
                    continue  # groups in the middle of the loops: only IGEMM can have them
                if label in self._pipelines:
                    label = f"{label}/{len(self._pipelines)}"
                self._pipelines[label] = pipeline

    @classmethod
    def read(
        cls,
        text: str,
        *,
        backend: Backend,
        batch: Batch = UNBATCHED,
        rules: Sequence[prune.Rule] = USED,
    ) -> GpuSpace:
        """Reads the module that `--iree-codegen-emit-pipeline-constraints` prints.

        `batch` says which loops the real dispatch has more than this module.
        """
        with ir.Context():
            module = ir.Module.parse(text)
            found: dict[str, tuple[Any, list[Any]]] = {}
            for operation in constraint_operations(module.operation):
                parent = operation.parent.operation
                found.setdefault(symbol(parent), (parent, []))[1].append(operation)
        if not found:
            raise NoCandidateError(
                "iree-compile emits no pipeline constraints for this dispatch on this target.",
                remedy="Its operation or element type has no matrix instruction there: try another target or type.",
            )
        if len(found) > 1:
            raise UsageError(f"several dispatches can be tuned: {', '.join(found)}.", remedy="Tune one of them alone.")
        ((parent, operations),) = found.values()
        return cls(module, parent, operations, backend=backend, batch=batch, rules=rules)

    @cached_property
    def space(self) -> Space:
        """All configurations: the pipelines side by side, each with its free knobs."""
        parts = {label: p.space for label, p in self._pipelines.items() if len(p.space)}
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
        row = pipeline.row(values) if pipeline and config in self.space else None
        if pipeline is None or row is None:
            raise UsageError(f"not a legal configuration of this dispatch: {values}.")
        assignment = {knob: int(column[row]) for knob, column in pipeline.columns.items()}
        operation = pipeline.operation
        with self._module.context:
            info = iree_codegen.materialize_compilation_info(operation, assignment)
            decomposition = None
            if "decomposition_config" in gpu_config.entries(operation.attributes["knobs"]):
                decomposition = iree_codegen.materialize_configuration_attr(
                    operation, "decomposition_config", assignment
                )
                if values.get(COLUMN_MAJOR):
                    decomposition = gpu_config.with_column_major(decomposition)
            own = self._function.attributes["translation_info"]
            return CompilationInfo(
                lowering_config=str(self._lowering_config(info, values, pipeline.dimensions)),
                translation_info=str(translation_info(info.translation_info, values, own)),
                decomposition_config=None if decomposition is None else str(decomposition),
            )

    def default(self) -> Config | None:
        """The configuration that the compiler chose itself, or the legal one nearest to it."""
        with self._module.context:
            translation = self._function.attributes["translation_info"]
            real = gpu_config.chosen(self._function, self._root)
            best: tuple[float, str, int] | None = None
            for label, pipeline in self._pipelines.items():
                known: dict[str, int] = {}
                operation = pipeline.operation
                knobs = operation.attributes["knobs"]
                own = gpu_config.joined(real) if self._apart(gpu_config.entries(knobs), pipeline.dimensions) else real
                same = operation.attributes["pipeline"] == translation.pass_pipeline
                if not (same and len(pipeline.space) and gpu_config.match(knobs, own, known)):
                    continue
                distance = _distance(pipeline.columns, known)
                row = int(distance.argmin())
                if best is None or distance[row] < best[0]:
                    best = (float(distance[row]), label, row)
            if best is None:
                return None
            _, label, row = best
            free = chosen_free(translation, column_major=self._column_major)
            free[COPIES] = chosen_copies(self._root)
            wanted = {"pipeline": label, **free, **self._pipelines[label].rows[row].as_dict()}
            return self.space[self.space.nearest(wanted)]

    def _read_pipeline(self, operation: Any, rules: Sequence[prune.Rule]) -> tuple[str, _Pipeline]:
        program = read_program(operation)
        places = gpu_config.places(operation.attributes["knobs"])
        name = operation.attributes["pipeline"].value.name
        columns, rows = _searched(legal(program), places)
        chip = read_chip(self._function)
        free = free_knobs(name, self._backend, chip, column_major=self._column_major)
        grid = Rows(columns, free)
        keep = np.ones(grid.shape, bool)
        if len(rows):
            kernel = read_kernel(operation, self._root, chip, program.dimensions, grid)
            keep = prune.apply(kernel, rules, shape=grid.shape)
        # IGEMM has one loop where the convolution has its window and its channels.
        loops = len(gpu_config.entries(operation.attributes["knobs"])["workgroup"])
        label = f"{name}{IGEMM}" if loops < len(program.dimensions) else name
        return label, _Pipeline(operation, columns, rows, rows.cross(free).keep(keep.reshape(-1)), program.dimensions)

    def _apart(self, parts: Mapping[str, Any], dimensions: Sequence[int]) -> bool:
        """Whether these are tiles of an IGEMM that the compiler itself gives one loop more."""
        own = gpu_config.entries(self._root.attributes["lowering_config"])
        counts = [len(one.get("workgroup", ())) for one in (parts, own)]
        return "subgroup" in parts and counts[0] < counts[1] < len(dimensions)

    @cached_property
    def _column_major(self) -> bool:
        """Attention on CDNA: the compiler's choice has column-major instructions, its constraints never do."""
        own = self._root.attributes
        return "decomposition_config" in own and gpu_config.column_major(own["decomposition_config"])

    def _lowering_config(self, info: Any, values: Mapping[str, Value], dimensions: Sequence[int]) -> Any:
        parts = gpu_config.entries(info.lowering_config)
        if COPIES in values:
            promoted = [ir.IntegerAttr(operand).value for operand in parts["promote_operands"]]
            parts.update(copies(values[COPIES], promoted, self._root))
        if info.translation_info.pass_pipeline == self._function.attributes["translation_info"].pass_pipeline:
            # Flags that the compiler's own configuration of this pipeline carries beside the knobs.
            for name, attribute in gpu_config.entries(self._root.attributes["lowering_config"]).items():
                if isinstance(attribute, ir.UnitAttr):
                    parts.setdefault(name, attribute)
        if self._apart(parts, dimensions):
            parts.update(gpu_config.apart(parts, self._root, dimensions))
        if "subgroup" in parts:
            parts.update(padding(parts, self._root, dimensions))
        if self._batch.loops:
            parts = gpu_config.batched(parts, self._batch.loops, at=self._batch.at)
        return iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))


def _distance(columns: Mapping[str, Column], known: Mapping[str, int]) -> npt.NDArray[np.float64]:
    """The distance of each row from known values: the number of knobs that differ, then by how much."""
    distance = np.zeros(len(next(iter(columns.values()))), np.float64)
    for knob, value in known.items():
        if knob in columns and knob != PREFETCH:
            steps = np.abs(np.log2((columns[knob] + 1) / (value + 1)))
            distance += (steps > 0) + steps / 64
    return distance


def _searched(columns: Mapping[str, Column], places: Mapping[str, gpu_config.Place]) -> tuple[dict[str, Column], Space]:
    """The space of the knobs that others do not determine, and all columns in the order of its rows.

    Tile sizes go first: with subgroup tiles and counts left, one of them can change alone and stay legal.
    """
    ranks = {"workgroup_size": 0, "subgroup_size": 0, OPTIONS: 0, "workgroup": 1, "mma_kind": 3}
    indices = {name: np.unique(column, return_inverse=True)[1] for name, column in columns.items()}
    kept = [name for name in columns if indices[name].max(initial=0) > 0]

    def distinct(names: Sequence[str]) -> int:
        code, limit = np.zeros(len(next(iter(columns.values()))), np.int64), 1
        for name in names:
            size = int(indices[name].max(initial=0)) + 1
            limit *= size
            if limit >= 1 << 62:  # the codes would not fit: number those that there are
                code = np.unique(code, return_inverse=True)[1]
                limit = (int(code.max(initial=0)) + 1) * size
            code = code * size + indices[name]
        return len(np.unique(code))

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
            labels = gpu_config.option_names(options)
            knobs.append(Knob(name.removesuffix("_idx"), tuple(labels[v] for v in values)))
        else:
            knobs.append(Knob(name, values))
    table = np.stack([indices[name][order] for name in kept], axis=1) if kept else np.zeros((len(order), 0), np.int64)
    return ordered, Space(knobs, table)
