"""The products, convolutions and attentions of a program, as the problems that microkernels are made for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from autotuner.carriers import attention
from autotuner.carriers.calls import described
from autotuner.carriers.flat import is_or_becomes, shared_matrix
from autotuner.carriers.forms import ATTENTION, PAD, Forms, Join, Pad, is_main, prepare, read_forms, read_pads
from autotuner.carriers.gates import read_gated
from autotuner.carriers.grouped import Grouped, read_grouped
from autotuner.carriers.heads import read_around
from autotuner.carriers.joining import Layer, is_made_by, join, read_gated_join, read_join
from autotuner.carriers.microkernel import DETACH
from autotuner.carriers.norms import read_norm, with_norm
from autotuner.carriers.render import problem_mlir
from autotuner.carriers.slices import read_slice
from autotuner.carriers.sources import FILL, before_pad, is_constant, is_float, start_of, starts_from_zero
from autotuner.carriers.tails import Tail, read_tails
from autotuner.errors import AutotuneError
from autotuner.iree.mlir import Dispatch, dispatch_of, maker, map_positions, parse, walk
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.accuracy import Precision
from autotuner.problems.dtypes import ACCUMULATORS, ROUNDED
from autotuner.problems.epilogue import NOTHING, Epilogue

_NUMBER = "number"
_BENT = ("math.exp", "math.erf", "math.tanh")
"""What the activation of a gate has."""
_PRODUCT = "matmul"
"""What layers are, as exporters write them; a gate has another one beside it."""
_F8 = ("f8E4M3FN", "f8E4M3FNUZ")
_IMAGE_RANK = 4


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


def forms_of(readings: Iterable[Reading]) -> Forms:
    """All the forms that these readings of one problem have."""
    given = list(readings)
    forms = [reading.forms or read_forms(reading.problem) for reading in given]
    return Forms(
        tuple(dict.fromkeys(match for one in forms for match in one.matches)),
        tuple(dict.fromkeys(pad for one in forms for pad in one.pads)),
        any(one.detached for one in forms),
        tuple(dict.fromkeys(join for one in forms for join in one.joins)),
    )


@lru_cache(maxsize=8)
def read_operations(text: str, *, joins: tuple[Join, ...] = ()) -> tuple[Operation, ...]:
    """All of a program as `preprocess` prints it, with these layers joined.

    A run asks more than once: of a ResNet-50 it takes six seconds.
    """
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        if joins:
            join(module, joins)
        mains, masks = [], attention.Masks()
        for number, op in enumerate(op for op in walk(module.operation) if is_main(op)):
            mains.append(_Main.read(op, masks))
            # Weights are elided in the text: without numbers two operations that differ in nothing else become one.
            op.attributes[_NUMBER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), number)
        detached = any(main.detachable for main in mains)
        _prepare(module, list(dict.fromkeys(pad for main in mains for pad in main.pads)), detached=detached)
        there = [op for op in walk(module.operation) if is_main(op)]
        for op in there:
            del op.attributes[_NUMBER]
        taken: set[Any] = set()
        pairs = list(zip(mains, there, strict=True))
        # What adds two of them goes with the later one: the other is its residual.
        found = [
            Operation(main.words, tuple(_readings(op, main, taken, detached=detached))) for main, op in reversed(pairs)
        ]
        return tuple(_with_joins(operation, joins) for operation in reversed(found))


@lru_cache(maxsize=8)
def read_joins(text: str) -> tuple[Join, ...]:
    """All that could be joined in a program: the linear layers before its attentions, and those of gates."""
    gates = any(word in text for word in _BENT) and text.count(_PRODUCT) > 1
    if ATTENTION not in text and not gates:
        return ()  # to look for them takes seconds in a ResNet-50
    with ir.Context() as context:
        module = parse(text, context)
        prepare(module)
        mains, masks = [op for op in walk(module.operation) if is_main(op)], attention.Masks()
        layers = {layer.tail.root.results[0]: layer for op in mains for layer in _layers(op, masks)}
        readings = [(op, p) for op in mains for p in _Main.read(op, masks).problems if isinstance(p, Attention)]
        found = [read_join(op, problem, layers) for op, problem in readings]
        found += [read_gated_join(layer, layers) for layer in layers.values()]
        return tuple(dict.fromkeys(one for one in found if one is not None))


def _layers(op: Any, masks: attention.Masks) -> Iterator[Layer]:
    """A product of constant weights, with more and more of its epilogue."""
    if op.name == ATTENTION or not is_float(op) or not starts_from_zero(op):
        return
    for problem in _Main.read(op, masks).problems:
        if not isinstance(problem, Gemm) or problem.batch > 1:
            continue
        weights = _weights(op, problem, None)
        for tail in read_tails(Tail(op), channel=_channel(op, problem)):
            if all(is_constant(value) for value in (weights, *(value for _, value in tail.channelwise))):
                yield Layer(problem, op.operands[0], weights, tail)


def _with_joins(operation: Operation, joins: tuple[Join, ...]) -> Operation:
    """What became of layers that were joined, and of the attention behind them, is found only where they are."""
    readings = (
        replace(one, forms=replace(one.forms, joins=joins)) if one.forms and is_made_by(one.problem, joins) else one
        for one in operation.readings
    )
    return replace(operation, readings=tuple(readings))


@dataclass(frozen=True)
class _Main:
    """A main operation as the program has it, before it is prepared for matchers."""

    words: str
    problems: tuple[Problem, ...]
    pads: tuple[Pad, ...]
    detachable: bool
    """It starts from something that is computed: a bias, mostly."""

    @classmethod
    def read(cls, op: Any, masks: attention.Masks) -> _Main:
        problems = tuple(p for p in _problems(op, masks) if _is_flat(op, p) or _same_operation(op, p))
        start = start_of(op)
        computed = start is not None and start.name.startswith("linalg.") and start.name != FILL
        grouped = read_grouped(op, channel=_channel(op, problems[0])) if problems and _is_grouped(problems[0]) else None
        padded = op if grouped is None else grouped.expansion
        pads = read_pads(padded) if problems and op.name != ATTENTION else ()
        return cls(described(op), problems, pads, bool(problems) and computed)


def _prepare(module: Any, pads: Sequence[Pad], *, detached: bool) -> None:
    """What a spec does to the program before it matches anything."""
    prepare(module, pads=pads, detach=DETACH if detached else "")


def _readings(op: Any, main: _Main, taken_away: set[Any], *, detached: bool) -> Iterator[Reading]:
    """Each problem with all of the epilogue that it can have, then with less of it; none ends with an operation that is
    taken away, and their own are added to these."""
    tails: list[Tail] = []
    for problem in main.problems:
        if isinstance(problem, Attention):
            for around in read_around(op, problem):
                wide = read_slice(around.root, around.inputs)
                if wide is not None:
                    yield Reading(around.problem, Forms((wide,)))
            match = read_slice(op, list(op.operands)[:3])
            if match is not None or not problem.causal:  # the template has but one of the masks that are causal
                yield Reading(problem, Forms((match,)) if match is not None else None)
            continue
        channel = _channel(op, problem)
        grouped = read_grouped(op, channel=channel) if _is_grouped(problem) else None
        biased = grouped is not None and bool(grouped.tail.channelwise)
        if not isinstance(problem, (Gemm, Conv)) or not is_float(op) or not (biased or starts_from_zero(op)):
            yield Reading(problem, None)
            continue
        if _is_grouped(problem) and grouped is None:
            continue
        padded = isinstance(problem, Conv) and any(problem.pad)
        image = grouped.image if grouped is not None else op.operands[0]
        image = before_pad(image) if padded else image
        weights = _weights(op, problem, grouped)
        split = grouped is not None and str(weights.type) != problem.operands[1].mlir
        flat = split or _is_flat(op, problem)
        start = Tail(op) if grouped is None else grouped.tail
        tails = [t for t in read_tails(start, channel=channel) if t.root not in taken_away]
        gated = read_gated(op) if isinstance(problem, Gemm) and not flat and problem.batch == 1 else None
        match = None if gated is None else read_slice(gated.root, (image, weights))
        normable = isinstance(problem, Gemm) and problem.takes_norms and is_constant(weights)
        norm = read_norm(image) if normable else None
        if gated is not None and match is not None:
            epilogue = Epilogue(activation=gated.activation, gated=True)
            gating = replace(problem, out=gated.rounded, epilogue=epilogue)
            if (normed := with_norm(gating, norm, gated.root, (weights,))) is not None:
                yield Reading(normed[0], Forms((normed[1],), (), detached), constant=True)
            yield Reading(gating, Forms((match,)), is_constant(weights))
        for tail in tails if image is not None else ():
            taken = _with_tail(problem, tail, constant=all(is_constant(value) for _, value in tail.channelwise))
            if (normed := with_norm(taken, norm, tail.root, (weights, *tail.inputs))) is not None:
                yield Reading(normed[0], Forms((normed[1],), (), detached), constant=True)
            match = read_slice(tail.root, (image, weights, *tail.inputs)) if taken is not None else None
            if taken is not None and match is not None:
                match = replace(match, channelwise=tail.folded, flat=flat)
                forms = Forms((match,), main.pads if padded else (), detached)
                yield Reading(taken, forms, is_constant(op.operands[1]))
    taken_away.update(tail.root for tail in tails)


def _is_grouped(problem: Problem) -> bool:
    return isinstance(problem, Conv) and problem.groups > 1 and not problem.depthwise


def _weights(op: Any, problem: Gemm | Conv, grouped: Grouped | None) -> Any:
    """What is multiplied with, before it is copied for each entry of a batch, or split into groups."""
    if grouped is not None:
        return grouped.weights
    return shared_matrix(op) if _is_flat(op, problem) else op.operands[1]


def _channel(op: Any, problem: Problem) -> int:
    """The dimension of the result that a bias has."""
    if isinstance(problem, Conv):
        return 3 if problem.channels_last else 1
    return int(ir.ShapedType(op.results[0].type).rank) - 1


def _is_flat(op: Any, problem: Problem) -> bool:
    """The problem has the rows of all entries of a batch as those of one product."""
    return isinstance(problem, Gemm) and problem.batch == 1 and shared_matrix(op) is not None


def _with_tail(problem: Gemm | Conv, tail: Tail, *, constant: bool) -> Problem | None:
    """The problem with this epilogue; None where it cannot have it, or would have to fold its weights at every call."""
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
    fitting = all(is_or_becomes(value.type, operand) for value, operand in zip(plain, own, strict=True))
    return taken if fitting else None


def _problems(op: Any, masks: attention.Masks) -> Iterator[Problem]:
    types = [str(value.type) for value in op.operands]
    if any("?" in type for type in types):
        return
    if op.name == ATTENTION:
        yield from attention.read_attention(op, _dtype(str(ir.ShapedType(op.operands[0].type).element_type)), masks)
        return
    dispatch = dispatch_of(op)
    if dispatch is None or dispatch.element_types[0] != dispatch.element_types[1]:
        return
    try:
        found = _gemm(dispatch) if dispatch.kind == "contraction" else None
        if found is not None:
            if shared_matrix(op) is not None and found.layout[0] == "n":
                yield replace(found, m=found.batch * found.m, batch=1)
            if found.batch > 1 or shared_matrix(op) is None:
                yield found
        elif dispatch.kind == "convolution":
            yield from _convolutions(op, dispatch)
    except AutotuneError:
        return  # sizes beyond what a problem may have


def _gemm(dispatch: Dispatch) -> Gemm | None:
    batch, m, n, k = (dispatch.dims(role) for role in ("batch", "m", "n", "k"))
    dtype, acc = _dtype(dispatch.element_types[0]), dispatch.element_types[-1]
    if len(batch) > 1 or any(len(dims) != 1 for dims in (m, n, k)) or acc not in ACCUMULATORS.get(dtype, ()):
        return None
    lhs, rhs = (map_positions(text)[-2:] for text in dispatch.maps[:2])
    gemm = Gemm.parse(
        shape="x".join(str(dispatch.loops[d]) for d in (*m, *n, *k)),
        dtype=dtype,
        batch=dispatch.loops[batch[0]] if batch else 1,
        acc=acc,
        layout=("n" if lhs == [*m, *k] else "t") + ("n" if rhs == [*k, *n] else "t"),
    )
    return gemm if dtype != "f8" else gemm.with_f8(dispatch.element_types[0])


def _convolutions(op: Any, dispatch: Dispatch) -> Iterator[Conv]:
    sizes = {role: dispatch.sizes(role) for role in ("batch", "image", "channel", "filter", "input", "depth")}
    spatial = all(len(sizes[role]) == 2 for role in ("image", "filter")) and len(sizes["batch"]) == 1
    dtype = _dtype(dispatch.element_types[0])
    # Depthwise filters have no channels of their own; what is grouped has them beside a dimension for the groups.
    full = len(sizes["channel"]) == len(sizes["input"]) == 1 and len(sizes["depth"]) <= 1
    depthwise = len(sizes["depth"]) == 1 and not sizes["channel"] and not sizes["input"]
    if not spatial or not (full or depthwise) or dispatch.element_types[-1] != ACCUMULATORS.get(dtype, ("",))[0]:
        return
    channels_last = dispatch.outputs[0] == (
        *dispatch.dims("batch"),
        *dispatch.dims("image"),
        *dispatch.dims("depth"),
        *dispatch.dims("channel"),
    )
    axes = (1, 2) if channels_last else (2, 3)
    for shape, pad in _images(op, axes):
        conv = Conv.parse(
            shape="x".join(map(str, (shape[0], shape[axes[0]], shape[axes[1]], shape[3 if channels_last else 1]))),
            filter="x".join(map(str, (*sizes["filter"], math.prod((*sizes["channel"], *sizes["depth"]))))),
            stride="x".join(map(str, dispatch.strides)),
            dilation="x".join(map(str, dispatch.dilations)),
            pad="x".join(map(str, pad)),
            groups=math.prod(sizes["depth"]),
            dtype=dtype,
            layout="nhwc-hwcf" if channels_last else "nchw-fchw",
        )
        yield conv if dtype != "f8" else conv.with_f8(dispatch.element_types[0])


def _images(op: Any, axes: tuple[int, int]) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
    """The image's sizes and its padding: before it is padded, where that can be part of a problem, and after."""
    grouped = read_grouped(op, channel=6 - sum(axes))
    image = op.operands[0] if grouped is None else grouped.image
    if ir.ShapedType(image.type).rank != _IMAGE_RANK:
        return
    pad = maker(image, PAD)
    if pad is not None:
        low, high = (list(pad.attributes[name]) for name in ("static_low", "static_high"))
        elsewhere = [size for axis, size in enumerate(low) if axis not in axes]
        source = ir.ShapedType(pad.operands[0].type)
        if low == high and not any(elsewhere) and min(low) >= 0 and source.has_static_shape:
            yield tuple(source.shape), (low[axes[0]], low[axes[1]])
    yield tuple(ir.ShapedType(image.type).shape), (0, 0)


