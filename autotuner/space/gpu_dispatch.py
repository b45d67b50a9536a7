"""The space of any GPU dispatch: from the compiler's constraints, or declared where it emits none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from autotuner.errors import NoCandidateError
from autotuner.space import prune
from autotuner.space.duplicates import USED
from autotuner.space.gpu import UNBATCHED, Batch, GpuSpace
from autotuner.space.gpu_attention import OPERATION, AttentionSpace
from autotuner.space.gpu_config import CompilationInfo
from autotuner.space.table import Config, Space
from autotuner.targets.backends import Backend


class DispatchSpace(Protocol):
    """The configurations of a dispatch, and what they stand for."""

    @property
    def pruned(self) -> Mapping[str, int]:
        """Configurations that are known not to work or to give the code of another, counted by reason."""

    @property
    def space(self) -> Space: ...

    def compilation_info(self, config: Config) -> CompilationInfo: ...

    def default(self) -> Config | None:
        """What the compiler chose itself, or the configuration nearest to it."""

    def near(self, info: CompilationInfo) -> Config | None:
        """The configuration nearest to one that a spec has; None where that cannot be told."""


def read_dispatch_space(
    text: str, *, backend: Backend, batch: Batch = UNBATCHED, rules: Sequence[prune.Rule] = USED
) -> DispatchSpace:
    """From the module that `--iree-codegen-emit-pipeline-constraints` writes; see `GpuSpace.read`."""
    try:
        return GpuSpace.read(text, backend=backend, batch=batch, rules=rules)
    except NoCandidateError as none:
        if OPERATION not in text:
            raise
        try:
            return AttentionSpace.read(text, rules=rules)
        except NoCandidateError:
            raise none from None
