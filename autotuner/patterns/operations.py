"""The replaceable operations of a program, each with all problems that it matches.

A main operation is a `Site`. Each `Pattern` matches it with its surroundings: transposes of heads, a gate, an epilogue,
or nothing. A new pattern is a class with `match`, listed in `PATTERNS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

from iree.compiler import ir

from autotuner.iree.mlir import maker, parse, walk
from autotuner.patterns import graph, ops
from autotuner.patterns.attention import Masks, read_around
from autotuner.patterns.epilogues import Tail, read_tails
from autotuner.patterns.forms import Forms, Join, Pad, prepare, read_forms, read_pads
from autotuner.patterns.joins import GatedLayers, Layer, QueriesKeysValues, is_made_by, join, read_gated
from autotuner.patterns.mains import Grouped, channel_of, is_flat, read_grouped, read_problems
from autotuner.patterns.slices import read_slice
from autotuner.patterns.unfused import read_unfused
from autotuner.problems import Gemm, Operand, Problem
from autotuner.problems.accuracy import Precision
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.dtypes import ROUNDED
from autotuner.problems.epilogue import NOTHING, Epilogue

_NUMBER = "number"
_NONLINEAR = ("math.exp", "math.erf", "math.tanh")
"""Operations in the activation of a gate."""
_PRODUCT = "matmul"
"""The operation of a linear layer, as exporters write it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An operation with its surroundings, as a problem."""

    problem: Problem
    forms: Forms | None
    """The forms in the program; None: those of the problem's own template."""
    constant: bool = False
    """Its second operand is constant, so weights are transformed at compile time."""
    covers: tuple[int, ...] = ()
    """The places of other operations of the program that it includes."""

    @property
    def bare(self) -> Problem:
        """The problem without its epilogue, and without transposes of heads."""
        problem = self.problem
        if isinstance(problem, Attention):
            return problem.heads_first
        return replace(problem, epilogue=NOTHING) if isinstance(problem, (Gemm, Conv)) else problem


@dataclass(frozen=True, slots=True)
class Operation:
    """One replaceable operation."""

    text: str
    """The operation in words, with types."""
    readings: tuple[Reading, ...]
    """Its readings, the largest first: with padding and epilogue, and without."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(reading.problem for reading in self.readings)

    def accepting(self, precision: Precision) -> Operation:
        """The operation with results of that precision accepted, where it is below its types'."""
        return replace(self, readings=tuple(replace(r, problem=r.problem.accepting(precision)) for r in self.readings))


@dataclass(frozen=True)
class Site:
    """A main operation in a prepared program, as one of the problems that it is by itself."""

    op: Any
    problem: Problem
    pads: tuple[Pad, ...] = ()
    detached: bool = False
    taken: frozenset[Any] = field(default_factory=frozenset)
    """Operations that belong to other sites."""
    places: Mapping[Any, int] = field(default_factory=dict)
    """The places of the program's main operations."""

    @property
    def split(self) -> bool:
        """Whether its channels are split into groups."""
        return isinstance(self.problem, Conv) and self.problem.groups > 1 and not self.problem.depthwise

    @cached_property
    def grouped(self) -> Grouped | None:
        """Its surroundings as a grouped convolution; None where it is not grouped, or not as importers write it."""
        return read_grouped(self.op, channel=channel_of(self.op, self.problem)) if self.split else None

    @property
    def started(self) -> bool:
        """Whether float sums start from zero or from a bias, so that an epilogue can be part of the problem."""
        biased = self.grouped is not None and bool(self.grouped.tail.channelwise)
        return graph.is_float(self.op) and (biased or graph.is_zeros(ops.start_of(self.op)))

    @cached_property
    def tails(self) -> tuple[Tail, ...]:
        """Its epilogues, the longest first."""
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
        """The weights, before they are copied for each batch entry or split into groups."""
        if self.grouped is not None:
            return self.grouped.weights
        return graph.shared_matrix(self.op) if is_flat(self.op, self.problem) else self.op.operands[1]

    @property
    def flat(self) -> bool:
        """Whether the program has a batch dimension that the problem lacks."""
        split = self.grouped is not None and str(self.weights.type) != self.problem.operands[1].mlir
        return split or is_flat(self.op, self.problem)


class Pattern(Protocol):
    """Recognises one kind of surroundings."""

    def match(self, site: Site) -> Iterator[Reading]:
        """The readings of a site, the largest first; none where it does not match."""
        ...


class MovedHeads:
    """An attention with the transposes that move its heads before the tokens and back."""

    def match(self, site: Site) -> Iterator[Reading]:
        if isinstance(site.problem, Attention):
            for around in read_around(site.op, site.problem):
                match = read_slice(around.root, around.inputs)
                if match is not None:
                    yield Reading(around.problem, Forms((match,)))


