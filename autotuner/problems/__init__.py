"""The operations that can be tuned."""

from autotuner.problems.base import Array, Operand, Problem
from autotuner.problems.gemm import Gemm

__all__ = ["Array", "Gemm", "Operand", "Problem"]
