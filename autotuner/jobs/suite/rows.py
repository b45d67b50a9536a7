"""What became of each problem of a suite, as its tables, its document and its results database have it.

Shares and uplifts are per cent of the time that all calls take by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median
from typing import Any, Literal

from autotuner.carriers.carrier import CarrierName
from autotuner.carriers.flagfile import objection
from autotuner.devices.device import Timing
from autotuner.errors import AutotuneError, EnvironmentFailure, StorageError
from autotuner.jobs.suite.workload import Entry
from autotuner.space.table import Config
from autotuner.store.rows import CandidateRow, RunRow
from autotuner.store.store import Store
from autotuner.system.files import begins
from autotuner.tuning.evaluate import candidate_id
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Best, Counts, FinalVerdict, Result, read_result
from autotuner.tuning.run import Run

RowVerdict = FinalVerdict | Literal["failed", "skipped", "below-threshold", "left-out", "waiting"]
RAW, FINAL = "raw_results.csv", "final_results.csv"
TUNED: tuple[RowVerdict, ...] = ("win", "no-winner", "inconclusive", "compile-only")
KEEP_RATIO, KEEP_ERROR = 1.03, 0.03
COLUMNS = (
    *("problem", "op", "arguments", "calls", "share", "default_us", "reference_us", "tuned_us", "ratio", "low", "high"),
    *("verdict", "carrier", "error", "spec", "run", "reason"),
)
"""Of raw_results.csv and final_results.csv. `share` is in per cent and comes from `default_us`, which was timed at the
start; `reference_us` is the default beside the winner."""
OUR_TABLE = begins(f"{','.join(COLUMNS)}\n".encode())
"""Is a file one of our tables?"""
_FAILURES = {"refused": 2, "no-candidate": 3, "wrong-result": 4, "environment": 5}
"""How the row of a problem that failed calls it -> exit code."""


@dataclass(frozen=True)
class Row:
    """One problem. `default_us` was timed first and makes the share; `reference_us` beside the winner."""

    problem: str
    op: str
    arguments: str
    calls: int
    verdict: RowVerdict = "waiting"
    reason: str = ""
    share: float | None = None
    default_us: float | None = None
    reference_us: float | None = None
    tuned_us: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    cold: Mapping[str, Any] | None = None
    """The default and the best with a cold cache, where they were timed so."""
    carrier: CarrierName | None = None
    kind: str | None = None
    error: float | None = None
    spec: str | None = None
    flagfile: str | None = None
    flags: tuple[str, ...] = ()
    """Of the winner's route, beyond the target's own."""
    binary: str = ""
    """The code that won."""
    run: str | None = None
    interrupted: bool = False
    exit_code: int = 0
    """What a failure would have ended a run of this problem alone with."""
    counts: Counts | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: Entry) -> Row:
        problem = entry.problem
        return cls(problem.name, problem.op, " ".join(problem.arguments()), entry.calls)

    @property
    def kept(self) -> bool:
        """Proven faster, worth it, and right: what final_results.csv holds."""
        if self.verdict != "win" or self.ratio is None or self.error is None:
            return False
        return self.ratio >= KEEP_RATIO and self.error < KEEP_ERROR

    @property
    def saved(self) -> float:
        """The part of its time that is saved."""
        return 1 - 1 / (self.ratio or 1.0)

    @property
    def us_saved(self) -> float:
        return self.calls * (self.default_us or 0.0) * self.saved

    @property
    def finished(self) -> bool:
        """A resumed run does not do it again; what the environment broke may be whole by then."""
        if self.verdict == "failed":
            return self.exit_code != EnvironmentFailure.exit_code
        return self.verdict in TUNED and not self.interrupted

    def listed(self) -> dict[str, Any]:
        """As the JSON document has it."""
        own = {"flagfile": self.flagfile, "kept": self.kept, "cold": self.cold}
        return {**{name: getattr(self, name) for name in COLUMNS}, **own}


def outcome(result: Result, *, store: Store) -> dict[str, Any]:
    """The fields of a row that a tuning run fills."""
    best, speedup = result.best, result.speedup
    row = next((row for row in store.candidates(result.run) if best is not None and _is(row, best)), None)
    builds = store.builds(result.run) if row is not None else ()
    return {
        "verdict": result.verdict,
        "reason": result.reason,
        "reference_us": result.baseline.us,
        "tuned_us": best.us if best and best.candidate != BASELINE else None,
        "ratio": speedup.median if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
        "cold": result.caches.cold.to_json() if result.caches else None,
        "carrier": result.carrier,
        "kind": best.kind if best else None,
        "error": row.error if row is not None else None,
        "spec": str(result.spec) if result.spec else None,
        "flagfile": str(result.flagfile) if result.flagfile else None,
        "flags": best.measured.flags if best else (),
        "binary": next((one.binary for one in builds if row and one.candidate == row.id and one.binary), ""),
        "run": result.run,
        "interrupted": result.interrupted,
        "exit_code": 0,
        "counts": result.counts,
        "seconds": dict(result.seconds),
    }


def failure(reason: str, exit_code: int) -> dict[str, Any]:
    """The fields of a row whose problem failed."""
    return {"verdict": "failed", "reason": reason, "exit_code": exit_code, "interrupted": False}


def _is(row: CandidateRow, best: Best) -> bool:
    """The row that its check and its build are recorded in."""
    name = best.candidate or ""
    if row.kind == "baseline":
        return name == BASELINE
    if row.kind == "stock":
        return name.startswith("stock-") and row.route == best.measured.route
    return name == candidate_id(row.ordinal)


@dataclass(frozen=True, slots=True)
class Uplift:
    """The workload's gain over all kept problems; None where nothing was kept."""

    weighted: float
    """Per cent of the workload's time: Σ share·(1 − 1/ratio)."""
    average: float | None
    """Per cent: the mean of 1 − 1/ratio, whatever the shares."""
    coverage: float
    """Per cent of the workload's time that kept problems stand for."""
    geometric_mean: float | None
    """Of the ratios."""
    median: float | None
    us_saved: float | None
    us_total: float | None
    """By default, all calls; None where nothing was timed."""
    kept: int
    problems: int

    @classmethod
    def of(cls, rows: Iterable[Row], *, problems: int, us_total: float | None) -> Uplift:
        kept = [row for row in rows if row.kept]
        ratios = [row.ratio or 1.0 for row in kept]
        weighted = math.fsum((row.share or 0.0) * row.saved for row in kept)
        return cls(
            weighted=weighted,
            average=100 * fmean(row.saved for row in kept) if kept else None,
            coverage=math.fsum(row.share or 0.0 for row in kept),
            geometric_mean=math.exp(fmean(map(math.log, ratios))) if kept else None,
            median=median(ratios) if kept else None,
            us_saved=None if us_total is None else us_total * weighted / 100,
            us_total=us_total,
            kept=len(kept),
            problems=problems,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def shares(weights: Sequence[float]) -> list[float]:
    """Per cent of the whole."""
    total = math.fsum(weights)
    return [100 * weight / total if total > 0 else 0.0 for weight in weights]


# --- what a run that goes on has from before --------------------------------------------------------------------------


@dataclass(frozen=True)
class ProblemRows:
    """The suite's own rows in the database, one a problem: how long IREE's default takes, or how it failed."""

    run: Run
    _known: dict[str, CandidateRow] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> ProblemRows:
        """With those that the run has from before."""
        known = {_problem(row): row for row in run.earlier or () if row.kind == "default"}
        return cls(run, known, {name: row.id for name, row in known.items()})

    @property
    def defaults(self) -> dict[str, float]:
        """The times that are known."""
        return {name: row.us for name, row in self._known.items() if row.us is not None}

    def time(self, problem: str, us: float) -> None:
        row, store = self._id(problem), self.run.session.store
        store.restart_candidate(row)
        store.record_timing(row, Timing((us,)), phase="screen", block=0)

    def fail(self, problem: str, error: AutotuneError) -> None:
        """It may have failed before there was a run of its own."""
        named = next((name for name, code in _FAILURES.items() if code == error.exit_code), "environment")
        self.run.session.store.record_failure(self._id(problem), named, stderr=str(error))

    def _id(self, problem: str) -> int:
        if problem not in self._ids:
            self._ids[problem] = self.run.candidate("default", "", Config.of({"problem": problem}))
        return self._ids[problem]

    def recall(self, rows: Mapping[str, Row]) -> tuple[dict[str, Row], frozenset[str]]:
        """The rows of what is finished, and the problems whose tuning was cut short: their runs go on."""
        with self.run.session.store.intact():
            parts = {str(part.problem["name"]): part for part in self.run.session.store.parts(self.run.id)}
            found = {name: self._recalled(row, parts.get(name)) for name, row in rows.items()}
        known = {name: row for name, row in found.items() if row.finished}
        begun = {name for name, part in parts.items() if part.status in ("running", "interrupted")}
        return known, frozenset(begun & rows.keys()) - known.keys()

    def _recalled(self, row: Row, part: RunRow | None) -> Row:
        """What a problem came to, as far as it is known."""
        run, tried = self.run, self._known.get(row.problem)
        if part is not None and part.status == "finished" and part.result is not None:
            workspace, store = run.session.workspace.root, run.session.store
            result = read_result(part.result, workspace=workspace, storage=run.options.storage)
            done = replace(row, **outcome(result, store=store))
            # A database may come from anybody, and these flags go into a compile.
            if objection([flag for flag in done.flags if flag not in run.target.user_flags]):
                raise StorageError(
                    f"{store.name} holds flags for {row.problem} that autotune does not write.",
                    remedy="Run without --resume to start anew.",
                )
            return done
        if tried is not None and tried.state == "failed":
            return replace(row, **failure(tried.stderr, _FAILURES.get(tried.failure, 1)))
        return row


def _problem(row: CandidateRow) -> str:
    return str(row.config.as_dict().get("problem", ""))
