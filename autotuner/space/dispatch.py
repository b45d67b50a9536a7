"""The protocol of a dispatch's space, and the readers of those for GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autotuner.errors import NoCandidateError
from autotuner.iree.mlir import ATTENTION, SCALED
from autotuner.space.table import Config, Space
from autotuner.system.settings import loaded
from autotuner.targets.backends import Backend

_TRANSLATION_INFO = "#iree_codegen.translation_info"
_CONSTRAINTS, _OWN = "autotuner.space.gpu:GpuSpace", "autotuner.space.gpu_own:OwnSpace"
_DECLARED = {
    ATTENTION: "autotuner.space.gpu_attention:AttentionSpace",
    SCALED: "autotuner.space.gpu_scaled:ScaledSpace",
}
"""The modules of GPU spaces, which a run for a processor does not import; of those that are declared, by operation."""


@dataclass(frozen=True, slots=True)
class CompilationInfo:
    """The attributes of one configuration, as the text that stands for them in MLIR."""

    lowering_config: str
    translation_info: str
    decomposition_config: str | None = None
    """Attention only: an attribute of the operation, beside its compilation info."""

    @property
    def translation_attribute(self) -> str:
        """The attribute with its name, as a function has it; inside a compilation info the name is left out."""
        return _TRANSLATION_INFO + self.translation_info.removeprefix(_TRANSLATION_INFO)


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch or group loops of a dispatch that the module of its constraints lacks.

    IREE crashes when it emits constraints for a batched matmul or a grouped convolution, so their space is read from
    one batch entry or one group.
    """

    loops: int = 0
    at: int = 0
    """The loop that they stand before."""


UNBATCHED = Batch()


class DispatchSpace(Protocol):
    """The configurations of a dispatch on a GPU, with their attributes."""

    @property
    def space(self) -> Space: ...

    def default(self) -> Config | None:
        """The configuration that the compiler chose itself, or the legal one nearest to it."""

    def compilation_info(self, config: Config) -> CompilationInfo:
        """The attributes that a configuration of this space stands for."""


def read_dispatch_space(text: str, *, backend: Backend, batch: Batch = UNBATCHED) -> DispatchSpace:
    """Reads the module that `--iree-codegen-emit-pipeline-constraints` prints; see `GpuSpace.read`."""
    found: DispatchSpace
    try:
        found = loaded(_CONSTRAINTS).read(text, backend=backend, batch=batch)
    except NoCandidateError as none:
        declared = next((space for operation, space in _DECLARED.items() if operation in text), None)
        try:
            if declared is None and batch.loops:
                raise
            found = loaded(declared).read(text) if declared else read_own(text, backend=backend)
        except NoCandidateError:
            raise none from None
    return found


def read_own(text: str, *, backend: Backend) -> DispatchSpace:
    """What lies near the compiler's own choice, where it emits no constraints or crashes over them."""
    found: DispatchSpace = loaded(_OWN).read(text, backend=backend)
    return found
