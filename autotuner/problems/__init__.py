"""The operations that can be tuned."""

from autotuner.problems.attention import Attention
from autotuner.problems.base import Array, Operand, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.gemm import Gemm

__all__ = ["Array", "Attention", "Conv", "Gemm", "Operand", "Problem"]
