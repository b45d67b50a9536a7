"""The state of one candidate: built, failed, a duplicate, checked, timed."""

from __future__ import annotations

from dataclasses import dataclass

from autotuner.iree.compile import Compiled, FailureClass
from autotuner.measure.standing import Kind
from autotuner.microkernels.library import is_shipped
from autotuner.tuning.plan import KERNEL, SEARCHED, Candidate


@dataclass
class Outcome:
    """The state of a candidate."""

    candidate: Candidate
    row: int
    build: Compiled | None = None
    failure: FailureClass | None = None
    detail: str = ""
    duplicate_of: str | None = None
    checked: bool = False
    error: float | None = None
    us: float | None = None

    @property
    def id(self) -> str:
        return self.candidate.id

    @property
    def kind(self) -> Kind:
        return self.candidate.kind

    @property
    def route_name(self) -> str:
        return self.candidate.route.name

    @property
    def label(self) -> str:
        if self.kind not in SEARCHED:
            return f"route {self.route_name}"
        return ", ".join(f"{name}={value}" for name, value in self.candidate.knobs.items())

    @property
    def complexity(self) -> int:
        return self.candidate.complexity

    @property
    def foreign(self) -> bool:
        return self.kind == "microkernel" and not is_shipped(str(self.candidate.knobs.get(KERNEL)))

    @property
    def built(self) -> bool:
        return self.build is not None and self.build.ok

    @property
    def settled(self) -> bool:
        """Nothing more is to be found out about it."""
        return self.us is not None or self.failure is not None

    @property
    def contends(self) -> bool:
        """It may enter the race: right, timed, and no duplicate."""
        return self.failure is None and self.duplicate_of is None and self.us is not None
