"""The operations of a program that could be replaced, each with all that it can be taken for.

A main operation is a `Site`. Each `Pattern` is asked what it sees there: the operation with what moves its heads, with
a gate, with an epilogue, or alone. A new pattern is a class with `match`, listed in `PATTERNS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

from iree.compiler import ir

from autotuner.iree.mlir import maker, parse, walk
from autotuner.patterns import graph, ops
from autotuner.patterns.attention import Masks, read_around
from autotuner.patterns.epilogues import Tail, read_tails
from autotuner.patterns.forms import Forms, Join, Pad, apply_script, prepare, read_forms, read_pads
from autotuner.patterns.joins import GatedLayers, Layer, QueriesKeysValues, is_made_by, joined_mlir, read_gated
from autotuner.patterns.mains import Grouped, channel_of, is_flat, read_grouped, read_problems
from autotuner.patterns.slices import read_slice
from autotuner.problems import Gemm, Operand, Problem
from autotuner.problems.accuracy import Precision
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.dtypes import ROUNDED
from autotuner.problems.epilogue import NOTHING, Epilogue

_NUMBER = "number"
_NONLINEAR = ("math.exp", "math.erf", "math.tanh")
"""What the activation of a gate has."""
_PRODUCT = "matmul"
"""What layers are, as exporters write them; a gate has another one beside it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An operation, with what comes before and behind it, as a problem."""

    problem: Problem
    forms: Forms | None
    """As the program has it; None: as the problem's own template writes it."""
    constant: bool = False
    """Its second operand is known before the program runs: what is done to weights is done once."""

    @property
    def bare(self) -> Problem:
        """The problem without its epilogue, or without what moves its heads."""
        problem = self.problem
        if isinstance(problem, Attention):
            return problem.heads_first
        return replace(problem, epilogue=NOTHING) if isinstance(problem, (Gemm, Conv)) else problem


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that could be replaced."""

    text: str
    """What it is, with types."""
    readings: tuple[Reading, ...]
    """What it can be taken for, the largest first: with its padding and its epilogue, and without."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(reading.problem for reading in self.readings)

    def accepting(self, precision: Precision) -> Operation:
        """With results of that accuracy accepted, where its types leave something to give away."""
        return replace(self, readings=tuple(replace(r, problem=r.problem.accepting(precision)) for r in self.readings))


@dataclass(frozen=True)
class Site:
    """A main operation in a program that is prepared for matchers, as one of the problems that it is by itself."""

    op: Any
    problem: Problem
    pads: tuple[Pad, ...] = ()
    detached: bool = False
    taken: frozenset[Any] = field(default_factory=frozenset)
    """Operations that belong to another site: none of this one ends with them."""

    @property
    def split(self) -> bool:
        """Its channels are in groups."""
        return isinstance(self.problem, Conv) and self.problem.groups > 1 and not self.problem.depthwise

    @cached_property
    def grouped(self) -> Grouped | None:
        """What it is between; None where its channels are not in groups, or not as importers split them."""
        return read_grouped(self.op, channel=channel_of(self.op, self.problem)) if self.split else None

    @property
    def started(self) -> bool:
        """Sums of floats start from zero, or from a bias: what follows them can be computed with them."""
        biased = self.grouped is not None and bool(self.grouped.tail.channelwise)
        return graph.is_float(self.op) and (biased or graph.is_zeros(ops.start_of(self.op)))

    @cached_property
    def tails(self) -> tuple[Tail, ...]:
        """What follows it and can be computed with it, the longest first."""
        start = Tail(self.op) if self.grouped is None else self.grouped.tail
        if self.op.name == ops.ATTENTION or not self.started:
            return ()
        found = read_tails(start, channel=channel_of(self.op, self.problem))
        return tuple(tail for tail in found if tail.root not in self.taken)

    @property
    def padded(self) -> bool:
        return isinstance(self.problem, Conv) and any(self.problem.pad)

    @property
    def image(self) -> Any:
        """The first operand, before it is padded or split into groups."""
        image = self.op.operands[0] if self.grouped is None else self.grouped.image
        return graph.before_pad(image) if self.padded else image

    @property
    def weights(self) -> Any:
        """What is multiplied with, before it is copied for each entry of a batch, or split into groups."""
        if self.grouped is not None:
            return self.grouped.weights
        return graph.shared_matrix(self.op) if is_flat(self.op, self.problem) else self.op.operands[1]

    @property
    def flat(self) -> bool:
        """The program has more dimensions than the problem."""
        split = self.grouped is not None and str(self.weights.type) != self.problem.operands[1].mlir
        return split or is_flat(self.op, self.problem)


