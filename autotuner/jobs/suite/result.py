"""What a suite comes to: rows, uplift, files, and the contract's JSON document over all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.iree.compile import FAILURE_CLASSES
from autotuner.jobs.suite.rows import TUNED, Row
from autotuner.jobs.suite.ship import Group
from autotuner.jobs.suite.uplift import Uplift
from autotuner.jobs.suite.workload import Workload
from autotuner.measure.race import ALPHA
from autotuner.tuning.result import SCHEMA, FinalVerdict

_COUNTS = ("space", "asked", "built", "cached", "duplicate", "checked", "timed")
_SECONDS = ("space", "build", "time", "search")
_LISTED = 1000
"""Skipped lines that the document holds; a broken log may have any number."""


@dataclass(frozen=True)
class SuiteResult:
    """One run of a suite."""

    run: str
    workload: Workload
    target: str
    device: str
    rows: tuple[Row, ...]
    uplift: Uplift
    groups: tuple[Group, ...]
    """The one that saves most first."""
    estimate: bool
    """Shares are by flops, for nothing was timed."""
    environment: Mapping[str, Any]
    seconds: float
    folder: Path
    notes: tuple[str, ...]
    interrupted: bool

    @property
    def verdict(self) -> FinalVerdict:
        if self.uplift.kept:
            return "win"
        if self.estimate:
            return "compile-only"
        open_ends = ("inconclusive", "failed", "left-out", "waiting")
        if self.interrupted or any(row.verdict in open_ends for row in self.rows):
            return "inconclusive"
        return "no-winner"

    @property
    def reason(self) -> str:
        tuned = sum(row.verdict in TUNED for row in self.rows)
        if self.uplift.kept:
            gain = f"{self.uplift.weighted:.2f} % of the workload's time is saved"
            return f"{self.uplift.kept} of {tuned} tuned problems gain 3 % or more; {gain}"
        words = {
            "compile-only": "no device: built and proven, not timed; shares are an estimate by flops",
            "inconclusive": "no problem gained 3 %, and not all came to a verdict",
            "no-winner": "no problem gained 3 %",
        }
        return words[self.verdict]

    @property
    def exit_code(self) -> int:
        """0, unless problems failed and none came to an end: then what they failed with."""
        failed = [row.exit_code for row in self.rows if row.verdict == "failed"]
        return failed[0] if failed and not any(row.verdict in TUNED for row in self.rows) else 0

    def to_json(self) -> dict[str, Any]:
        main = self.groups[0] if self.groups else None
        return {
            "schema": SCHEMA,
            "run": self.run,
            "problem": {
                "op": "suite",
                "name": self.workload.name,
                "flops": sum(entry.calls * entry.problem.flops for entry in self.workload.entries),
                "bytes": sum(entry.calls * entry.problem.bytes for entry in self.workload.entries),
                "source": self.workload.source,
                "sha256": self.workload.sha256,
            },
            "target": self.target,
            "device": self.device,
            "verdict": self.verdict,
            "reason": self.reason,
            "baseline": {"us": self.uplift.us_total, "flags": []},
            "stock": {"us": None, "flags": []},
            "best": self._best(main),
            "speedup": self._speedup(),
            "speedup_over_stock": None,
            "spec": str(main.spec) if main and main.spec else None,
            "flagfile": str(main.flagfile) if main and main.flagfile else None,
            "carrier": main.carrier if main else None,
            "counts": self._counts(),
            "seconds": {
                **{name: round(sum(row.seconds.get(name, 0.0) for row in self.rows), 3) for name in _SECONDS},
                "total": round(self.seconds, 3),
            },
            "environment": dict(self.environment),
            "notes": list(self.notes),
            "problems": [row.listed() for row in self.rows],
            "uplift": {**self.uplift.to_json(), "estimate": self.estimate},
            "groups": [group.to_json() for group in self.groups],
            "results": str(self.folder),
            "skipped": [one.to_json() for one in self.workload.skipped[:_LISTED]],
            "skipped_count": len(self.workload.skipped),
        }

    def _best(self, main: Group | None) -> dict[str, Any] | None:
        if self.uplift.us_total is None or self.uplift.us_saved is None:
            return None
        kinds = {row.kind for row in self.rows if main and row.problem in main.problems}
        return {
            "us": self.uplift.us_total - self.uplift.us_saved,
            "config": {},
            "flags": list(main.flags) if main else [],
            "kind": "microkernel" if kinds == {"microkernel"} else "codegen",
        }

    def _speedup(self) -> dict[str, float] | None:
        """Of the totals. The ends are those of all problems at once, which holds at least with `confidence`."""
        total = self.uplift.us_total
        kept = [row for row in self.rows if row.kept]
        if not total or not kept:
            return None

        def over(ratios: Iterable[float | None]) -> float:
            pairs = zip(kept, ratios, strict=True)
            saved = sum(row.calls * (row.default_us or 0.0) * (1 - 1 / ratio) for row, ratio in pairs if ratio)
            return total / (total - saved)

        return {
            "median": over(row.ratio for row in kept),
            "low": over(row.low for row in kept),
            "high": over(row.high for row in kept),
            "confidence": max(0.0, 1 - ALPHA * len(kept)),
        }

    def _counts(self) -> dict[str, Any]:
        failed = {name: sum(row.counts.get("failed", {}).get(name, 0) for row in self.rows) for name in FAILURE_CLASSES}
        return {**{name: sum(row.counts.get(name, 0) for row in self.rows) for name in _COUNTS}, "failed": failed}
