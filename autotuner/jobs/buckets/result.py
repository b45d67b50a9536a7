"""What tuning a family comes to: the contract's JSON document, with the buckets beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from autotuner.iree.mlir import Dispatch
from autotuner.jobs.buckets.bounds import Bucket
from autotuner.jobs.buckets.members import Member
from autotuner.jobs.buckets.printing import tell_family
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import Result


@dataclass(frozen=True)
class BucketResult:
    """What became of one bucket."""

    bucket: Bucket
    result: Result | None
    """Of the run at its bound; None when there was none."""
    kept: Literal["tuned", "default"]
    reason: str
    members: tuple[Member, ...] = ()
    spec: str = ""
    dispatch: Dispatch | None = None

    def to_json(self) -> dict[str, Any]:
        run = self.result.to_json() if self.result else {}
        names = ("run", "verdict", "reason", "baseline", "best", "speedup", "warm", "cold", "counts")
        return {
            "bucket": self.bucket.name,
            "low": self.bucket.low,
            "high": self.bucket.high,
            "tuned_at": self.bucket.at,
            "uses": self.kept,
            "why": self.reason,
            "members": [member.to_json() for member in self.members],
            **{name: run.get(name) for name in names},
        }


@dataclass(frozen=True)
class FamilyDetails:
    """Beside the contract's document, whose figures are those of the bucket in which --shape's own M falls."""

    buckets: tuple[BucketResult, ...]

    default_is_wrong = False

    @property
    def tried(self) -> int:
        return 0

    def to_json(self) -> dict[str, Any]:
        return {"buckets": [bucket.to_json() for bucket in self.buckets]}

    def tell(self, result: FamilyResult, printer: Printer) -> None:
        tell_family(result, printer)


FamilyResult = Result[FamilyDetails]
