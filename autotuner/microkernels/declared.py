"""What a manifest declares beside the kernel itself: its pointers, its objects, and where these come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotuner.errors import UsageError
from autotuner.microkernels.expressions import Expression
from autotuner.microkernels.instance import SCRATCH, Access

Kind = Literal["prebuilt", "c", "triton", "cuda"]
REPORTS: Mapping[str, tuple[str, ...]] = {"prebuilt": (), "c": (), "triton": ("shared",), "cuda": ()}
"""Numbers that are known only once the object is built: the provider hands them to `bind` as parameters."""
PROBLEM, NAMED = "problem", "named"
"""Elements of a buffer that are not one type: the problem's own, and what the kernel's name says."""
NOTHING, _ONE = Expression("0"), Expression("1")


@dataclass(frozen=True, slots=True)
class Buffer:
    """One pointer of the kernel."""

    operand: str
    access: Access
    layout: str
    """Letters of its dimensions; empty: the problem's own."""
    element: str
    zeroed: Expression
    panels: Expression = NOTHING
    """The width of the panels that it comes in; 0: none."""
    panelled: str = ""
    """The dimension that is cut into panels; the others keep their order."""
    bytes: Expression = NOTHING
    """Of scratch; with 0 of them the pointer is left out of the call."""
    parts: Expression = _ONE
    """Of `out`: results of parts of the depth, one behind another, which are added up after the call."""

    @property
    def is_scratch(self) -> bool:
        return self.access == SCRATCH


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A kernel as it is compiled, and what its bytes must be."""

    path: Path
    sha256: str

    def verified(self) -> Path:
        """The file, if it is still the one that the manifest means."""
        try:
            with self.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be read: {error.strerror}.", remedy="Put the object there, or correct its path."
            ) from error
        if digest != self.sha256:
            raise UsageError(
                f"{self.path} has the sha256 {digest}; its manifest says {self.sha256}.",
                remedy="If you replaced it on purpose, write the new sha256 into the manifest.",
            )
        return self.path


@dataclass(frozen=True, slots=True)
class Provider:
    """Where the object comes from."""

    kind: Kind
    source: Path | None
    chips: tuple[str, ...]
    """What it can be built for; for prebuilt kernels, what they are known to run on. Empty: the objects say."""