class UnfusedAttention:
    """The second product of an attention that is not one operation, with all from before its heads are moved."""

    def match(self, site: Site) -> Iterator[Reading]:
        if _may_be_unfused(site):
            found, scores = read_unfused(site.op)
            covers = (site.places[scores],) if scores in site.places else ()
            for around in found:
                match = read_slice(around.root, around.inputs)
                if match is not None:
                    yield Reading(around.problem, Forms((match,)), covers=covers)


def _may_be_unfused(site: Site) -> bool:
    problem = site.problem
    return isinstance(problem, Gemm) and problem.layout == "nn" and site.started and not site.flat


class Bare:
    """An operation alone: an attention, or an integer or accumulating product in its template's form."""

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
                split = graph.rank(tail.root.results[0]) > graph.rank(site.op.results[0])
                match = replace(match, channelwise=tail.folded, flat=site.flat or split)
                forms = Forms((match,), site.pads if site.padded else (), site.detached)
                yield Reading(whole, forms, graph.is_constant(site.op.operands[1]))


PATTERNS: tuple[Pattern, ...] = (MovedHeads(), UnfusedAttention(), Bare(), GatedProduct(), WithEpilogue())
"""The patterns of a main operation, the largest first."""


def _with_tail(problem: Gemm | Conv, tail: Tail) -> Gemm | Conv | None:
    """The problem with this epilogue; None where it cannot have it, or weights would be folded at every call."""
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
    """Whether a tensor is the operand, perhaps after its first dimensions are merged."""
    sizes = graph.merged(graph.shape(value), len(operand.shape))
    return graph.element(value) == operand.element.mlir and list(operand.shape) == sizes


def forms_of(readings: Iterable[Reading]) -> Forms:
    """The forms of these readings of one problem."""
    forms = [reading.forms or read_forms(reading.problem) for reading in readings]
    return Forms(
        tuple(dict.fromkeys(match for one in forms for match in one.matches)),
        tuple(dict.fromkeys(pad for one in forms for pad in one.pads)),
        any(one.detached for one in forms),
        tuple(dict.fromkeys(join for one in forms for join in one.joins)),
    )


@dataclass(frozen=True)
class _Main:
    """A main operation in the program, before it is prepared for matchers."""

    words: str
    problems: tuple[Problem, ...]
    pads: tuple[Pad, ...]
    detachable: bool
    """Its sums start from a computed value, mostly a bias."""

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
    """The replaceable operations of a preprocessed program, with these layers joined.

    The result is cached: for a ResNet-50 it takes six seconds.
    """
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        if joins:
            join(module, joins)
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
        places = {op: place for place, op in enumerate(there)}
        taken: frozenset[Any] = frozenset()
        # What adds two of them goes with the later one: the other is its residual.
        for main, op in reversed(list(zip(mains, there, strict=True))):
            sites = [Site(op, problem, main.pads, detached, taken, places) for problem in main.problems]
            readings = [r for site in sites for pattern in PATTERNS for r in pattern.match(site)]
            taken |= {tail.root for site in sites for tail in site.tails}
            found.append(Operation(main.words, tuple(_with_joins(reading, joins) for reading in readings)))
        return tuple(reversed(found))


def _with_joins(reading: Reading, joins: tuple[Join, ...]) -> Reading:
    """The reading of joined layers, or of the attention that follows them, with its join."""
    forms = reading.forms
    if forms is None or not is_made_by(reading.problem, joins):
        return reading
    return replace(reading, forms=replace(forms, joins=joins))


@lru_cache(maxsize=8)
def read_joins(text: str) -> tuple[Join, ...]:
    """The linear layers of a program that can be joined: those before attentions, and those of gates."""
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
        found = [one for site in sites if _is_attention(site) for one in three.match(site.op, site.problem)]
        found += [one for layer in layers.values() for one in gate.match(layer)]
        return tuple(dict.fromkeys(found))


def _is_attention(site: Site) -> bool:
    """Whether an attention may end there, as one operation or as the second of two products."""
    return isinstance(site.problem, Attention) or _may_be_unfused(site)


def _layers(site: Site) -> Iterator[Layer]:
    """A product with constant weights as a layer, with ever longer epilogues."""
    if not isinstance(site.problem, Gemm) or site.problem.batch > 1:
        return
    for tail in site.tails:
        if all(graph.is_constant(value) for value in (site.weights, *(value for _, value in tail.channelwise))):
            yield Layer(site.problem, site.op.operands[0], site.weights, tail)