class Pattern(Protocol):
    """Recognises one kind of thing that a program does."""

    def match(self, site: Site) -> Iterator[Reading]:
        """The site with what is around it, the largest first; nothing where it is something else."""
        ...


class MovedHeads:
    """An attention with the transposes that move its heads before the tokens and back."""

    def match(self, site: Site) -> Iterator[Reading]:
        if isinstance(site.problem, Attention):
            for around in read_around(site.op, site.problem):
                match = read_slice(around.root, around.inputs)
                if match is not None:
                    yield Reading(around.problem, Forms((match,)))


class Bare:
    """An operation without what follows it: an attention; a product of whole numbers, or one that adds to something, as
    its template has it."""

    def match(self, site: Site) -> Iterator[Reading]:
        if isinstance(site.problem, Attention):
            match = read_slice(site.op, list(site.op.operands)[:3])
            if match is not None or not site.problem.causal:  # the template has but one of the masks that are causal
                yield Reading(site.problem, Forms((match,)) if match is not None else None)
        elif not site.started:
            yield Reading(site.problem, None)


class GatedProduct:
    """A product of which half the columns are gates."""

    def match(self, site: Site) -> Iterator[Reading]:
        problem = site.problem
        if not isinstance(problem, Gemm) or problem.batch > 1 or site.flat or not site.tails:
            return
        gate = read_gated(site.op)
        match = None if gate is None else read_slice(gate.root, (site.image, site.weights))
        if gate is not None and match is not None:
            epilogue = Epilogue(activation=gate.activation, gated=True)
            gating = replace(problem, out=gate.rounded, epilogue=epilogue)
            yield Reading(gating, Forms((match,)), graph.is_constant(site.weights))


class WithEpilogue:
    """A product or a convolution with its longest epilogue, then with shorter ones."""

    def match(self, site: Site) -> Iterator[Reading]:
        problem = site.problem
        if not isinstance(problem, (Gemm, Conv)) or site.image is None or (site.split and site.grouped is None):
            return
        for tail in site.tails:
            whole = _with_tail(problem, tail)
            match = None if whole is None else read_slice(tail.root, (site.image, site.weights, *tail.inputs))
            if whole is not None and match is not None:
                match = replace(match, channelwise=tail.folded, flat=site.flat)
                forms = Forms((match,), site.pads if site.padded else (), site.detached)
                yield Reading(whole, forms, graph.is_constant(site.op.operands[1]))


PATTERNS: tuple[Pattern, ...] = (MovedHeads(), Bare(), GatedProduct(), WithEpilogue())
"""All that is recognised around a main operation, the largest first."""


def _with_tail(problem: Gemm | Conv, tail: Tail) -> Gemm | Conv | None:
    """The problem with this epilogue; None where it cannot have it, or would have to fold its weights at every call."""
    constant = all(graph.is_constant(value) for _, value in tail.channelwise)
    if tail.folded and (tail.rounded or not constant or not isinstance(problem, Conv) or problem.dtype != "f32"):
        return None
    epilogue = Epilogue(bool(tail.channelwise), tail.residual is not None, tail.low, tail.high, tail.activation)
    if tail.rounded and (tail.rounded not in ROUNDED or problem.types[1] != "f32"):
        return None
    taken = replace(problem, out=tail.rounded or problem.out, epilogue=epilogue)
    # What is added to a rounded product has its narrow type, what is added to a convolution the type of the sums.
    plain, own = tail.inputs, taken.operands[2:-1]
    if tail.folded:  # of which any shape can be made a bias
        plain, own = plain[len(tail.channelwise) :], own[1:]
    fitting = all(_is_or_becomes(value, operand) for value, operand in zip(plain, own, strict=True))
    return taken if fitting else None


def _is_or_becomes(value: Any, operand: Operand) -> bool:
    """A tensor is the operand, or is it once its first two dimensions are one."""
    sizes = graph.shape(value)
    return graph.element(value) == operand.element.mlir and list(operand.shape) in (sizes, graph.merged(sizes))


