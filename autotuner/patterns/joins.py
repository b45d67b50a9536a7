"""Joins linear layers of the same rows into one product with all the weights: queries, keys and values, whose parts a
kernel for attention reads in place; a gate and its other factor, which a kernel for products multiplies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotuner.iree.mlir import maker
from autotuner.patterns import graph, ops
from autotuner.patterns.attention import read_around
from autotuner.patterns.epilogues import Tail, read_tails
from autotuner.patterns.forms import Join, apply_script, sink_constants, taking
from autotuner.patterns.slices import read_slice
from autotuner.patterns.unfused import read_unfused
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import PACKED, TOKENS_FIRST, Attention
from autotuner.problems.epilogue import NOTHING, TURN, Epilogue
from autotuner.system.templates import render


@dataclass(frozen=True)
class Layer:
    """A product with constant weights, as a program has it."""

    problem: Gemm
    rows: Any
    weights: Any
    tail: Tail

    @property
    def result(self) -> Any:
        return self.tail.root.results[0]

    @property
    def biases(self) -> tuple[Any, ...]:
        return tuple(value for _, value in self.tail.channelwise)

    @property
    def alone(self) -> bool:
        """Whether its result has one user."""
        return graph.only_user(self.tail.root) is not None

    @property
    def plain(self) -> bool:
        """Whether it has no epilogue but a bias, added after rounding to the operands' type."""
        tail, type = self.tail, self.problem.operands[0].element.mlir
        fitting = all(name == graph.SUM for name, _ in tail.channelwise)
        fitting = fitting and all(graph.rank(v) == 1 and graph.element(v) == type for v in self.biases)
        narrow = tail.rounded == type and self.problem.types[1] == "f32"
        bare = replace(tail, channelwise=()).bare and not tail.activation
        return narrow and fitting and len(self.biases) <= 1 and bare and self.problem.layout == "nn"

    def fits(self, other: Layer) -> bool:
        """Whether both are plain, of the same rows and sizes."""
        same = (self.rows, self.problem, self.weights.type) == (other.rows, other.problem, other.weights.type)
        return same and self.plain and other.plain and len(self.biases) == len(other.biases)


Layers = Mapping[Any, Layer]
"""A program's linear layers, by their results."""


@dataclass(frozen=True)
class QueriesKeysValues:
    """Three layers and the attention of their results."""

    layers: Layers

    def match(self, op: Any, own: Problem) -> Iterator[Join]:
        """The joins of an attention, or of the second product of one that is written out."""
        for around in read_around(op, own) if isinstance(own, Attention) else read_unfused(op)[0]:
            problem = around.problem
            if problem.layout != TOKENS_FIRST or problem.queries != problem.keys:
                continue
            splits = [maker(value, graph.EXPAND) for value in around.inputs]
            found = [self.layers.get(split.operands[0]) for split in splits if split is not None]
            three = [layer for layer in found if layer is not None and layer.alone]
            sizes = (around.problem.batch * problem.queries, around.problem.heads * problem.width)
            if len(three) < 3 or not all(map(three[0].fits, three)):
                continue
            first = three[0]
            if sizes != (first.problem.m, first.problem.n):
                continue
            epilogue = Epilogue(bias=bool(first.biases))
            product = replace(first.problem, n=3 * first.problem.n, out=first.tail.rounded, epilogue=epilogue)
            biases = [value for layer in three for value in layer.biases]
            match = read_slice(around.root, (first.rows, *(layer.weights for layer in three), *biases))
            rest = read_slice(around.root, around.inputs)
            if match is not None and rest is not None:
                yield Join(match, rest, product, replace(around.problem, layout=PACKED))


@dataclass(frozen=True)
class GatedLayers:
    """A layer whose activated results are multiplied with those of another one."""

    layers: Layers

    def match(self, layer: Layer) -> Iterator[Join]:
        gate = read_gate(layer.tail.root) if layer.plain and not layer.biases else None
        other = None if gate is None else self.layers.get(gate.other)
        if gate is None or other is None or not layer.fits(other) or layer.problem.n % TURN or not other.alone:
            return
        epilogue = Epilogue(activation=gate.activation, gated=True)
        product = replace(layer.problem, n=2 * layer.problem.n, out=layer.tail.rounded, epilogue=epilogue)
        match = read_slice(gate.root, (layer.rows, layer.weights, other.weights))
        rest = read_slice(gate.root, (layer.result, gate.other))
        batch = graph.shape(gate.other)[0] if graph.rank(gate.other) > 2 else 1
        if match is not None and rest is not None:
            yield Join(match, rest, product, batch=batch)


