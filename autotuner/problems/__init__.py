"""The operations that can be tuned."""

from autotuner.problems.accuracy import Array, Bound
from autotuner.problems.attention import Attention
from autotuner.problems.base import Operand, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.gemm import Gemm

__all__ = ["Array", "Attention", "Bound", "Conv", "Gemm", "Operand", "Problem"]