def forms_of(readings: Iterable[Reading]) -> Forms:
    """All the forms that these readings of one problem have."""
    forms = [reading.forms or read_forms(reading.problem) for reading in readings]
    return Forms(
        tuple(dict.fromkeys(match for one in forms for match in one.matches)),
        tuple(dict.fromkeys(pad for one in forms for pad in one.pads)),
        any(one.detached for one in forms),
        tuple(dict.fromkeys(join for one in forms for join in one.joins)),
    )


@dataclass(frozen=True)
class _Main:
    """A main operation as the program has it, before it is prepared for matchers."""

    words: str
    problems: tuple[Problem, ...]
    pads: tuple[Pad, ...]
    detachable: bool
    """It starts from something that is computed: a bias, mostly."""

    @classmethod
    def read(cls, op: Any, masks: Masks) -> _Main:
        problems = tuple(read_problems(op, masks))
        start = maker(ops.start_of(op))
        computed = start is not None and start.name.startswith("linalg.") and start.name != graph.FILL
        grouped = Site(op, problems[0]).grouped if problems else None
        padded = op if grouped is None else grouped.expansion
        pads = read_pads(padded) if problems and op.name != ops.ATTENTION else ()
        return cls(ops.described(op), problems, pads, bool(problems) and computed)


@lru_cache(maxsize=8)
def read_operations(text: str, *, joins: tuple[Join, ...] = ()) -> tuple[Operation, ...]:
    """All of a program as `preprocess` prints it, with these layers joined.

    A run asks more than once: of a ResNet-50 it takes six seconds.
    """
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        if joins:
            apply_script(module, joined_mlir(joins))  # as a spec does before it matches anything else
        mains, masks = [], Masks()
        for number, op in enumerate(op for op in walk(module.operation) if ops.is_main(op)):
            mains.append(_Main.read(op, masks))
            # Weights are elided in the text: without numbers two operations that differ in nothing else become one.
            op.attributes[_NUMBER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), number)
        detached = any(main.detachable for main in mains)
        prepare(module, pads=list(dict.fromkeys(pad for main in mains for pad in main.pads)), detached=detached)
        there = [op for op in walk(module.operation) if ops.is_main(op)]
        for op in there:
            del op.attributes[_NUMBER]
        found: list[Operation] = []
        taken: frozenset[Any] = frozenset()
        # What adds two of them goes with the later one: the other is its residual.
        for main, op in reversed(list(zip(mains, there, strict=True))):
            sites = [Site(op, problem, main.pads, detached, taken) for problem in main.problems]
            readings = [r for site in sites for pattern in PATTERNS for r in pattern.match(site)]
            taken |= {tail.root for site in sites for tail in site.tails}
            found.append(Operation(main.words, tuple(_with_joins(reading, joins) for reading in readings)))
        return tuple(reversed(found))


def _with_joins(reading: Reading, joins: tuple[Join, ...]) -> Reading:
    """What became of layers that were joined, and of the attention behind them, is found only where they are."""
    forms = reading.forms
    if forms is None or not is_made_by(reading.problem, joins):
        return reading
    return replace(reading, forms=replace(forms, joins=joins))


@lru_cache(maxsize=8)
def read_joins(text: str) -> tuple[Join, ...]:
    """All that could be joined in a program: the linear layers before its attentions, and those of gates."""
    gates = any(word in text for word in _NONLINEAR) and text.count(_PRODUCT) > 1
    if ops.ATTENTION not in text and not gates:
        return ()  # to look for them takes seconds in a ResNet-50
    with ir.Context() as context:
        module = parse(text, context)
        prepare(module)
        masks = Masks()
        mains = [(op, tuple(read_problems(op, masks))) for op in walk(module.operation) if ops.is_main(op)]
        sites = [Site(op, problem) for op, problems in mains for problem in problems]
        layers = {layer.result: layer for site in sites for layer in _layers(site)}
        three, gate = QueriesKeysValues(layers), GatedLayers(layers)
        found = [one for s in sites if isinstance(s.problem, Attention) for one in three.match(s.op, s.problem)]
        found += [one for layer in layers.values() for one in gate.match(layer)]
        return tuple(dict.fromkeys(found))


def _layers(site: Site) -> Iterator[Layer]:
    """A product of constant weights, with more and more of its epilogue."""
    if not isinstance(site.problem, Gemm) or site.problem.batch > 1:
        return
    for tail in site.tails:
        if all(graph.is_constant(value) for value in (site.weights, *(value for _, value in tail.channelwise))):
            yield Layer(site.problem, site.op.operands[0], site.weights, tail)
