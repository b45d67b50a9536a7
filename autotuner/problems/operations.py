"""The registry of operations by name: for command lines, workload files, models and earlier results."""

from collections.abc import Mapping

from autotuner.problems.attention import Attention
from autotuner.problems.base import Problem
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.problems.gemm import Gemm
from autotuner.problems.operation import Operation

OPERATIONS: Mapping[str, type[Operation]] = {operation.op: operation for operation in (Gemm, Conv, ConvNd, Attention)}
"""The operations by their command's name."""


def problem_named(name: str) -> Problem | None:
    """The problem of a name in specs, flagfiles or results; None: there is none."""
    operation = OPERATIONS.get(name.partition("_")[0])
    return operation.of_name(name) if operation else None
