"""Which configurations are legal: the compiler's own constraints on GPUs, a declared space on CPUs."""

from autotuner.space.dispatch import CompilationInfo
from autotuner.space.table import ABSENT, Config, Knob, Space, Value

__all__ = ["ABSENT", "CompilationInfo", "Config", "Knob", "Space", "Value"]
