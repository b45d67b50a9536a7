"""Linear layers of the same rows as one product with all the weights: queries, keys and values, of which a kernel for
attention reads its parts where they are; a gate and what it is for, which a kernel for products multiplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from autotuner.carriers.forms import Join
from autotuner.carriers.gates import read_gate
from autotuner.carriers.grouped import EXPAND
from autotuner.carriers.heads import Around, read_around
from autotuner.carriers.render import microkernel_mlir
from autotuner.carriers.slices import read_slice
from autotuner.carriers.tails import SUM, Tail
from autotuner.iree.mlir import maker, parse
from autotuner.problems import Attention, Gemm, Problem
from autotuner.problems.attention import PACKED, TOKENS_FIRST
from autotuner.problems.epilogue import NOTHING, TURN, Epilogue

_PARTS = 3


@dataclass(frozen=True)
class Layer:
    """A product with constant weights, as a program has it."""

    problem: Gemm
    rows: Any
    weights: Any
    tail: Tail

    @property
    def plain(self) -> bool:
        """It has a bias at the most, added to what was rounded to the operands' type."""
        tail, element = self.tail, self.problem.operands[0].element.mlir
        biases = [(name, ir.RankedTensorType(value.type)) for name, value in tail.channelwise]
        fitting = all(name == SUM and type.rank == 1 and str(type.element_type) == element for name, type in biases)
        narrow = tail.rounded == element and self.problem.types[1] == "f32"
        alone = replace(tail, channelwise=()).bare and not tail.activation
        return narrow and fitting and len(biases) <= 1 and alone and self.problem.layout == "nn"


def read_join(op: Any, problem: Attention, layers: Mapping[Any, Layer]) -> Join | None:
    """What an attention and the three layers before it become; None where they are something else. `layers` are all
    of the program, by their results."""
    around = next((a for a in read_around(op, problem) if a.problem.layout == TOKENS_FIRST), None)
    if around is None or around.problem.queries != around.problem.keys:
        return None
    found = [layers.get(_before_split(value)) for value in around.inputs]
    three = [layer for layer in found if layer is not None]
    if len(three) < _PARTS or not _alike(three, around):
        return None
    packed = replace(around.problem, layout=PACKED)
    one = three[0].problem
    epilogue = Epilogue(bias=bool(three[0].tail.channelwise))
    product = replace(one, n=_PARTS * one.n, out=three[0].tail.rounded, epilogue=epilogue)
    biases = [value for layer in three for _, value in layer.tail.channelwise]
    match = read_slice(around.root, (three[0].rows, *(layer.weights for layer in three), *biases))
    rest = read_slice(around.root, around.inputs)
    return Join(match, rest, product, packed) if match is not None and rest is not None else None


def read_gated_join(layer: Layer, layers: Mapping[Any, Layer]) -> Join | None:
    """What a layer that is a gate and the one that it is for become; None where it is no gate."""
    gate = read_gate(layer.tail.root) if layer.plain and not layer.tail.channelwise else None
    other = None if gate is None else layers.get(gate.other)
    if gate is None or other is None or other.tail.channelwise or not _same((layer, other)) or layer.problem.n % TURN:
        return None
    if len(list(other.tail.root.results[0].uses)) > 1:
        return None
    epilogue = Epilogue(activation=gate.activation, gated=True)
    product = replace(layer.problem, n=2 * layer.problem.n, out=layer.tail.rounded, epilogue=epilogue)
    match = read_slice(gate.root, (layer.rows, layer.weights, other.weights))
    rest = read_slice(gate.root, (layer.tail.root.results[0], gate.other))
    shape = ir.ShapedType(gate.other.type).shape
    batch = shape[0] if len(shape) > 2 else 1
    return Join(match, rest, product, batch=batch) if match is not None and rest is not None else None


def _alike(layers: Sequence[Layer], around: Around) -> bool:
    """Those of an attention, each with a result that nobody else takes."""
    first = layers[0].problem
    alone = all(len(list(layer.tail.root.results[0].uses)) == 1 for layer in layers)
    sizes = (around.problem.batch * around.problem.queries, around.problem.heads * around.problem.width)
    return _same(layers) and alone and sizes == (first.m, first.n)


def _same(layers: Sequence[Layer]) -> bool:
    """Of the same rows and sizes, and plain."""
    first = layers[0]
    return all(
        layer.plain
        and layer.rows == first.rows
        and layer.problem == first.problem
        and layer.weights.type == first.weights.type
        and len(layer.tail.channelwise) == len(first.tail.channelwise)
        for layer in layers
    )


def _before_split(value: Any) -> Any:
    """What the heads were split from."""
    split = maker(value, EXPAND)
    return None if split is None else split.operands[0]


def joined_mlir(joins: Sequence[Join]) -> str:
    """A spec that joins layers and does no more."""
    sink = sorted({name for one in joins for name in one.match.sunk})
    return microkernel_mlir("joined", joins=joins, sink=sink, turn=TURN)


def join(module: Any, joins: Sequence[Join]) -> None:
    """Does it, as a spec does before it matches anything else."""
    script = parse(joined_mlir(joins), module.context)
    main = script.body.operations[len(script.body.operations) - 1]
    interpreter.apply_named_sequence(module.operation, main, script)


def is_made_by(problem: Problem, joins: Sequence[Join]) -> bool:
    """It is what layers became that were joined, with any epilogue, or what the attention behind them did."""
    return any(_sums(problem) == _sums(made) for one in joins for made in one.problems)


def _sums(problem: Problem) -> Problem:
    """A product alone."""
    return replace(problem, out="", epilogue=NOTHING) if isinstance(problem, Gemm) else problem
