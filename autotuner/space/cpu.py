"""The declared space of llvm-cpu, which emits no constraints: tile sizes for the dispatch that the compiler made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from autotuner.iree.mlir import Dispatch, tile_levels
from autotuner.iree.processor import CpuFacts
from autotuner.space.cpu_attention import attention_part
from autotuner.space.cpu_conv import conv_part
from autotuner.space.cpu_gemm import gemm_part
from autotuner.space.cpu_tiling import CpuTiling, Part
from autotuner.space.table import Config, Space

__all__ = ["CpuSpace", "CpuTiling"]

_PARTS = {"contraction": gemm_part, "convolution": conv_part, "attention": attention_part}


@dataclass(frozen=True)
class CpuSpace:
    """The configurations of one dispatch, and how each becomes tile sizes."""

    dispatch: Dispatch
    space: Space
    part: Part

    @classmethod
    def declare(cls, dispatch: Dispatch, facts: CpuFacts, *, cores: int) -> CpuSpace | None:
        """None where the dispatch has no knobs (a matrix-vector product, say, or a grouped convolution)."""
        part = _PARTS[dispatch.kind](dispatch)
        if part is None:
            return None
        every = cls(dispatch, part.space(dispatch, facts, cores), part)
        own = every.default()
        # Of configurations that give the same code one is enough: the compiler's own choice, where it is among them.
        preferred = every.space.index(own) if own else None
        return replace(every, space=every.space.fold(partial(part.form, dispatch), preferred=preferred))

    def tiling(self, config: Config) -> CpuTiling:
        values = {name: int(value) for name, value in config.items if isinstance(value, int)}
        return self.part.tiling(self.dispatch, values)

    def default(self) -> Config | None:
        """What the compiler chose itself, as near as the knobs can say it."""
        return self.near(self.dispatch.lowering_config)

    def near(self, lowering_config: str) -> Config | None:
        """The configuration nearest to this one; None where it is none of a processor's."""
        if not len(self.space) or not lowering_config.startswith("#iree_cpu.lowering_config"):
            return None
        wanted = self.part.knobs(self.dispatch, tile_levels(lowering_config))
        return self.space[self.space.nearest(wanted)]
