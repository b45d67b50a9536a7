"""Kernel autotuning for IREE: from a shape to a proven spec file.

from autotuner import Gemm, Options, Target, tune

result = tune(Gemm.parse(shape="512x512x1024", dtype="f32"), Target.parse("cpu"))
print(result.verdict, result.spec)
"""

from autotuner._version import __version__
from autotuner.api import load_results
from autotuner.errors import AutotuneError
from autotuner.models.context import Model
from autotuner.models.tuner import tune_model
from autotuner.options import Options
from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.result import Result
from autotuner.targets import Target
from autotuner.tune import tune

__all__ = [
    "Attention",
    "AutotuneError",
    "Conv",
    "Gemm",
    "Model",
    "Options",
    "Problem",
    "Result",
    "Target",
    "__version__",
    "load_results",
    "tune",
    "tune_model",
]
