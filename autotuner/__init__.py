"""Kernel autotuning for IREE: from a shape to a proven spec file.

from autotuner import Gemm, Options, Target, tune

result = tune(Gemm.parse(shape="512x512x1024", dtype="f32"), Target.parse("cpu"))
print(result.verdict, result.spec)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from autotuner._version import __version__
from autotuner.errors import AutotuneError

if TYPE_CHECKING:
    from autotuner.jobs.model.context import Model
    from autotuner.jobs.model.tuner import tune_model
    from autotuner.problems import Attention, Conv, Gemm, Problem
    from autotuner.report.api import load_results
    from autotuner.targets import Target
    from autotuner.tuning.options import Options
    from autotuner.tuning.result import Result
    from autotuner.tuning.tune import tune

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

_HOMES = {
    "Attention": "problems",
    "Conv": "problems",
    "Gemm": "problems",
    "Model": "jobs.model.context",
    "Options": "tuning.options",
    "Problem": "problems",
    "Result": "tuning.result",
    "Target": "targets",
    "load_results": "report.api",
    "tune": "tuning.tune",
    "tune_model": "jobs.model.tuner",
}


def __getattr__(name: str) -> object:
    """Loads what is asked for: pandas, Optuna and IREE's bindings take a second, which `autotune --help` need not."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
