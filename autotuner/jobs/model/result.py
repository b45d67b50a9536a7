"""What tuning a model comes to: the contract's JSON document, with routes, dispatches and entries beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotuner.jobs.model.breakdown import PACKING, TimeTable
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.entries import Entry, KernelEntry, carriers
from autotuner.jobs.model.kernels import KernelRow
from autotuner.jobs.model.printing import tell_model
from autotuner.measure.reference import WORDS
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.flow import Group
from autotuner.targets import PLAIN
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import Result


@dataclass(frozen=True)
class Row:
    """One line of the ranking: a dispatch or a group of equal ones, and what became of it."""

    label: str
    group: Group
    share: float
    us: float | None
    state: str
    """`tuned`, `ahead` (faster so far, without a verdict), `estimated` (without a device), `no-gain`, `no-knobs`
    (nothing to choose), `skipped`, `left-out` or `dropped`."""
    reason: str = ""
    result: Result | None = None
    applied: int = 0
    out_of_time: bool = False
    """It is left out because of the budget, and of nothing else."""

    def to_json(self) -> dict[str, Any]:
        speedup = self.result.speedup if self.result else None
        return {
            "name": self.label,
            "op": self.group.root.op,
            "loops": list(self.group.root.loops),
            "types": list(self.group.root.element_types),
            "calls": self.group.calls,
            "dispatches": list(self.group.symbols),
            "share": self.share,
            "us": self.us,
            "state": self.state,
            "reason": self.reason,
            "verdict": self.result.verdict if self.result else None,
            "run": self.result.run if self.result else None,
            "speedup": speedup.to_json() if speedup else None,
            "applied": self.applied,
        }


@dataclass(frozen=True, slots=True)
class Untunable:
    """A dispatch without a root that could be configured."""

    name: str
    calls: int
    share: float
    kind: str

    @property
    def reason(self) -> str:
        if self.kind == PACKING:
            return "it moves data and computes nothing"
        return "it has no product, convolution or attention: nothing else has a configuration to choose"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "calls": self.calls,
            "share": self.share,
            "kind": self.kind,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class ModelDetails:
    """What a run over a model tells beside the contract's document."""

    routes: tuple[Contestant, ...] = ()
    rows: tuple[Row, ...] = ()
    others: float = 0.0
    """The share of the dispatches that have nothing to tune."""
    untunable: tuple[Untunable, ...] = ()
    """Those of them that the model's function calls itself, the largest share first."""
    ranked_by: str = ""
    ranked_route: str = ""
    """The route whose dispatches these are."""
    time: TimeTable = field(default_factory=TimeTable)
    """Where the time goes, before and after."""
    entries: tuple[Entry, ...] = ()
    kernels: tuple[KernelRow, ...] = ()
    """The operations that microkernels compute, and what became of each."""
    shipped_kernels: tuple[KernelEntry, ...] = ()
    applied: int = 0
    error: float | None = None
    """How far the shipped model's outputs are from those that are right."""
    arbiter: Arbiter | None = None
    """Whose outputs are right; None without a device."""
    executables: Path | None = None
    kernel_spec: Path | None = None
    """What calls the microkernels: beside the tuning spec, or the spec itself where there is none."""
    objects: Path | None = None
    program: Path | None = None
    """The model as iree-compile takes it: the user's own file, or what was imported from ONNX."""
    report: Path | None = None
    candidate: Path | None = None
    """Without a device and without -o: the folder of what would be written."""
    commands: tuple[str, ...] = ()

    @property
    def default_is_wrong(self) -> bool:
        return self.arbiter is not None and self.arbiter.default_is_wrong

    @property
    def against(self) -> str:
        """What outputs were compared with, for people."""
        return self.arbiter.against if self.arbiter is not None else WORDS["default"]

    @property
    def tried(self) -> int:
        return sum(one.us is not None and one.route != PLAIN for one in self.routes)

    def to_json(self) -> dict[str, Any]:
        return {
            "routes": [tried.to_json() for tried in self.routes],
            "dispatches": [{**row.to_json(), "code": self.code(row)} for row in self.rows],
            "microkernels": {
                "places": [row.to_json() for row in self.kernels],
                "shipped": len(self.shipped_kernels),
                "spec": str(self.kernel_spec) if self.kernel_spec else None,
                "objects": str(self.objects) if self.objects else None,
            },
            "ranked_by": self.ranked_by,
            "ranked_route": self.ranked_route,
            "other_share": self.others,
            "others": [one.to_json() for one in self.untunable],
            "time": self.time.to_json(),
            "entries": {"shipped": len(self.entries), "applied": self.applied, "carriers": carriers(self.entries)},
            "error": self.error,
            "executables": str(self.executables) if self.executables else None,
            "program": str(self.program) if self.program else None,
            "report": str(self.report) if self.report else None,
        }

    def tell(self, result: ModelResult, printer: Printer) -> None:
        tell_model(result, printer)

    def code(self, row: Row) -> str:
        """Who makes the code of a dispatch in what is shipped: `default`, `codegen`, a microkernel, or some of each."""
        taken = {entry.label for entry in self.shipped_kernels}
        names = [k.kernel for k in self.kernels if k.place.problem.name in taken and k.place.group == row.group]
        calls = sum(k.place.calls for k in self.kernels if k.kernel in names and k.place.group == row.group)
        words = list(dict.fromkeys(names))
        if calls < row.group.calls:
            words.append("codegen" if row.label in {entry.label for entry in self.entries} else "default")
        return " and ".join(words)


ModelResult = Result[ModelDetails]
