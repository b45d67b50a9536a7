"""What a run comes to: the JSON document of the contract, and a frame of its candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from autotuner.measure.race import Interval
from autotuner.store.store import Store
from autotuner.tuning.plan import Carrier

SCHEMA = 1
_PLAIN = (
    *("run", "problem", "target", "device", "verdict", "reason", "baseline", "stock", "best", "carrier"),
    *("counts", "seconds", "environment"),
)
"""What a result's document has just as the result has it."""
FinalVerdict = Literal["win", "no-winner", "inconclusive", "compile-only"]


@dataclass(frozen=True)
class Result:
    """One finished run."""

    run: str
    problem: Mapping[str, Any]
    target: str
    device: str
    verdict: FinalVerdict
    reason: str
    baseline: Mapping[str, Any]
    stock: Mapping[str, Any]
    best: Mapping[str, Any] | None
    speedup: Interval | None
    speedup_over_stock: Interval | None
    confidence: float
    spec: Path | None
    flagfile: Path | None
    carrier: Carrier | None
    counts: Mapping[str, Any]
    seconds: Mapping[str, float]
    environment: Mapping[str, Any]
    notes: tuple[str, ...]
    interrupted: bool
    workspace: Path
    storage: str | None
    ranking: tuple[Mapping[str, Any], ...] = ()
    """Without a device: the most promising candidates, by estimate."""

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "problem": dict(self.problem),
            "target": self.target,
            "device": self.device,
            "verdict": self.verdict,
            "reason": self.reason,
            "baseline": dict(self.baseline),
            "stock": dict(self.stock),
            "best": dict(self.best) if self.best else None,
            "speedup": _interval(self.speedup, confidence=self.confidence),
            "speedup_over_stock": _interval(self.speedup_over_stock, confidence=self.confidence),
            "spec": str(self.spec) if self.spec else None,
            "flagfile": str(self.flagfile) if self.flagfile else None,
            "carrier": self.carrier,
            "counts": dict(self.counts),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "environment": dict(self.environment),
            "notes": list(self.notes),
            **({"ranking": [dict(entry) for entry in self.ranking]} if self.ranking else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], *, workspace: Path, storage: str | None) -> Result:
        """What `to_json` gave, read back from a results database."""
        values: dict[str, Any] = {name: document[name] for name in _PLAIN}
        for name in ("spec", "flagfile"):
            values[name] = Path(document[name]) if document.get(name) else None
        speedup = document.get("speedup")
        return cls(
            **values,
            speedup=_read_interval(speedup),
            speedup_over_stock=_read_interval(document.get("speedup_over_stock")),
            confidence=speedup["confidence"] if speedup else 0.0,
            notes=tuple(document["notes"]),
            interrupted=False,
            workspace=workspace,
            storage=storage,
            ranking=tuple(document.get("ranking", ())),
        )

    def to_frame(self) -> pd.DataFrame:
        """This run's timed candidates, one a row."""
        with Store.open(self.storage, workspace=self.workspace, create=False) as store:
            return store.frame(self.run)


def _read_interval(table: Mapping[str, float] | None) -> Interval | None:
    return Interval(table["median"], table["low"], table["high"]) if table else None


def _interval(interval: Interval | None, *, confidence: float) -> dict[str, float] | None:
    if interval is None:
        return None
    return {
        "median": interval.median,
        "low": interval.low,
        "high": interval.high,
        "confidence": confidence,
    }
