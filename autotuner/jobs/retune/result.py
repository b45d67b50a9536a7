"""The result of retuning: the contract's JSON document, with every entry beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text

from autotuner.carriers.flagfile import use_line
from autotuner.carriers.provenance import Provenance
from autotuner.errors import EnvironmentFailure
from autotuner.measure.blocks import ALPHA, Interval
from autotuner.measure.causes import CAUSES
from autotuner.specfiles.provenance import to_json
from autotuner.system.listing import Listing
from autotuner.system.text import count
from autotuner.tuning.printer import Printer, Told, shown
from autotuner.tuning.result import Best, Counts, Files, FinalVerdict, Measured, Result

if TYPE_CHECKING:
    from autotuner.tuning.run import Run

State = Literal["kept", "replaced", "dropped", "skipped", "failed"]
STYLES: Mapping[State, str] = {
    "kept": "green",
    "replaced": "bold green",
    "dropped": "yellow",
    "skipped": "yellow",
    "failed": "red",
}


@dataclass(frozen=True)
class Raced:
    """The old winner against the new default."""

    verdict: FinalVerdict
    reason: str
    us: float | None = None
    baseline_us: float | None = None
    speedup: Interval | None = None
    run: str = ""
    binary: str = ""
    """The digest of its code."""
    failure: str = ""
    """Why it cannot be raced: it does not compile, run, or compute the right thing any more."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Raced:
        """By the document of an experiment."""
        speedup, best = document["speedup"], document["best"] or {}
        interval = Interval(speedup["median"], speedup["low"], speedup["high"]) if speedup else None
        return cls(
            document["verdict"],
            document["reason"],
            best.get("us"),
            document["baseline"]["us"],
            interval if interval and math.isfinite(interval.high) else None,
            document["run"],
            next((arm.get("binary", "") for arm in document["arms"][1:]), ""),
        )

    @property
    def ratio(self) -> str:
        return str(self.speedup or "")


@dataclass(frozen=True)
class EntryRow:
    """One entry, and its state."""

    spec: Path
    """The file that it stands in."""
    entry: str
    """Empty where nothing of a file can be retuned."""
    problem: str
    state: State
    reason: str
    applied: int = 0
    """How many operations it is proven to reach."""
    old: Provenance | None = None
    """Its recorded figures; an entry of a model has those of its dispatch alone."""
    raced: Raced | None = None
    """Against the new default: the whole of a model."""
    alone: bool = True
    """Its problem was raced, and not a model that has it."""
    id: str = ""
    """Its key among the entries of its file."""
    said: Provenance | None = None
    """Its new provenance; None where it does not stay."""

    def to_json(self) -> dict[str, Any]:
        raced, old = self.raced, self.old
        before = old if self.alone else None
        return {
            "spec": str(self.spec),
            "entry": self.entry,
            "problem": self.problem,
            "state": self.state,
            "reason": self.reason,
            "applied": self.applied,
            "us": raced.us if raced else None,
            "baseline_us": raced.baseline_us if raced else None,
            "speedup": raced.speedup.to_json() if raced and raced.speedup else None,
            "run": raced.run if raced else "",
            "before_us": before.us if before else None,
            "before_baseline_us": before.baseline_us if before else None,
            "old": to_json(old) if old else None,
        }


@dataclass(frozen=True)
class Written:
    """The files that a unit became."""

    unit: Path
    files: Files

    def to_json(self) -> dict[str, Any]:
        names = {"spec": self.files.spec, "flagfile": self.files.flagfile}
        return {"from": str(self.unit), **{name: str(path) if path else None for name, path in names.items()}}


@dataclass(frozen=True)
class RetuneDetails(Told):
    """What retuning's document has beside the contract's."""

    rows: tuple[EntryRow, ...] = ()
    written: tuple[Written, ...] = ()

    @property
    def counted(self) -> Counter[State]:
        return Counter(row.state for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0, unless entries failed and none finished."""
        return EnvironmentFailure.exit_code if set(self.counted) - {"skipped"} == {"failed"} else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "entries": [row.to_json() for row in self.rows],
            "states": {state: self.counted[state] for state in STYLES},
            "written": [one.to_json() for one in self.written],
        }

    def tell(self, result: RetuneResult, printer: Printer) -> None:
        """Each entry with its state, and what to use from now on."""
        line = printer.line
        printer.verdict(result, what="retuned")
        if self.rows:
            short = [(row.entry or row.spec.name, Text(row.state, STYLES[row.state]), row.reason) for row in self.rows]
            printer.table(Listing.of(["entry", "state", "reason"], short))
        for one in self.written:
            if one.files.spec is not None:
                line("spec", shown(one.files.spec))
            if one.files.flagfile is not None:
                line("use", use_line(Path(shown(one.files.flagfile))))
        if not self.written:
            line("next", _next(result))
        printer.end(result)


RetuneResult = Result[RetuneDetails]


def retune_result(run: Run, details: RetuneDetails) -> RetuneResult:
    """The totals; the figures of a single race are the result's own."""
    verdict = _verdict(details, timed=run.timed, interrupted=run.stopped)
    raced = {row.raced.run: row.raced for row in details.rows if row.raced is not None}
    only = next(iter(raced.values())) if len(raced) == 1 else None
    main = details.written[0].files if len(details.written) == 1 else Files()
    return Result(
        **run.facts(),
        verdict=verdict,
        reason=_reason(details),
        baseline=Measured(only.baseline_us if only else None),
        stock=Measured(),
        best=Best(Measured(only.us), {}) if only else None,
        speedup=only.speedup if only else None,
        speedup_over_stock=None,
        confidence=1 - ALPHA,
        counts=Counts(asked=len(details.rows), timed=len(raced), rivals=len(raced)),
        files=main,
        details=details,
    )


def _verdict(details: RetuneDetails, *, timed: bool, interrupted: bool) -> FinalVerdict:
    """`win`: every entry that stays is faster than the new default, by a race of today."""
    if interrupted:
        return "inconclusive"
    if not timed:
        return "compile-only"
    staying = [row for row in details.rows if row.state in ("kept", "replaced")]
    if any(row.state == "kept" and (row.raced is None or row.raced.verdict != "win") for row in staying):
        return "inconclusive"
    if staying:
        return "win"
    undecided = any(row.state == "failed" for row in details.rows) or all(
        row.state == "skipped" for row in details.rows
    )
    return "inconclusive" if undecided else "no-winner"


def _reason(details: RetuneDetails) -> str:
    counted = details.counted
    parts = [f"{counted[state]} {state}" for state in STYLES if counted[state]]
    return f"of {count(len(details.rows), 'entry')} {', '.join(parts) or 'none was looked at'}"


def _next(result: RetuneResult) -> str:
    states = set(result.details.counted)
    if result.interrupted:
        return CAUSES["interrupted"].do
    if result.verdict == "compile-only":
        return "run the same command where the device is: it races each entry. With -o what applies is written"
    if states <= {"skipped"}:
        return "give what the reasons name"
    if states & {"failed", "kept"}:
        return "keep the old files; the reasons and notes say why nothing was written"
    return "compile without the spec: IREE's default is as fast, or nothing of it works any more"
