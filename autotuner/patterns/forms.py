"""The forms that a problem has in a program: the operations that a kernel replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
"""The compiler's own pass that adds behind an operation what it starts from."""
_MEMOIZED = "linalg.memoized_indexing_maps"


@dataclass(frozen=True, slots=True)
class Match:
    """One form in which a program may have the problem: operations in order, the last of them its result."""

    arguments: tuple[tuple[str, str], ...]
    """The problem's inputs: names and types."""
    operations: tuple[str, ...]
    result: tuple[str, str]
    """The name and the type of what the last of them gives."""
    channelwise: tuple[str, ...] = ()
    """What is done to each channel of the sums in place of adding a bias, as with a batch norm: names of operations,
    whose second operands stand where the bias would. It is folded into weights and a bias."""
    sunk: tuple[str, ...] = ()
    """What bodies do with constants of their own, as they have them once `prepare` is done: names of operations."""
    flat: bool = False
    """It has a batch, all entries of which are rows of the problem."""

    @property
    def types(self) -> tuple[str, ...]:
        """Of the arguments."""
        return tuple(type for _, type in self.arguments)

    @property
    def function(self) -> str:
        """What kind of function stands between it and the kernel's own; empty: none."""
        return "folded" if self.channelwise else "flat" if self.flat else ""


@dataclass(frozen=True, slots=True)
class Pad:
    """Where a problem pads an operand. A matcher cannot see the value that the region of a tensor.pad takes from
    outside: such pads are rewritten first, as a fill and an insertion."""

    users: tuple[str, ...]
    """Names that the operation behind it may have."""
    types: tuple[str, ...]
    """Of that operation's operands."""
    position: int
    """Which of them is padded."""
    source: str
    """The type before."""


@dataclass(frozen=True, slots=True)
class Join:
    """Linear layers of the same rows that become one: three and an attention of their results, or a gate and what it is
    for."""

    match: Match
    """All of it: the rows, the matrices of weights and, if there are any, the biases are its arguments."""
    rest: Match
    """What is computed from what the layers give."""
    product: Gemm
    """What the layers become; those of a gate with all of the rest."""
    attention: Attention | None = None
    """What the attention then is."""
    batch: int = 1
    """How many times the rows of a gate are split."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that it becomes."""
        return (self.product,) if self.attention is None else (self.product, self.attention)


@dataclass(frozen=True, slots=True)
class Forms:
    """All that is looked for in a program."""

    matches: tuple[Match, ...]
    pads: tuple[Pad, ...] = ()
    detached: bool = False
    """What an operation starts from was added behind it before these matches were read."""
    joins: tuple[Join, ...] = ()
    """Layers were joined before."""

    @property
    def sunk(self) -> tuple[str, ...]:
        """The operations that are given copies of the constants that they take from outside before these are looked
        for."""
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
    """Does to a program what a spec does before it matches anything."""
    apply_script(module, render("microkernel_prepared.mlir.j2", pads=pads, detach=DETACH if detached else ""))


def _rewrite(module: Any, operation: str, rewrite: str) -> None:
    apply_script(module, render("microkernel_rewrite.mlir.j2", operation=operation, rewrite=rewrite))
    for op in walk(module.operation):
        if _MEMOIZED in op.attributes:  # a trace of the rewrite that no program has
            del op.attributes[_MEMOIZED]


def apply_script(module: Any, text: str) -> None:
    """The last sequence of a script, to the whole of a program."""
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
    """What takes a constant of a body of this operation, by name."""
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
