"""A candidate as the judge's room sees it, wherever it was built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:  # a machine that only runs modules has no compiler
    from autotuner.iree.compile import FailureClass

Kind = Literal["baseline", "stock", "codegen", "microkernel"]
SEARCHED: tuple[Kind, ...] = ("codegen", "microkernel")
"""What a search asks for."""
BASELINE = "baseline"
"""The id of IREE's default."""


class Contestant(Protocol):
    """What it is, and how far it came on the device."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def route_name(self) -> str: ...

    @property
    def label(self) -> str:
        """What people are told in place of its id."""

    @property
    def complexity(self) -> int: ...

    @property
    def failure(self) -> FailureClass | None: ...

    @property
    def duplicate_of(self) -> str | None: ...

    @property
    def error(self) -> float | None:
        """Relative, against the right answer; None where it is no number or not known."""

    @property
    def us(self) -> float | None: ...

    @property
    def contends(self) -> bool:
        """It may enter the race: right, timed, and nobody's twin."""
