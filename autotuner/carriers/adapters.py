"""The functions that stand between what a program has and what a kernel takes: they flatten a batch, fold what is done
to each channel into weights and a bias, or put the norm of a product's rows there."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from autotuner.iree.mlir import text_context
from autotuner.patterns.forms import Forms, Match
from autotuner.problems import Conv, Operand, Problem

_ROWS, _GROUPS = "[[0, 1], [2]]", "[[0, 1], [2], [3], [4]]"


@dataclass(frozen=True, slots=True)
class Adapter:
    """The function that takes what one form has and calls the function around the kernel."""

    number: int
    """Which of the kernel's forms it is for."""
    match: Match
    problem: Problem

    @property
    def kind(self) -> str:
        """`flat`, `folded` or `normed`: each has a template of its own."""
        return self.match.function

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.match.types

    @property
    def result(self) -> str:
        return self.match.result[1]

    @property
    def weights(self) -> Operand:
        """As the kernel takes them."""
        return self.problem.operands[1]

    @property
    def merged(self) -> str:
        """The dimensions that become one where the program has more than the kernel: the rows of a batch, or weights
        that are split into groups."""
        return _GROUPS if isinstance(self.problem, Conv) else _ROWS

    def shape(self, type: str) -> tuple[int, ...]:
        """Of an argument or the result."""
        with text_context():
            return tuple(ir.RankedTensorType(ir.Type.parse(type)).shape)


def adapters(problem: Problem, forms: Forms) -> tuple[Adapter, ...]:
    """One for each form that needs it."""
    return tuple(Adapter(n, match, problem) for n, match in enumerate(forms.matches) if match.function)
