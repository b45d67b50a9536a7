"""The parts of a model, one line each: a dispatch, or an operation that a microkernel computes; its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotuner.jobs.model.entries import Place
from autotuner.programs.flow import Group
from autotuner.tuning.result import Result


@dataclass(frozen=True, kw_only=True)
class Row:
    """One part."""

    label: str
    calls: int
    share: float = 0.0
    state: str = "ranked"
    """Of a dispatch: `ahead` (the model is the judge of it), `estimated` (without a device), `no-gain`, `no-knobs`
    (nothing to choose). Of a kernel: `taken`, `codegen` (the compiler's code is faster). Of both: `skipped`,
    `left-out`, `dropped`."""
    reason: str = ""
    us: float | None = None
    result: Result | None = None
    applied: int = 0
    out_of_time: bool = False
    """It is left out because of the budget, and of nothing else."""

    @property
    def run(self) -> str | None:
        return self.result.run if self.result else None


@dataclass(frozen=True, kw_only=True)
class DispatchRow(Row):
    """A dispatch, or a group of equal ones."""

    group: Group

    def to_json(self) -> dict[str, Any]:
        speedup = self.result.speedup if self.result else None
        return {
            "name": self.label,
            "op": self.group.root.op,
            "loops": list(self.group.root.loops),
            "types": list(self.group.root.element_types),
            "calls": self.calls,
            "dispatches": list(self.group.symbols),
            "share": self.share,
            "us": self.us,
            "state": self.state,
            "reason": self.reason,
            "verdict": self.result.verdict if self.result else None,
            "run": self.run,
            "speedup": speedup.to_json() if speedup else None,
            "applied": self.applied,
        }


@dataclass(frozen=True, kw_only=True)
class KernelRow(Row):
    """A place of kernels; `us` is the time of the kernel alone."""

    place: Place
    kernel: str = ""
    codegen_us: float | None = None
    """Of the compiler's best code for the same, alone."""

    def to_json(self) -> dict[str, Any]:
        best, group = self.result.best if self.result else None, self.place.group
        return {
            "problem": self.label,
            "calls": self.calls,
            "share": self.share,
            "dispatches": list(group.symbols) if group else [],
            "fits": list(self.place.kernels),
            "kernel": self.kernel or None,
            "config": dict(best.config) if best else {},
            "us": self.us,
            "codegen_us": self.codegen_us,
            "state": self.state,
            "reason": self.reason,
            "applied": self.applied,
            "run": self.run,
        }
