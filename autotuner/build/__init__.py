"""From a candidate to a module, with proof."""

from autotuner.build.builder import (
    FAILURE_CLASSES,
    Build,
    Builder,
    BuildJob,
    CompilerRefusal,
    FailureClass,
    first_error,
    shell_line,
)
from autotuner.build.cache import Cache
from autotuner.build.isa import Isa

__all__ = [
    "FAILURE_CLASSES",
    "Build",
    "BuildJob",
    "Builder",
    "Cache",
    "CompilerRefusal",
    "FailureClass",
    "Isa",
    "first_error",
    "shell_line",
]