@dataclass(frozen=True)
class Gate:
    """A gate: an activation whose result multiplies another value."""

    activation: str
    other: Any
    """The value that the gate multiplies with."""
    root: Any
    """The operation that multiplies both, or that merges its rows."""
    rounded: str = ""
    """The type of both, where sums were rounded."""


def read_gate(op: Any) -> Gate | None:
    """The gate of an operation's result: an activation, and a product with it; None: there is none."""
    for tail in read_tails(Tail(op), channel=graph.rank(op.results[0]) - 1):
        if tail.activation and tail.bare and not tail.rounded:
            root = graph.only_user(tail.root, ops.GENERIC)
            other = None if root is None else _multiplied(root, tail.root.results[0])
            return None if other is None else Gate(tail.activation, other, root)
    return None


def read_gated(op: Any) -> Gate | None:
    """The sums of a product, of which `TURN` columns are gates and as many are what these are for, in turns: what a
    `Join` makes of them."""
    for tail in read_tails(Tail(op), channel=1):
        turns = graph.only_user(tail.root, graph.EXPAND)
        if turns is not None and tail.bare and not tail.activation:
            return _of_turns(turns, tail.rounded)
    return None


def _of_turns(turns: Any, rounded: str) -> Gate | None:
    rows, columns = graph.shape(turns.operands[0])
    if graph.shape(turns.results[0]) != [rows, columns // (2 * TURN), 2, TURN]:
        return None
    parts = dict(_part(use.owner.operation) for use in turns.results[0].uses)
    gate = read_gate(parts[0]) if parts.keys() == {0, 1} and len(list(turns.results[0].uses)) == 2 else None
    if gate is None or gate.other != parts[1].results[0]:
        return None
    # The rows of a batch are those of one product.
    root = gate.root if graph.rank(gate.root.results[0]) == 2 else graph.only_user(gate.root, graph.COLLAPSE)
    if root is None or graph.shape(root.results[0]) != [rows, columns // 2]:
        return None
    return replace(gate, root=root, rounded=rounded)


def _part(op: Any) -> tuple[int, Any]:
    """Which half of the turns a slice takes, and the operation that gives it as one matrix or as a batch of rows; -1:
    neither."""
    if op.name != graph.SLICE or len(op.operands) != 1:
        return -1, None
    offsets, lengths = graph.integers(op, "static_offsets", "static_sizes")
    rows, many, _, turn = graph.shape(op.operands[0])
    merged = graph.only_user(op, graph.COLLAPSE)
    if [*offsets[:2], offsets[3]] != [0, 0, 0] or lengths != [rows, many, 1, turn] or merged is None:
        return -1, None
    split = graph.only_user(merged, graph.EXPAND)
    made = merged if split is None else split
    fitting = graph.shape(merged.results[0]) == [rows, many * turn] and graph.shape(made.results[0])[-1] == many * turn
    return (offsets[2], made) if fitting else (-1, None)


def _multiplied(generic: Any, value: Any) -> Any:
    """The other factor of an elementwise product with this value; None: the operation does something else."""
    arguments, operations = graph.body(generic)
    whole = list(range(graph.rank(generic.results[0])))
    if [op.name for op in operations] != [graph.PRODUCT, graph.YIELD] or graph.loops(generic) != [whole] * 3:
        return None
    product, last = operations
    if set(product.operands) != set(arguments[:2]) or last.operands[0] != product.results[0]:
        return None
    first, second, _ = generic.operands
    return second if first == value else first


def joined_mlir(joins: Sequence[Join]) -> str:
    """A spec that joins layers and does no more."""
    return render("microkernel_joined.mlir.j2", joins=joins, sink=taking(_sunk(joins)), turn=TURN)


def join(module: Any, joins: Sequence[Join]) -> None:
    """Joins layers in a program, as a spec does before it matches anything else."""
    sink_constants(module, _sunk(joins))  # the script finds nothing left to sink
    apply_script(module, joined_mlir(joins))


def _sunk(joins: Sequence[Join]) -> set[str]:
    return {name for one in joins for name in one.match.sunk}


def is_made_by(problem: Problem, joins: Sequence[Join]) -> bool:
    """Whether a problem comes from joined layers, with any epilogue, or is the attention that follows them."""
    return any(_sums(problem) == _sums(made) for one in joins for made in one.problems)


def _sums(problem: Problem) -> Problem:
    """The product without its epilogue."""
    return replace(problem, out="", epilogue=NOTHING) if isinstance(problem, Gemm) else problem
