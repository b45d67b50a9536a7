"""One dispatch of a model as a problem: it is tuned as the compiler made it, with its fusions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from autotuner.iree.mlir import Dispatch, map_positions
from autotuner.problems import Array, Gemm, Operand, Problem
from autotuner.problems.accuracy import (
    UNITS,
    Bound,
    Precision,
    Sums,
    known_precision,
    rms,
    sum_bound,
    whole_numbers,
)
from autotuner.problems.dtypes import ACCUMULATORS, element_type, known_type
from autotuner.programs.flow import FlowDispatch, Group, Value, tensor_type

_FUSED = 4.0
"""The factor on the error bound for operations fused to the sums, which round and amplify errors."""
_STEPS = Bound(0.1, worst=10.0)
"""The bound of integer results of rounded sums: one in a hundred may round to the other side of a half."""
_CONTRACTED = {"contraction": ("k",), "convolution": ("filter", "input"), "attention": ("k1", "k2")}
_GEMM_RANK = 4


@dataclass(frozen=True)
class DispatchProblem(Problem):
    """A dispatch as a problem. IREE's default is the reference; the whole model is checked in the end."""

    piece: FlowDispatch = field(repr=False)
    root: Dispatch = field(repr=False)
    label: str
    """A name that is unique within the model."""
    allow: Precision = ""
    viewed: int = 0
    """The index of the result that `output` and the bounds describe."""

    op = "dispatch"
    template = "dispatch.mlir.j2"
    flags = ("--compile-from=flow",)

    @property
    def name(self) -> str:
        return self.label

    @property
    def repeatable(self) -> bool:  # type: ignore[override]
        return all(operand is None for operand in self.piece.tied)

    @property
    def flops(self) -> int:
        return flops(self.root)

    @property
    def results(self) -> int:  # type: ignore[override]
        return len(self.piece.results)

    @property
    def output(self) -> Operand:
        return self.outputs[self.viewed]

    def viewing(self, result: int) -> DispatchProblem:
        return replace(self, viewed=result)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(_operand(value) for value in (*self.piece.tensors, *self.piece.results))

    @property
    def types(self) -> tuple[str, str]:
        return self.root.element_types[0], self.root.element_types[-1]

    def with_f8(self, element: str) -> Problem:
        del element  # its types are the program's
        return self

    def template_values(self) -> Mapping[str, object]:
        piece = self.piece
        values = (*piece.operands, *piece.results)
        sizes = dict.fromkeys([*piece.workload, *(size for value in values for size in value.dims)])
        return {
            "sizes": list(sizes),
            "workload": piece.workload,
            "symbol": piece.symbol,
            "export": piece.export,
            "executable": piece.text,
            "resources": piece.resources,
            "devices": piece.devices,
            "attributes": piece.attributes,
            "operands": piece.operands,
            "results": list(zip(piece.results, piece.tied, strict=True)),
        }

    def inputs(self, seed: int) -> tuple[Array, ...]:
        return random_tensors(self.operands[: -self.results], seed)

    @property
    def knows(self) -> bool:
        return False

    def reference(self, inputs: tuple[Array, ...]) -> None:
        del inputs

    def bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """The bound between two kernels; the size of the sums inside is taken from the result's."""
        del inputs
        size, sums = rms(reference), self._sums
        if not self.output.element.is_float:
            return _STEPS
        if sums is None:
            return Bound.relative(reference, _FUSED * UNITS[self.output.element.name])
        summed = sum_bound(np.full((), size), size, sums, kernels=2)
        unit = UNITS[self.output.element.name]
        if self.root.kind == "attention":  # its weights are rounded to the operands' type on the way
            unit = max(unit, UNITS[sums.element.name])
        slack = _FUSED * unit * (np.abs(reference) + size)
        return Bound(_FUSED * np.asarray(summed.deviation), slack=slack)

    def whole_inputs(self, seed: int) -> tuple[Array, ...] | None:
        sums = self._sums
        if sums is None or not sums.whole_limit:
            return None
        rng = np.random.default_rng(seed)
        return tuple(
            whole_numbers(o.shape, o.element, limit=sums.whole_limit, rng=rng) if o.element.is_float else given
            for o, given in zip(self.operands[: -self.results], self.inputs(seed), strict=True)
        )

    def whole_bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """The bound on whole numbers: the sums are exact; what is fused to them is not."""
        if self.root.kind == "attention" or not self.output.element.is_float:
            return self.bound(inputs, reference)
        unit = max(UNITS[self.output.element.name], UNITS["f32"])
        return Bound(_FUSED * unit * (np.abs(reference) + rms(reference)))

    def allowing(self, precision: str | None) -> Self:
        return replace(self, allow=known_precision(precision))

    @property
    def _sums(self) -> Sums | None:
        """The sums of its root operation; None where its types are unknown."""
        element, acc = self.types
        if not (known_type(element) and known_type(acc)):
            return None
        return Sums(length(self.root), element_type(element), acc, self.output.element.name, self.allow)

    def arguments(self) -> tuple[str, ...]:
        text = self.piece.text + self.piece.resources
        return "dispatch", self.label, hashlib.sha256(text.encode()).hexdigest()[:16]

    def resolved(self, root: Dispatch) -> Dispatch:
        return root.sized(loop_sizes(self.piece, root) or {})

    def unbatched(self) -> tuple[Problem, int]:
        """One entry of a batched product, which has the same constraints."""
        root = self.root
        if root.kind != "contraction" or not root.dims("batch"):
            return self, 0
        single = _entry(root)
        return (self, 0) if single is None else (single, 1)

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "dispatch": self.piece.symbol, "calls": self.piece.calls}


