"""The result of each problem of a suite, as its tables and its document have it.

Shares and uplifts are per cent of the time that all calls take by default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

from autotuner.errors import AutotuneError
from autotuner.jobs.suite.workload import Entry
from autotuner.measure.blocks import Interval
from autotuner.space.table import ABSENT
from autotuner.store.rows import CandidateRow
from autotuner.store.store import Store
from autotuner.system.files import begins
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Best, FinalVerdict, Result

RowVerdict = FinalVerdict | Literal["failed", "skipped", "below-threshold", "left-out", "waiting"]
RAW, FINAL = "raw_results.csv", "final_results.csv"
TUNED: tuple[RowVerdict, ...] = ("win", "no-winner", "inconclusive", "compile-only")
KEEP_RATIO, KEEP_ERROR = 1.03, 0.03
COLUMNS = (
    *("problem", "op", "arguments", "calls", "share", "default_us", "reference_us", "tuned_us", "ratio", "low", "high"),
    *("verdict", "carrier", "error", "spec", "run", "reason"),
)
"""Of raw_results.csv and final_results.csv. `default_us` was timed at the start; `share` is in per cent, by
`reference_us`: the default beside the winner, else `default_us`."""
OUR_TABLE = begins(f"{','.join(COLUMNS)}\n".encode())
"""Is a file one of our tables?"""


@dataclass(frozen=True)
class Row:
    """One problem."""

    entry: Entry
    verdict: RowVerdict = "waiting"
    reason: str = ""
    share: float | None = None
    default_us: float | None = None
    """Timed first; it makes the share until the problem's own run has timed it."""
    result: Result | None = None
    """Of its own run."""
    speedup: Interval | None = None
    error: float | None = None
    """How far the winner's result is from the reference."""
    binary: str = ""
    """The code that won."""
    exit_code: int = 0
    """The exit code of a failed run of this problem alone."""

    @property
    def name(self) -> str:
        return self.entry.problem.name

    @property
    def kept(self) -> bool:
        """Proven faster, worth it, and right: what final_results.csv holds."""
        if self.verdict != "win" or self.speedup is None or self.error is None:
            return False
        return self.speedup.median >= KEEP_RATIO and self.error < KEEP_ERROR

    @property
    def saved(self) -> float:
        """The part of its time that is saved."""
        return 1 - 1 / self.speedup.median if self.speedup else 0.0

    @property
    def us(self) -> float:
        """All its calls by default, as its own run timed that, else at the start; 0 where it was not timed."""
        return self.entry.calls * (self.reference_us or 0.0)

    @property
    def us_saved(self) -> float:
        return self.us * self.saved

    @property
    def reference_us(self) -> float | None:
        return (self.result.baseline.us if self.result else None) or self.default_us

    @property
    def tuned_us(self) -> float | None:
        best = self.result.best if self.result else None
        return best.us if best and best.candidate != BASELINE else None

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the winner's route, beyond the target's own."""
        return self.result.best.measured.flags if self.result and self.result.best else ()

    def ended(self, result: Result, *, store: Store) -> Row:
        """With the result of its run."""
        best = result.best
        won = next((row for row in store.candidates(result.run) if best is not None and _is(row, best)), None)
        builds = store.builds(result.run) if won is not None else ()
        return replace(
            self,
            verdict=result.verdict,
            reason=result.reason,
            result=result,
            speedup=result.speedup,
            error=won.error if won is not None else None,
            binary=next((one.binary for one in builds if won and one.candidate == won.id and one.binary), ""),
        )

    def failed(self, error: AutotuneError) -> Row:
        return replace(self, verdict="failed", reason=str(error), exit_code=error.exit_code)

    def listed(self) -> dict[str, Any]:
        """As the tables and the JSON document have it."""
        problem, result, speedup = self.entry.problem, self.result, self.speedup
        return {
            "problem": problem.name,
            "op": problem.op,
            "arguments": " ".join(problem.arguments()),
            "calls": self.entry.calls,
            "share": self.share,
            "default_us": self.default_us,
            "reference_us": self.reference_us,
            "tuned_us": self.tuned_us,
            **{name: getattr(speedup, end) if speedup else None for name, end in _ENDS.items()},
            "verdict": self.verdict,
            "carrier": result.carrier if result else None,
            "error": self.error,
            "spec": str(result.spec) if result and result.spec else None,
            "run": result.run if result else None,
            "reason": self.reason,
            "flagfile": str(result.flagfile) if result and result.flagfile else None,
            "kept": self.kept,
            "cold": result.caches.cold.to_json() if result and result.caches else None,
        }


_ENDS = {"ratio": "median", "low": "low", "high": "high"}


def _is(row: CandidateRow, best: Best) -> bool:
    """The row that its check and its build are recorded in."""
    name = best.candidate or ""
    if row.kind == "baseline":
        return name == BASELINE
    if row.kind == "stock":
        return name.startswith("stock-") and row.route == best.measured.route
    knobs = {knob: value for knob, value in row.config.items if value != ABSENT}
    return row.route == best.measured.route and knobs == best.config


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
    us_saved: float | None
    us_total: float | None
    """By default, all calls; None where nothing was timed."""
    kept: int
    problems: int

    @classmethod
    def of(cls, rows: Iterable[Row], *, problems: int, us_total: float | None) -> Uplift:
        kept = [row for row in rows if row.kept]
        ratios = [row.speedup.median for row in kept if row.speedup]
        weighted = math.fsum((row.share or 0.0) * row.saved for row in kept)
        return cls(
            weighted=weighted,
            average=100 * fmean(row.saved for row in kept) if kept else None,
            coverage=math.fsum(row.share or 0.0 for row in kept),
            geometric_mean=math.exp(fmean(map(math.log, ratios))) if kept else None,
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
