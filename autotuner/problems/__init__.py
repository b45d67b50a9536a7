"""The operations that can be tuned."""

from collections.abc import Mapping

from autotuner.problems.accuracy import Array, Bound
from autotuner.problems.attention import Attention
from autotuner.problems.base import Operand, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.gemm import Gemm
from autotuner.problems.operation import Operation

OPERATIONS: Mapping[str, type[Operation]] = {operation.op: operation for operation in (Gemm, Conv, Attention)}
"""By the name of their command."""

__all__ = [
    "OPERATIONS",
    "Array",
    "Attention",
    "Bound",
    "Conv",
    "Gemm",
    "Operand",
    "Operation",
    "Problem",
    "problem_named",
]


def problem_named(name: str) -> Problem | None:
    """The problem that has this very name, as specs, flagfiles and results name theirs; None where there is none."""
    operation = OPERATIONS.get(name.partition("_")[0])
    return operation.of_name(name) if operation else None
