"""Which configurations are legal: the compiler's own constraints on GPUs, a declared space on CPUs."""

from autotuner.space.table import ABSENT, Config, Knob, Space, Value

__all__ = ["ABSENT", "Config", "Knob", "Space", "Value"]
