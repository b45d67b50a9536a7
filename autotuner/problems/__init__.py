"""The operations that can be tuned. `operations` has all of them; what knows one problem asks that one."""

from autotuner.problems.accuracy import Array, Bound
from autotuner.problems.base import Operand, Problem
from autotuner.problems.gemm import Gemm
from autotuner.problems.operation import Operation

__all__ = ["Array", "Bound", "Gemm", "Operand", "Operation", "Problem"]