def flops(root: Dispatch) -> int:
    """Multiplications and additions of the root operation."""
    if root.kind != "attention":
        return 2 * root.work
    batch, m, n, k1, k2 = (math.prod(root.sizes(role)) for role in ("batch", "m", "n", "k1", "k2"))
    return 2 * batch * m * k2 * (k1 + n)


def length(root: Dispatch) -> int:
    """The number of products in each sum of this operation."""
    sizes = [math.prod(root.sizes(role)) for role in _CONTRACTED[root.kind]]
    return sum(sizes) if root.kind == "attention" else math.prod(sizes)


def called_flops(piece: FlowDispatch, root: Dispatch) -> int:
    """The flops of all calls of a dispatch, at the sizes that follow from the inputs."""
    return flops(root.sized(loop_sizes(piece, root) or {})) * piece.calls


def group_flops(group: Group) -> int:
    return sum(called_flops(piece, group.root) for piece in group.pieces)


def runs_alone(piece: FlowDispatch, root: Dispatch) -> str:
    """Why a dispatch cannot be a problem of its own; empty: it can."""
    if piece.obstacle:
        return piece.obstacle
    elements = [tensor_type(value)[1] for value in (*piece.tensors, *piece.results)]
    unknown = next((element for element in elements if not known_type(element)), None)
    if unknown:
        return f"its element type {unknown} cannot be made here"
    return "its dynamic sizes cannot be told apart" if loop_sizes(piece, root) is None else ""


def loop_sizes(piece: FlowDispatch, root: Dispatch) -> dict[int, int] | None:
    """The sizes of the root's dynamic loops in this call; None: unknown.

    Inside the dispatch a dynamic size is an ordinary number. It is known when there is only one, or when the root has
    an operand of the same type as the dispatch.
    """
    if not root.dynamic:
        return {}
    values = (*piece.tensors, *piece.results)
    numbers = {size for value in values for size in value.dims if size is not None}
    if len(numbers) == 1:
        return dict.fromkeys(root.dynamic, numbers.pop())
    found: dict[int, int] = {}
    for text, type in zip(root.maps, root.operand_types, strict=True):
        shapes = {tensor_type(value)[0] for value in values if value.type == type}
        if len(shapes) == 1:
            sizes = zip(map_positions(text), shapes.pop(), strict=True)
            found |= {loop: size for loop, size in sizes if loop in root.dynamic}
    return found if set(found) == set(root.dynamic) else None


def random_tensors(operands: tuple[Operand, ...], seed: int) -> tuple[Array, ...]:
    """Random numbers in [-1, 1]; whole i8; other integers may be indices, so they are 0 or 1."""
    rng = np.random.default_rng(seed)
    arrays = []
    for operand in operands:
        array: Array
        if operand.element.is_float:
            array = rng.random(operand.shape, np.float32) * 2 - 1
        elif operand.element.name == "i8":
            array = rng.integers(-127, 128, operand.shape, np.int8)
        else:
            array = rng.integers(0, 2, operand.shape, np.int64)
        arrays.append(array.astype(operand.element.numpy))
    return tuple(arrays)


def _operand(value: Value) -> Operand:
    shape, element = tensor_type(value)
    return Operand(shape, element_type(element))


def _entry(root: Dispatch) -> Gemm | None:
    """One entry of a batch of plain products; None: it is something else."""
    lhs, rhs, out = (map_positions(text) for text in root.maps)
    if len(root.loops) != _GEMM_RANK or any(len(root.dims(role)) != 1 for role in ("batch", "m", "n", "k")):
        return None
    (batch,), (m,), (n,), (k,) = (root.dims(role) for role in ("batch", "m", "n", "k"))
    left, right = [p for p in lhs if p != batch], [p for p in rhs if p != batch]
    dtype, acc = root.element_types[0], root.element_types[-1]
    if (
        [p for p in out if p != batch] != [m, n]
        or root.element_types[1] != dtype
        or acc not in ACCUMULATORS.get(dtype, ())
    ):
        return None
    layout = ("n" if left == [m, k] else "t") + ("n" if right == [k, n] else "t")
    sizes = "x".join(str(root.loops[d]) for d in (m, n, k))
    return Gemm.parse(shape=sizes, dtype=dtype, acc=acc, layout=layout)
