"""What tuning a family comes to: the contract's JSON document, with the buckets beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from autotuner.iree.mlir import Dispatch
from autotuner.jobs.buckets.bounds import Bucket
from autotuner.jobs.buckets.members import Member
from autotuner.system.text import microseconds
from autotuner.tuning.printer import Printer, tell_problem
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
        """The verdict, each bucket, and what to do with it."""
        tell_problem(result, printer)
        for one in result.details.buckets:
            printer.line("bucket", f"{one.bucket.text}: {one.kept}, {one.reason}")
            for member in one.members:
                where = "dynamic M" if member.m is None else f"M = {member.m}"
                told = member.failure or ("built, proven and right" if member.checked else "built and proven")
                if member.speedup is not None:
                    span = f"{member.speedup.median:.3f}x ({member.speedup.bounds})"
                    told = f"{microseconds(member.us)}, default {microseconds(member.baseline_us)}, {span}"
                printer.line("", f"  {where}: {told}")


FamilyResult = Result[FamilyDetails]
