"""Which configurations are legal: the compiler's own constraints on GPUs, a declared space on CPUs."""

from autotuner.space.constraints import ConstraintsError
from autotuner.space.gpu import GpuSpace
from autotuner.space.gpu_config import CompilationInfo
from autotuner.space.table import ABSENT, Config, Knob, Space, Value

__all__ = ["ABSENT", "CompilationInfo", "Config", "ConstraintsError", "GpuSpace", "Knob", "Space", "Value"]
