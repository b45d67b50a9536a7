"""Kernel autotuning for IREE: from a shape to a proven spec file.

from autotuner import Gemm, Options, Target, tune

result = tune(Gemm.parse(shape="512x512x1024", dtype="f32"), Target.parse("cpu"), options=Options(budget=120.0))
print(result)  # as the command prints it; result.verdict, result.speedup, result.spec

`tune_model`, `suite`, `ab` and `retune` do what the commands of these names do, `spec` has show, check and merge.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from autotuner._version import __version__
from autotuner.errors import AutotuneError

if TYPE_CHECKING:
    from autotuner.cluster.address import Scheduler
    from autotuner.jobs.api import ab, retune, suite, tune, tune_model
    from autotuner.microkernels.variants import Kernel
    from autotuner.problems import Gemm, Problem
    from autotuner.problems.attention import Attention
    from autotuner.problems.conv import Conv
    from autotuner.programs.model import Model
    from autotuner.specfiles import spec
    from autotuner.store.exports import load_results
    from autotuner.targets import Target
    from autotuner.tuning.options import Options, parse_effort
    from autotuner.tuning.result import Result

__all__ = [
    "Attention",
    "AutotuneError",
    "Conv",
    "Gemm",
    "Kernel",
    "Model",
    "Options",
    "Problem",
    "Result",
    "Scheduler",
    "Target",
    "__version__",
    "ab",
    "load_results",
    "parse_effort",
    "retune",
    "spec",
    "suite",
    "tune",
    "tune_model",
]

_HOMES = {
    "Attention": "problems.attention",
    "Conv": "problems.conv",
    "Gemm": "problems",
    "Kernel": "microkernels.variants",
    "Model": "programs.model",
    "Options": "tuning.options",
    "Problem": "problems",
    "Result": "tuning.result",
    "Scheduler": "cluster.address",
    "Target": "targets",
    "ab": "jobs.api",
    "load_results": "store.exports",
    "parse_effort": "tuning.options",
    "retune": "jobs.api",
    "suite": "jobs.api",
    "tune": "jobs.api",
    "tune_model": "jobs.api",
}


_MODULES = {"spec": "specfiles.spec"}


def __getattr__(name: str) -> object:
    """Loads what is asked for: pandas, Optuna and IREE's bindings take a second, which `autotune --help` need not."""
    if name in _MODULES:
        found: object = import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOMES:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
