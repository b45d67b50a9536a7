"""A norm of a product's rows as a part of the product: its scale in the weights, its shift in the bias."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from autotuner.carriers.flat import ROWS
from autotuner.carriers.forms import Forms, Match
from autotuner.iree.context import text_context
from autotuner.problems import Gemm, Operand, Problem
from autotuner.problems.dtypes import element_type

SCALE, SHIFT = "scale", "shift"


@dataclass(frozen=True, slots=True)
class Norming:
    """The function that takes what one form has, makes weights and a bias with the norm in them and calls the function
    around the kernel.

    (x - mean) . W is x . (W - the mean of each column of W): where rows are centered, the weights are instead.
    """

    match: int
    """Which of the kernel's forms it is for."""
    arguments: tuple[str, ...]
    """Types."""
    weights: Operand
    transposed: bool
    """Weights have a row for each column of the product."""
    depth: str
    """As a number."""
    centered: bool
    scale: int | None
    """Which argument it is; None: there is none."""
    shift: int | None
    bias: int | None
    """The product's own."""
    biases: Operand
    """Of all columns, as the kernel takes them."""
    added: tuple[int, ...]
    """Arguments that are handed on behind the bias."""
    merged: str
    """The dimensions of rows that become one, where they are in a batch."""
    result: str
    shape: tuple[int, ...]

    @property
    def wide(self) -> str:
        """The weights' type before they are rounded."""
        return Operand(self.weights.shape, element_type("f32")).mlir

    @property
    def sums(self) -> str:
        """Of the columns."""
        return Operand(self.biases.shape, element_type("f32")).mlir


def normings(problem: Problem, forms: Forms) -> tuple[Norming, ...]:
    """One for each form with a norm."""
    if not isinstance(problem, Gemm):
        return ()
    return tuple(_norming(n, match, problem) for n, match in enumerate(forms.matches) if match.norm is not None)


def _norming(number: int, match: Match, problem: Gemm) -> Norming:
    types = tuple(type for _, type in match.arguments)
    norm = match.norm or ()
    end = len(types) - len(norm)
    own = {name: end + place for place, name in enumerate(norm)}
    residuals = (end - 1,) if problem.epilogue.residual else ()
    with text_context():
        shape = tuple(ir.RankedTensorType(ir.Type.parse(match.result[1])).shape)
    return Norming(
        match=number,
        arguments=types,
        weights=problem.operands[1],
        transposed=problem.layout[1] == "t",
        depth=f"{problem.k:.9e}",
        centered=problem.epilogue.norm == "layer",
        scale=own.get(SCALE),
        shift=own.get(SHIFT),
        bias=2 if end - len(residuals) > 2 else None,
        biases=Operand((problem.n,), problem.output.element),
        added=residuals,
        merged=ROWS,
        result=match.result[1],
        shape=shape,
    )
