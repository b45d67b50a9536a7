"""What became of each problem of a suite: a row of raw_results.csv and of the JSON document."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from autotuner.carriers.carrier import CarrierName
from autotuner.errors import AutotuneError, EnvironmentFailure, UsageError
from autotuner.jobs.suite.uplift import is_kept
from autotuner.jobs.suite.workload import Entry
from autotuner.store.rows import CandidateRow
from autotuner.store.store import Store
from autotuner.tuning.counts import Counts
from autotuner.tuning.evaluate import candidate_id
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Best, FinalVerdict, Result

RowVerdict = FinalVerdict | Literal["failed", "skipped", "below-threshold", "left-out", "waiting"]
RAW, FINAL = "raw_results.csv", "final_results.csv"
TUNED: tuple[RowVerdict, ...] = ("win", "no-winner", "inconclusive", "compile-only")
COLUMNS = (
    *("problem", "op", "arguments", "calls", "share", "default_us", "reference_us", "tuned_us", "ratio", "low", "high"),
    *("verdict", "carrier", "error", "spec", "run", "reason"),
)
"""Of raw_results.csv and final_results.csv. `share` is in per cent and comes from `default_us`, which was timed at the
start; `reference_us` is the default beside the winner."""
_HEADERS = (COLUMNS, tuple(name for name in COLUMNS if name != "default_us"))
"""Of our tables, earlier versions' among them."""


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
        return is_kept(verdict=self.verdict, ratio=self.ratio, error=self.error)

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
        "error": _error(result, store),
        "spec": str(result.spec) if result.spec else None,
        "flagfile": str(result.flagfile) if result.flagfile else None,
        "flags": best.measured.flags if best else (),
        "run": result.run,
        "interrupted": result.interrupted,
        "exit_code": 0,
        "counts": result.counts,
        "seconds": dict(result.seconds),
    }


def failure(error: AutotuneError) -> dict[str, Any]:
    return {"verdict": "failed", "reason": str(error), "exit_code": error.exit_code, "interrupted": False}


def _error(result: Result, store: Store) -> float | None:
    """How far the best candidate's result was from the reference, as its check recorded it."""
    best = result.best
    if best is None or best.candidate is None:
        return None
    return next((row.error for row in store.candidates(result.run) if _is(row, best)), None)


def _is(row: CandidateRow, best: Best) -> bool:
    name = best.candidate or ""
    if row.kind == "baseline":
        return name == BASELINE
    if row.kind == "stock":
        return name.startswith("stock-") and row.route == best.measured.route
    return name == candidate_id(row.ordinal)


def refuse_foreign(path: Path) -> None:
    """A table is written over only where the header says that it is one of ours."""
    if os.path.lexists(path) and not _is_table(path):
        raise UsageError(
            f"{path} is there and was not written by autotune.", remedy="Move it away, or choose another --workspace."
        )


def _is_table(path: Path) -> bool:
    headers = [",".join(columns) for columns in _HEADERS]
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            with path.open(encoding="utf-8", errors="replace") as file:
                return file.readline(max(map(len, headers)) + 1).rstrip("\n") in headers
    return False


def to_csv(rows: Iterable[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([getattr(row, name) for name in COLUMNS] for row in rows)
    return text.getvalue()