def _dtype(element: str) -> str:
    return "f8" if element in _F8 else element


def _same_operation(op: Any, problem: Problem) -> bool:
    """Is the main operation of this problem, as its own template writes it, of the same types and maps?"""
    name, signature = _own_operation(problem)
    # Of a convolution the name says what it does with the numbers; a pooling has the same maps.
    return bool(op.name == name or linalg.isa_contraction_op(op)) and _signature(op) == signature


@lru_cache(maxsize=1024)
def _own_operation(problem: Problem) -> tuple[str, tuple[object, ...]]:
    with ir.Context() as context:
        module = parse(problem_mlir(problem), context)
        own = next(op for op in walk(module.operation) if is_main(op))
        return own.name, _signature(own)


def _signature(op: Any) -> tuple[object, ...]:
    if op.name == ATTENTION:
        return attention.signature(op)
    types = tuple(str(value.type) for value in op.operands)
    dispatch = dispatch_of(op)
    if dispatch is not None and dispatch.kind == "contraction" and is_float(op):
        return (*types, _in_order(dispatch.maps))  # what it is matched with is read from the program itself
    return (*types, dispatch.maps if dispatch else (), dispatch.strides if dispatch else ())


def _in_order(maps: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The maps of a product with its loops counted as its result has them, whatever their order is.

    A decomposed attention has its sum between the loops of the result.
    """
    *factors, result = map(map_positions, maps)
    numbers = {loop: number for number, loop in enumerate(dict.fromkeys([*result, *factors[0]]))}
    return tuple(tuple(numbers.get(loop, -1) for loop in positions) for positions in (*factors, result))
