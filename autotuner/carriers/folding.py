"""What is done to each channel of a convolution's sums, as with a batch norm, folded into its weights and a bias."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from autotuner.carriers.flat import GROUPS
from autotuner.carriers.forms import Forms, Match
from autotuner.iree.context import text_context
from autotuner.problems import Conv, Problem
from autotuner.problems.base import Operand

_SCALING = ("arith.mulf", "arith.divf")


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on what there is so far, with an argument of the function."""

    operation: str
    argument: int
    type: str
    places: tuple[str, ...]
    """Where the channel's element is in the argument, by dimension: at `d0`, the channel, or at 0."""


@dataclass(frozen=True, slots=True)
class Folding:
    """The function that takes what one form has, folds it and calls the function around the kernel."""

    match: int
    """Which of the kernel's forms it is for."""
    arguments: tuple[str, ...]
    """Types."""
    weights: Operand
    bias: Operand
    axis: int
    """Of the filters, in the weights."""
    shift: tuple[Step, ...]
    residuals: tuple[int, ...]
    """Arguments that are handed on."""
    merged: str = ""
    """The dimensions of the weights that become one, where a program has them split into groups."""

    @property
    def scale(self) -> tuple[Step, ...]:
        return tuple(step for step in self.shift if step.operation in _SCALING)


def foldings(problem: Problem, forms: Forms) -> tuple[Folding, ...]:
    """One for each form that has such operations."""
    if not isinstance(problem, Conv):
        return ()
    return tuple(_folding(n, match, problem) for n, match in enumerate(forms.matches) if match.channelwise)


def _folding(number: int, match: Match, problem: Conv) -> Folding:
    types = tuple(type for _, type in match.arguments)
    weights = problem.operands[1]
    axis = len(weights.shape) - 1 if problem.channels_last else 0
    end = 2 + len(match.channelwise)
    steps = (
        Step(name, argument, types[argument], _places(types[argument], channel=3 if problem.channels_last else 1))
        for argument, name in enumerate(match.channelwise, start=2)
    )
    rest = tuple(range(end, len(types)))
    merged = GROUPS if types[1] != weights.mlir else ""
    return Folding(number, types, weights, problem.operands[2], axis, tuple(steps), rest, merged)


def _places(type: str, *, channel: int) -> tuple[str, ...]:
    with text_context():
        rank = ir.RankedTensorType(ir.Type.parse(type)).rank
    return ("d0",) if rank == 1 else tuple("d0" if axis == channel else "0" for axis in range(rank))
