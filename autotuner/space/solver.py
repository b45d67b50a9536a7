"""Enumerates the assignments of knobs that a constraint program allows, by joins of numpy columns.

Interval propagation and the asserts over one knob bound every knob; then knobs are joined one after the other, each
with the asserts that it completes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotuner.space.constraints import Column, ConstraintsError, Mask, Program, evaluate, holds

Bound = float
"""An integer, or an infinity: no knob comes near the 2**53 where a float would lose one."""

_LARGEST_DOMAIN = 1 << 22
_SAMPLE = 96
"""Rows of the sample that estimates how much a join grows the table."""


@dataclass(slots=True)
class Interval:
    low: Bound
    high: Bound


class _Bounds:
    """Interval propagation: from operands to results, and from asserted results back to the factors of products."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.intervals = [Interval(-math.inf, math.inf) for _ in program.nodes]
        for i, node in enumerate(program.nodes):
            if node.kind == "knob":
                # Tile sizes and counts: the compiler has no use for a negative one.
                self.intervals[i] = Interval(0, 1 if node.name in program.booleans else math.inf)
        for _ in range(16):
            before = [(b.low, b.high) for b in self.intervals]
            self._forward()
            for asserted in program.asserts:
                self._demand(asserted)
            if before == [(b.low, b.high) for b in self.intervals]:
                break

    def _narrow(self, index: int, low: Bound, high: Bound) -> None:
        bound = self.intervals[index]
        bound.low = max(bound.low, math.ceil(low) if math.isfinite(low) else low)
        bound.high = min(bound.high, math.floor(high) if math.isfinite(high) else high)

    def _forward(self) -> None:
        for index, node in enumerate(self.program.nodes):
            of = [self.intervals[i] for i in node.operands]
            match node.kind:
                case "constant":
                    self._narrow(index, node.constant, node.constant)
                case "lookup":
                    entries = [v for k, v in node.literals if of[0].low <= k <= of[0].high]
                    if entries:
                        self._narrow(index, min(entries), max(entries))
                case "mul" if all(o.low >= 0 for o in of):
                    self._narrow(index, _product(o.low for o in of), _product(o.high for o in of))

    def _demand(self, index: int) -> None:
        """Narrows the operands of a node that must be true."""
        node = self.program.nodes[index]
        match node.kind:
            case "and":
                for operand in node.operands:
                    self._demand(operand)
            case "le" | "lt":
                self._below(*node.operands, gap=int(node.kind == "lt"))
            case "ge" | "gt":
                self._below(*reversed(node.operands), gap=int(node.kind == "gt"))
            case "eq":
                low = max(self.intervals[i].low for i in node.operands)
                high = min(self.intervals[i].high for i in node.operands)
                for operand in node.operands:
                    self._narrow(operand, low, high)
                    self._backward(operand)

    def _below(self, smaller: int, larger: int, *, gap: int) -> None:
        self._narrow(smaller, -math.inf, self.intervals[larger].high - gap)
        self._narrow(larger, self.intervals[smaller].low + gap, math.inf)
        self._backward(smaller)
        self._backward(larger)

    def _backward(self, index: int) -> None:
        """Narrows the operands of a node by the bounds of its value."""
        node, result = self.program.nodes[index], self.intervals[index]
        of = [self.intervals[i] for i in node.operands]
        if node.kind != "mul" or any(o.low < 0 for o in of):
            return
        for i, operand in enumerate(node.operands):
            low = _product(o.low for j, o in enumerate(of) if j != i)
            high = _product(o.high for j, o in enumerate(of) if j != i)
            if low > 0:
                self._narrow(operand, 0, result.high / low)
            if result.low > 0 and math.isfinite(high):
                self._narrow(operand, result.low / max(high, 1), math.inf)
            self._backward(operand)


def _product(factors: Iterable[Bound]) -> Bound:
    """A product in which zero times infinity is zero."""
    given = list(factors)
    return 0 if 0 in given else math.prod(given)


def legal(program: Program) -> dict[str, Column]:
    """The legal assignments: one column per knob, in the program's order, one row per assignment."""
    solver = _Solver(program)
    if any(len(values) == 0 for values in solver.domains.values()):
        return {knob: np.zeros(0, np.int64) for knob in program.knobs}
    return solver.join()


class _Solver:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.bounds = _Bounds(program)
        self.asserts = program.asserts
        self.domains = self._domains()

    def _domains(self) -> dict[str, Column]:
        domains: dict[str, Column] = {}
        never = self._check({}, [i for i in self.asserts if not self.program.uses[i]], rows=1)
        for index, node in enumerate(self.program.nodes):
            if node.kind != "knob":
                continue
            bound = self.bounds.intervals[index]
            if bound.low > bound.high or not never[0]:
                domains[node.name] = np.zeros(0, np.int64)
                continue
            if bound.high - bound.low >= _LARGEST_DOMAIN:
                raise ConstraintsError(
                    f"the pipeline constraints leave knob {node.name!r} without a usable bound"
                    f" ({bound.low} to {bound.high}).",
                    remedy="Report the problem with the constraints module that shows it.",
                )
            values = np.arange(int(bound.low), int(bound.high) + 1, dtype=np.int64)
            own = [i for i in self.asserts if self.program.uses[i] == {node.name}]
            domains[node.name] = values[self._check({node.name: values}, own, rows=len(values))]
        return domains

    def _check(self, columns: Mapping[str, Column], asserts: Sequence[int], *, rows: int) -> Mask:
        keep = np.ones(rows, bool)
        values = evaluate(self.program, self.program.cone(asserts), columns)
        for i in asserts:
            keep &= holds(values[i])
        return keep

    def join(self) -> dict[str, Column]:
        table: dict[str, Column] = {}
        rows, waiting = 1, set(self.program.knobs)
        while waiting:
            sample = _rows(table, np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(np.int64))
            growth = {knob: self._extend(sample, knob, rows=min(rows, _SAMPLE))[1] for knob in waiting}
            knob = min(waiting, key=lambda k: (growth[k], self.program.knobs.index(k)))
            waiting.discard(knob)
            table, rows = self._extend(table, knob, rows=rows)
            if not rows:
                break
        return {knob: table.get(knob, np.zeros(0, np.int64))[:rows] for knob in self.program.knobs}

    def _extend(self, table: Mapping[str, Column], knob: str, *, rows: int) -> tuple[dict[str, Column], int]:
        """The table with one more knob, and the asserts that this completes."""
        domain = self.domains[knob]
        columns = {name: np.repeat(column, len(domain)) for name, column in table.items()}
        columns[knob] = np.tile(domain, rows)
        rows = len(columns[knob])
        complete = [i for i in self.asserts if knob in self.program.uses[i] and self.program.uses[i] <= columns.keys()]
        keep = self._check(columns, complete, rows=rows)
        return _rows(columns, np.flatnonzero(keep)), int(keep.sum())


def _rows(table: Mapping[str, Column], rows: Column) -> dict[str, Column]:
    return {name: column[rows] for name, column in table.items()}
