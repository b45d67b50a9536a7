"""The forms of a problem in a program: the operations that a kernel replaces."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from autotuner.iree.mlir import maker, parse, walk
from autotuner.patterns.ops import ATTENTION, CONSTANT, GENERIC, PAD, is_main
from autotuner.problems import Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.system.templates import render

if TYPE_CHECKING:
    from autotuner.problems.attention import Attention

DETACH = "iree-global-opt-detach-elementwise-from-named-ops"
"""The compiler's pass that separates an operation's initial value and adds it afterwards."""
_PREPARED = "microkernel_prepared.mlir.j2"
_FUNCTIONS = ("util.func", "func.func")
_MEMOIZED = "linalg.memoized_indexing_maps"
_WHOLE = ("arith.cmpi", "arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori")
_LIMITS = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")
_SUMS = ("arith.cmpf", "arith.addf", "arith.subf", "arith.mulf", "arith.divf", *_LIMITS, "math.powf", *_WHOLE)
TAKERS: tuple[tuple[str, ...], ...] = (
    ("linalg.yield", "arith.truncf", "arith.extf", "arith.negf", "math.sqrt", "math.fma", "arith.select", *_SUMS),
    ("math.fpowi", "math.fma", "arith.select", *_SUMS),
    ("math.fma", "arith.select"),
)
"""What a body may compute with a constant, by the operand that it is."""


@dataclass(frozen=True, slots=True)
class Match:
    """One form of a problem: its operations in order, the last of which is the result."""

    arguments: tuple[tuple[str, str], ...]
    """The problem's inputs: names and types."""
    operations: tuple[str, ...]
    result: tuple[str, str]
    """The name and the type of the last operation's result."""
    channelwise: tuple[str, ...] = ()
    """Names of operations on each channel in place of a bias (a batch norm), with second operands where the bias would
    be. They are folded into weights and a bias."""
    sunk: tuple[str, ...] = ()
    """Names of operations in bodies that use constants, which `prepare` copies into the bodies."""
    flat: bool = False
    """It has a batch dimension, whose entries are rows of the problem."""

    @property
    def types(self) -> tuple[str, ...]:
        """Of the arguments."""
        return tuple(type for _, type in self.arguments)

    @property
    def function(self) -> str:
        """The kind of function that adapts it to the kernel's; empty: none."""
        return "folded" if self.channelwise else "flat" if self.flat else ""


@dataclass(frozen=True, slots=True)
class Pad:
    """Where a problem pads an operand. A matcher cannot see the value that the region of a tensor.pad takes from
    outside: such pads are rewritten first, as a fill and an insertion."""

    users: tuple[str, ...]
    """Names of the operation that uses it."""
    types: tuple[str, ...]
    """Of that operation's operands."""
    position: int
    """The index of the padded operand."""
    source: str
    """The type before."""


