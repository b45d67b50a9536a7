"""Builds candidates to modules, with proof."""

from autotuner.build.builder import Builder, BuildJob
from autotuner.iree.compile import Compiled
from autotuner.iree.figures import Isa

__all__ = ["BuildJob", "Builder", "Compiled", "Isa"]
