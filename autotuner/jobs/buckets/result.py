"""A bucket's result: its winner at other sizes than where it was tuned, and the document of all buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from iree.compiler import ir
from iree.compiler.dialects import iree_gpu

from autotuner.errors import OutOfTimeError
from autotuner.iree.mlir import Dispatch, text_context
from autotuner.jobs.buckets.bounds import Bucket
from autotuner.measure.blocks import Interval
from autotuner.space.dispatch import CompilationInfo
from autotuner.system.text import microseconds
from autotuner.tuning.printer import Printer, Told, tell_problem
from autotuner.tuning.result import Result

_TILE_AND_FUSE = "TileAndFuse"


@dataclass(frozen=True, slots=True)
class Member:
    """The result of a bucket's configuration at one M, or (`m` None) with an M that is known only when it runs."""

    m: int | None
    failure: str = ""
    us: float | None = None
    baseline_us: float | None = None
    speedup: Interval | None = None
    checked: bool = False
    """It was run, and its result is right."""

    def to_json(self) -> dict[str, Any]:
        speedup = self.speedup.to_json() if self.speedup else None
        known = {"us": self.us, "baseline_us": self.baseline_us, "speedup": speedup}
        said = {"failure": self.failure or None, "checked": self.checked}
        return {"m": self.m if self.m is not None else "dynamic", **said, **known}

    @classmethod
    def of(cls, m: int | None, result: Result[Any]) -> Member:
        """By a race with the default."""
        if result.verdict == "compile-only":
            return cls(m)
        if result.speedup is None and result.ended == "out-of-time":
            raise OutOfTimeError(f"M = {m or 'dynamic'}: {result.reason}")
        late = "" if result.speedup is not None else f"not raced to the end: {result.reason}"
        us = result.best.us if result.best else None
        return cls(m, late, us, result.baseline.us, result.speedup, checked=True)


def for_all_rows(info: CompilationInfo) -> CompilationInfo:
    """The configuration for sizes that its tiles do not divide: on GPUs TileAndFuse then needs padding."""
    with text_context():
        if f"<{_TILE_AND_FUSE}>" not in info.translation_info:
            return info
        config = ir.Attribute.parse(info.lowering_config)
        if not isinstance(config, iree_gpu.LoweringConfigAttr) or config.mma_kind is None:
            return info
        parts = {entry.name: entry.attr for entry in config.attributes}
        if "padding" in parts:
            return info
        workgroup, reduction = list(config.workgroup_tile_sizes), list(config.reduction_tile_sizes)
        reduction[-1] *= config.mma_kind.mnk_shape[2]  # It counts in the instruction's K.
        index = ir.IntegerType.get_signless(64)
        tiles = [ir.IntegerAttr.get(index, max(pair)) for pair in zip(workgroup, reduction, strict=True)]
        padded = iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get({**parts, "padding": ir.ArrayAttr.get(tiles)}))
        return replace(info, lowering_config=str(padded))


@dataclass(frozen=True)
class BucketResult:
    """The state of one bucket."""

    bucket: Bucket
    result: Result | None
    """Of the run at its bound; None when there was none."""
    reason: str
    members: tuple[Member, ...] = ()
    spec: str = ""
    """The winner's, for all sizes; empty where the default is kept."""
    dispatch: Dispatch | None = None
    late: bool = False
    """The time was up before more was known."""

    @property
    def kept(self) -> Literal["tuned", "default"]:
        return "tuned" if self.spec else "default"

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
class FamilyDetails(Told):
    """Beside the contract's document, whose figures are those of the bucket in which --shape's own M falls."""

    buckets: tuple[BucketResult, ...]

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
                    times = f"{microseconds(member.us)}, default {microseconds(member.baseline_us)}"
                    told = f"{times}, {member.speedup}"
                printer.more(one.bucket.name, f"{where}: {told}")


FamilyResult = Result[FamilyDetails]
