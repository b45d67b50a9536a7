"""The compiler's own constraints as a small program of nodes, and its value over whole columns of knobs.

`iree-compile --iree-codegen-emit-pipeline-constraints` leaves one `iree_codegen.smt.constraints` op per pipeline.
Its region is a straight line of SMT operations without loops or quantifiers, so numpy can evaluate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.compiler import ir
from iree.compiler.dialects.smt import IntPredicate

from autotuner._version import IREE
from autotuner.errors import EnvironmentFailure
from autotuner.iree.mlir import maker, walk
from autotuner.iree.versions import bindings_version

Column = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Computed = tuple[npt.NDArray[Any], "Known"]
Known = Mask | None
"""The rows in which a value is defined; None: all of them."""


class ConstraintsError(EnvironmentFailure):
    """The constraints are not of the form that this version of IREE is known to emit."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: what it does, on which earlier nodes, with which literals."""

    kind: str
    operands: tuple[int, ...] = ()
    name: str = ""
    literals: tuple[tuple[int, int], ...] = ()

    @property
    def constant(self) -> int:
        return self.literals[0][0]


@dataclass(frozen=True)
class Program:
    """The region of one constraints op: nodes in an order in which operands come first."""

    nodes: tuple[Node, ...]
    asserts: tuple[int, ...]
    """The nodes that must hold."""
    knobs: tuple[str, ...]
    booleans: frozenset[str]
    uses: tuple[frozenset[str], ...]
    """For each node, the knobs that it depends on."""
    dimensions: tuple[int, ...]
    """The sizes of the loops of the dispatch."""

    def cone(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """The nodes that the wanted ones need, in order."""
        seen: set[int] = set()
        stack = list(wanted)
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(self.nodes[node].operands)
        return tuple(sorted(seen))


def constraint_operations(operation: Any) -> Iterator[Any]:
    """Every constraints op below an operation, in the order of the text."""
    return (one for one in walk(operation) if one.name == "iree_codegen.smt.constraints")


_PLAIN = {
    "smt.eq": "eq",
    "smt.and": "and",
    "smt.or": "or",
    "smt.ite": "ite",
    "smt.int.add": "add",
    "smt.int.sub": "sub",
    "smt.int.mul": "mul",
    "smt.int.div": "div",
    "smt.int.mod": "mod",
}


class _Reader:
    """Builds a program: equal nodes become one, and what depends on no knob is folded away."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.uses: list[frozenset[str]] = []
        self.index: dict[Node, int] = {}
        self.booleans: set[str] = set()

    def add(self, node: Node) -> int:
        if node.operands and not any(self.uses[i] for i in node.operands):
            columns = [(np.array([self.nodes[i].constant], np.int64), None) for i in node.operands]
            value, known = apply(node, columns)
            # A division by zero stays a node: only the rows that need its value are illegal.
            if known is None or known.all():
                node = constant(int(value[0]))
        if node not in self.index:
            own = frozenset((node.name,)) if node.kind == "knob" else frozenset[str]()
            self.index[node] = len(self.nodes)
            self.uses.append(own.union(*(self.uses[i] for i in node.operands)))
            self.nodes.append(node)
        return self.index[node]

    def read(self, operation: Any, values: dict[Any, int]) -> int:
        """The node of one operation with a result."""
        operands = tuple(values[operand] for operand in operation.operands)
        attributes = operation.attributes
        match operation.name:
            case name if name in _PLAIN:
                return self.add(Node(_PLAIN[name], operands))
            case "smt.int.constant":
                return self.add(constant(ir.IntegerAttr(attributes["value"]).value))
            case "smt.int.cmp":
                return self.add(Node(IntPredicate(ir.IntegerAttr(attributes["pred"]).value).name, operands))
            case "iree_codegen.smt.lookup":
                pairs = zip(attributes["keys"], attributes["values"], strict=True)
                return self.add(Node("lookup", operands, literals=tuple((int(k), int(v)) for k, v in pairs)))
            case "iree_codegen.smt.knob":
                return self.knob(operation, ir.StringAttr(attributes["name"]).value)
            case "smt.declare_fun" if "namePrefix" in attributes:
                # The compiler's helper variables: not in the configuration, but part of what is legal.
                return self.knob(operation, ir.StringAttr(attributes["namePrefix"]).value)
            case name:
                raise ConstraintsError(
                    f"IREE {bindings_version()} emitted {name!r} in its constraints, which has no meaning here.",
                    remedy=f"autotune is made for IREE {IREE}.",
                )

    def knob(self, operation: Any, name: str) -> int:
        kind = str(operation.results[0].type)
        if kind == "!smt.bool":
            self.booleans.add(name)
        elif kind != "!smt.int":
            raise ConstraintsError(
                f"IREE {bindings_version()} emitted knob {name!r} of type {kind} (by {operation.name!r});"
                " only integers and booleans are understood here.",
                remedy=f"autotune is made for IREE {IREE}.",
            )
        return self.add(Node("knob", name=name))


def constant(value: int) -> Node:
    return Node("constant", literals=((value, 0),))


def read_program(operation: Any) -> Program:
    """The program of one `iree_codegen.smt.constraints` operation."""
    reader = _Reader()
    block = operation.regions[0].blocks[0]
    children = [child.operation for child in block.operations]
    dimensions = tuple(map(_size, operation.operands))
    values: dict[Any, int] = {
        argument: reader.add(constant(size)) for argument, size in zip(block.arguments, dimensions, strict=True)
    }
    asserts: dict[int, None] = {}
    for child in children:
        if child.name in ("iree_codegen.smt.assert", "smt.assert"):
            asserts[values[child.operands[0]]] = None
        elif len(child.results) == 1:
            values[child.results[0]] = reader.read(child, values)
        elif child.name != "smt.yield":
            reader.read(child, values)
    return Program(
        nodes=tuple(reader.nodes),
        asserts=tuple(asserts),
        knobs=tuple(node.name for node in reader.nodes if node.kind == "knob"),
        booleans=frozenset(reader.booleans),
        uses=tuple(reader.uses),
        dimensions=dimensions,
    )


def _size(operand: Any) -> int:
    """The size of a loop: the value of a constant operand."""
    made = maker(operand, "arith.constant")
    if made is None:
        raise ConstraintsError(
            "a loop of the dispatch has no static size in the pipeline constraints.",
            remedy="Tune a problem with static shapes.",
        )
    return int(ir.IntegerAttr(made.attributes["value"]).value)


def evaluate(program: Program, order: Sequence[int], columns: Mapping[str, Column]) -> dict[int, Computed]:
    """The values of nodes (a cone, operands first) over columns of knob values."""
    memo: dict[int, Computed] = {}
    for index in order:
        node = program.nodes[index]
        if node.kind == "knob":
            memo[index] = (columns[node.name], None)
        else:
            memo[index] = apply(node, [memo[i] for i in node.operands])
    return memo


def holds(value: Computed) -> Mask:
    """Rows in which an assertion is true; where it depends on an undefined value it is not."""
    truth, known = value
    truth = truth.astype(bool)
    return truth if known is None else truth & known


_FOLDED: Mapping[str, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
_ELEMENTWISE: Mapping[str, np.ufunc] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def apply(node: Node, arguments: Sequence[Computed]) -> Computed:
    """One operation over columns.

    Lookups without an entry and divisions by zero have no value: they poison what is computed from them, except
    that a connective whose result is settled by its other operands stays settled, as in SMT.
    """
    values = [value for value, _ in arguments]
    known = _both(*(k for _, k in arguments))
    if node.kind in _FOLDED:
        return reduce(_FOLDED[node.kind], values), known
    if node.kind in _ELEMENTWISE:
        return _ELEMENTWISE[node.kind](*values), known
    match node.kind:
        case "constant":
            return np.array([node.constant], np.int64), None
        case "lookup":
            return _looked_up(node, values[0], known)
        case "div" | "mod":
            return _divided(node.kind, values[0], values[1], known)
        case "eq":
            return reduce(np.logical_and, [values[0] == v for v in values[1:]]), known
        case "and":
            return _all(arguments)
        case "or":
            return _negated(_all([_negated(a) for a in arguments]))
        case "ite":
            return _chosen(arguments)
    raise ConstraintsError(f"no rule for constraint node {node.kind!r}.")


def _looked_up(node: Node, keys: npt.NDArray[Any], known: Known) -> Computed:
    have = np.array([k for k, _ in node.literals], np.int64)
    entries = np.array([v for _, v in node.literals], np.int64)
    order = np.argsort(have)
    place = np.minimum(np.searchsorted(have[order], keys), len(have) - 1)
    found = have[order][place] == keys
    return entries[order][place], known if found.all() else _both(known, found)


def _divided(kind: str, dividend: npt.NDArray[Any], divisor: npt.NDArray[Any], known: Known) -> Computed:
    """SMT-LIB: the remainder is never negative, whatever the signs."""
    zero = divisor == 0
    if zero.any():
        divisor = np.where(zero, 1, divisor)
        known = _both(known, ~zero)
    remainder = np.mod(dividend, np.abs(divisor))
    return (remainder if kind == "mod" else (dividend - remainder) // divisor), known


def _chosen(arguments: Sequence[Computed]) -> Computed:
    """If, then, else: what is not chosen may have no value."""
    (value, given), *others = arguments
    condition = value.astype(bool)
    chosen = np.where(condition, others[0][0], others[1][0])
    if all(mask is None for _, mask in arguments):
        return chosen, None
    branches = [np.ones(1, bool) if mask is None else mask for _, mask in others]
    return chosen, _both(given, np.where(condition, branches[0], branches[1]))


def _both(*masks: Known) -> Known:
    present = [mask for mask in masks if mask is not None]
    return reduce(np.logical_and, present) if present else None


def _negated(value: Computed) -> Computed:
    return np.logical_not(value[0]), value[1]


def _all(arguments: Sequence[Computed]) -> tuple[Mask, Known]:
    truth: Mask = reduce(np.logical_and, [holds(a) for a in arguments])
    if all(known is None for _, known in arguments):
        return truth, None
    false = reduce(np.logical_or, [holds(_negated(a)) for a in arguments])
    return truth, truth | false
