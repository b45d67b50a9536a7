"""All operations, for whoever is given their names: command lines, workload files, models, results of earlier runs."""

from collections.abc import Mapping

from autotuner.problems.attention import Attention
from autotuner.problems.base import Problem
from autotuner.problems.conv import Conv
from autotuner.problems.gemm import Gemm
from autotuner.problems.operation import Operation

OPERATIONS: Mapping[str, type[Operation]] = {operation.op: operation for operation in (Gemm, Conv, Attention)}
"""By the name of their command."""


def problem_named(name: str) -> Problem | None:
    """The problem that has this very name, as specs, flagfiles and results name theirs; None where there is none."""
    operation = OPERATIONS.get(name.partition("_")[0])
    return operation.of_name(name) if operation else None
