"""The result of tuning a model: the contract's JSON document with routes, dispatches and entries, and what people are
told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.entries import Entry, KernelEntry, carriers
from autotuner.jobs.model.rows import DispatchRow, KernelRow
from autotuner.measure.reference import WORDS
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.breakdown import TimeTable
from autotuner.system.listing import Column, Listing
from autotuner.system.text import count, microseconds
from autotuner.tuning.printer import Printer, Told, grouped, shown
from autotuner.tuning.result import Result

_CALLS, _SHARE, _ALONE = (Column(title, right=True) for title in ("calls", "share", "alone"))
_DISPATCHES = ("dispatch", _CALLS, _SHARE, "state", _ALONE, "applied", "code")
_KERNELS = ("operation", _CALLS, _SHARE, "kernel", _ALONE, Column("codegen", right=True), "state")


@dataclass(frozen=True)
class ModelDetails(Told):
    """What a model's document has beside the contract's."""

    routes: tuple[Contestant, ...] = ()
    rows: tuple[DispatchRow, ...] = ()
    others: float = 0.0
    """The share of the dispatches that have nothing to tune."""
    ranked_by: str = ""
    ranked_route: str = ""
    """The route whose dispatches these are."""
    time: TimeTable = field(default_factory=TimeTable)
    """Where the time goes, before and after."""
    entries: tuple[Entry, ...] = ()
    kernels: tuple[KernelRow, ...] = ()
    """The operations that microkernels compute, with their states."""
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
    candidate: Path | None = None
    """Without a device and without -o: the folder of what would be written."""

    @property
    def default_is_wrong(self) -> bool:
        return self.arbiter is not None and self.arbiter.default_is_wrong

    @property
    def against(self) -> str:
        """What outputs were compared with, for people."""
        return self.arbiter.against if self.arbiter is not None else WORDS["default"]

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
            "time": self.time.to_json(),
            "entries": {"shipped": len(self.entries), "applied": self.applied, "carriers": carriers(self.entries)},
            "error": self.error,
            "executables": str(self.executables) if self.executables else None,
            "program": str(self.program) if self.program else None,
        }

    def tell(self, result: ModelResult, printer: Printer) -> None:
        """The verdict, the times and the files; -v adds dispatches and kernels."""
        printer.verdict(result, what="model")
        wrong = self.routes[0].us if self.default_is_wrong and self.routes else None
        printer.times(result, best=_best(result), wrong_us=wrong)
        if self.error is not None:
            compared = f" ({self.arbiter.compared})" if self.arbiter is not None and self.arbiter.compared else ""
            printer.line("outputs", f"relative error {self.error:.1e} against {self.against}{compared}")
        if self.executables is not None:
            printer.line("executable", f"{shown(self.executables)} (they fit this very model only)")
        if self.kernel_spec is not None and self.objects is not None:
            own = "" if self.kernel_spec == result.spec else f"{shown(self.kernel_spec)}, "
            printer.line("kernels", f"{own}objects in {shown(self.objects)}")
        if self.candidate is not None:
            printer.line("candidate", f"{shown(self.candidate)} (spec.mlir); with -o FILE.mlir it is written there")
        printer.files(result, program=self.program)
        if self.rows:
            printer.more("ranked", f"dispatches of route {self.ranked_route}, by {self.ranked_by}")
            printer.rest.append(Listing.of(_DISPATCHES, _dispatches(self)))
        if self.kernels:
            printer.rest.append(Listing.of(_KERNELS, _kernels(self)))
        grouped(printer, [(row.state, row.label, row.reason) for row in (*self.rows, *self.kernels)])
        if self.entries:
            entries = f"{self.applied} of {count(len(self.entries), 'entry')} applied"
            printer.more("entries", f"{entries}{', never timed' if result.verdict == 'compile-only' else ''}")
        if self.entries or self.shipped_kernels:
            printer.over_stock(result)
        if self.time:
            printer.more("time", self.time.short())
        printer.end(result)

    def code(self, row: DispatchRow) -> str:
        """The source of a dispatch's shipped code: `default`, `codegen`, a microkernel, or some of each."""
        taken = {entry.label for entry in self.shipped_kernels}
        own = [one for one in self.kernels if one.label in taken and one.place.group == row.group]
        words = list(dict.fromkeys(one.kernel for one in own))
        if sum(one.calls for one in own) < row.calls:
            words.append("codegen" if row.label in {entry.label for entry in self.entries} else "default")
        return " and ".join(words)


ModelResult = Result[ModelDetails]


def _best(result: ModelResult) -> str:
    """The parts of the best model, in words."""
    details, best = result.details, result.best
    if best is None:
        return ""
    parts = [f"route {best.measured.route}"] if best.measured.route else []
    parts += [count(len(details.entries), "entry")] if details.entries else []
    parts += [count(len(details.shipped_kernels), "microkernel")] if details.shipped_kernels else []
    return f"{', '.join(parts)}{'' if result.flagfile else ', not written'}"


def _kernels(details: ModelDetails) -> Sequence[tuple[str, ...]]:
    """The operations that microkernels compute."""
    rows = []
    for row in details.kernels:
        alone, codegen = (microseconds(us) if us is not None else "" for us in (row.us, row.codegen_us))
        rows.append((row.label, str(row.calls), f"{row.share:.1%}", row.kernel, alone, codegen, row.state))
    return rows


def _dispatches(details: ModelDetails) -> Sequence[tuple[str, ...]]:
    """The dispatches by their share."""
    rows = []
    for row in details.rows:
        gain = row.result.speedup if row.result else None
        alone = f"{gain.median:.2f}x" if gain else ""
        words = (row.label, str(row.calls), f"{row.share:.1%}", row.state, alone)
        rows.append((*words, _applied(row, details), details.code(row)))
    if details.others:
        rows.append(("all others", "", f"{details.others:.1%}", "nothing to tune", "", "", "default"))
    return rows


def _applied(row: DispatchRow, details: ModelDetails) -> str:
    """In how many of its dispatches an entry is; what lost as a whole model is in none that ships."""
    if not row.applied:
        return ""
    shipped = any(entry.label == row.label for entry in details.entries)
    return f"{row.applied} of {len(row.group.symbols)}{'' if shipped else ', not shipped'}"
