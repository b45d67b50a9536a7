"""Queries, keys and values as one product: three linear layers of the same rows, whose results an attention takes, are
written as one with all the weights side by side. A kernel for attention can read its parts where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from autotuner.carriers.forms import Join, Match
from autotuner.carriers.grouped import EXPAND
from autotuner.carriers.heads import Around, read_around
from autotuner.carriers.render import microkernel_mlir
from autotuner.carriers.slices import read_slice
from autotuner.carriers.tails import SUM, Tail
from autotuner.iree.mlir import parse
from autotuner.problems import Attention, Gemm, Problem
from autotuner.problems.attention import PACKED, TOKENS_FIRST
from autotuner.problems.epilogue import NOTHING, Epilogue

_PARTS = 3
_NAMED = re.compile(r"(%[\w.$-]+)(:\d+)? = ")


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
        rest = (tail.residual, tail.low, tail.high, tail.activation or None)
        return narrow and fitting and len(biases) <= 1 and rest == (None,) * 4 and self.problem.layout == "nn"


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
    return Join(match, rest, _last(rest), product, packed) if match is not None and rest is not None else None


def _alike(layers: Sequence[Layer], around: Around) -> bool:
    """Of the same rows and sizes, each with a result that nobody else takes."""
    first = layers[0]
    same = all(
        layer.rows == first.rows
        and layer.problem == first.problem
        and layer.weights.type == first.weights.type
        and len(layer.tail.channelwise) == len(first.tail.channelwise)
        for layer in layers
    )
    alone = all(len(list(layer.tail.root.results[0].uses)) == 1 for layer in layers)
    sizes = (around.problem.batch * around.problem.queries, around.problem.heads * around.problem.width)
    return same and alone and first.plain and all(layer.plain for layer in layers) and sizes == (
        first.problem.m,
        first.problem.n,
    )  # fmt: skip


def _before_split(value: Any) -> Any:
    """What the heads were split from."""
    owner = value.owner
    is_split = not isinstance(owner, ir.Block) and owner.operation.name == EXPAND
    return owner.operation.operands[0] if is_split else None


def _last(match: Match) -> str:
    """The name of its result."""
    named = _NAMED.match(match.operations[-1])
    return named.group(1) if named else ""


def joined_mlir(joins: Sequence[Join]) -> str:
    """A spec that joins layers and does no more."""
    return microkernel_mlir("joined", joins=joins, sink=sorted({name for one in joins for name in one.match.sunk}))


def join(module: Any, joins: Sequence[Join]) -> None:
    """Does it, as a spec does before it matches anything else."""
    script = parse(joined_mlir(joins), module.context)
    main = script.body.operations[len(script.body.operations) - 1]
    interpreter.apply_named_sequence(module.operation, main, script)


def is_made_by(problem: Problem, joins: Sequence[Join]) -> bool:
    """It is what layers became that were joined, with any epilogue, or what the attention behind them did."""
    return any(_sums(problem) in (_sums(one.product), one.attention) for one in joins)


def _sums(problem: Problem) -> Problem:
    """A product alone."""
    return replace(problem, out="", epilogue=NOTHING) if isinstance(problem, Gemm) else problem
