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

__all__ = [
    "FAILURE_CLASSES",
    "Build",
    "BuildJob",
    "Builder",
    "Cache",
    "CompilerRefusal",
    "FailureClass",
    "first_error",
    "shell_line",
]
