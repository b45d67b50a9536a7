"""From a candidate to a module, with proof."""

from autotuner.build.builder import Build, Builder, BuildJob
from autotuner.build.isa import Isa

__all__ = ["Build", "BuildJob", "Builder", "Isa"]