@dataclass(frozen=True, slots=True)
class Join:
    """Linear layers of the same rows that become one: three and an attention of their results, or a gate and what it is
    for."""

    match: Match
    """The whole form; its arguments are the rows, the weights and, if any, the biases."""
    rest: Match
    """The form of what uses the layers' results."""
    product: Gemm
    """The product that replaces the layers; for a gate, with all of the rest."""
    attention: Attention | None = None
    """The attention that uses this product."""
    batch: int = 1
    """The batch that a gate's rows are split into."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that it becomes."""
        return (self.product,) if self.attention is None else (self.product, self.attention)


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of a problem, and how a program is prepared for matching them."""

    matches: tuple[Match, ...]
    pads: tuple[Pad, ...] = ()
    detached: bool = False
    """Initial values were separated before these matches were read."""
    joins: tuple[Join, ...] = ()
    """Layers were joined before."""

    @property
    def sunk(self) -> tuple[str, ...]:
        """Operations whose bodies get copies of outside constants before matching."""
        matches = (*self.matches, *(join.match for join in self.joins))
        return tuple(sorted({name for match in matches for name in match.sunk}))


def read_forms(problem: Problem) -> Forms:
    """The forms of a problem: as its own template writes it, and with its main operation as a linalg.generic."""
    with ir.Context() as context:
        module = parse(problem_mlir(problem), context)
        pads = tuple(dict.fromkeys(pad for op in walk(module.operation) for pad in read_pads(op)))
        if pads:
            _rewrite(module, PAD, "rewrite_in_destination_passing_style")
        prepare(module)
        named = _read_match(module)
        main = next(op.name for op in walk(module.operation) if is_main(op))
        if main in (GENERIC, ATTENTION):
            return Forms((named,), pads)
        _rewrite(module, main, "generalize")
        return Forms((named, _read_match(module)), pads)


def read_pads(op: Any) -> tuple[Pad, ...]:
    """The pads whose results this operation takes."""
    types = tuple(str(value.type) for value in op.operands)
    names = (op.name, GENERIC) if is_main(op) else (op.name,)
    pads = [(position, maker(value, PAD)) for position, value in enumerate(op.operands)]
    return tuple(Pad(names, types, position, str(pad.operands[0].type)) for position, pad in pads if pad is not None)


def prepare(module: Any, *, pads: Sequence[Pad] = (), detached: bool = False) -> None:
    """Prepares a program as a spec does before it matches."""
    if pads or detached:
        apply_script(module, render(_PREPARED, pads=pads, detach=DETACH if detached else "", sink=()))
    sink_constants(module)


def taking(names: Collection[str]) -> list[tuple[int, list[str]]]:
    """The operations of these names that may take a constant, by the operand that it is."""
    found = ((place, sorted(name for name in takers if name in names)) for place, takers in enumerate(TAKERS))
    return [(place, some) for place, some in found if some]


def sink_constants(module: Any, names: Collection[str] | None = None) -> None:
    """Gives bodies of generic operations copies of the constants from outside that they use, in operations of these
    `names`: where a spec would put them, which takes a script ten seconds in a model of some size."""
    takers = TAKERS if names is None else [[name for name in some if name in names] for some in TAKERS]
    for generic in [op for op in walk(module.operation) if op.name == GENERIC]:
        for child in [*generic.regions[0].blocks[0].operations]:
            user = child.operation
            for place, some in enumerate(takers[: len(user.operands)]):
                constant = maker(user.operands[place], CONSTANT) if user.name in some else None
                if constant is not None and constant.parent.name in _FUNCTIONS:
                    user.operands[place] = constant.clone(ip=ir.InsertionPoint(user)).results[0]


def _rewrite(module: Any, operation: str, rewrite: str) -> None:
    apply_script(module, render("microkernel_rewrite.mlir.j2", operation=operation, rewrite=rewrite))
    for op in walk(module.operation):
        if _MEMOIZED in op.attributes:  # a trace of the rewrite that no program has
            del op.attributes[_MEMOIZED]


def apply_script(module: Any, text: str) -> None:
    """Applies the last sequence of a transform script to a program."""
    script = parse(text, module.context)
    main = script.body.operations[len(script.body.operations) - 1]
    interpreter.apply_named_sequence(module.operation, main, script)


def _read_match(module: Any) -> Match:
    function = next(op for op in walk(module.operation) if op.name == "func.func")
    block = function.regions[0].blocks[0]
    return match_of(block, list(block.arguments)[:-1])  # the last is the storage of the result


def match_of(block: Any, inputs: Sequence[Any]) -> Match:
    """The operations of a function's body that compute its result from these arguments."""
    result = block.operations[len(block.operations) - 1].operands[0]
    return Match(
        arguments=tuple(map(_named, inputs)),
        operations=tuple(_texts(block)),
        result=_named(result),
        sunk=tuple(sorted({name for child in block.operations for name in _taking_constants(child.operation)})),
    )


def _named(value: Any) -> tuple[str, str]:
    return value.get_name(use_local_scope=True), str(value.type)


def _taking_constants(op: Any) -> Iterator[str]:
    """Names of operations in this operation's body that use constants."""
    for inner in walk(op):
        if inner.name == CONSTANT:
            yield from (use.owner.name for use in inner.results[0].uses)


def _texts(block: Any) -> Iterator[str]:
    for child in block.operations:
        op = child.operation
        # No uses have the return and the constants that a rewrite left behind.
        if any(True for result in op.results for _ in result.uses):
            # Without aliases: what they stand for would be outside of the spec's region.
            yield op.get_asm(use_local_scope=True)
