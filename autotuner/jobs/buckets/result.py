"""What becomes of a bucket: its winner at other sizes than where it was tuned, and the document of all buckets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from iree.compiler import ir
from iree.compiler.dialects import iree_gpu

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.carriers.render import spec_mlir
from autotuner.iree.compile import first_error
from autotuner.iree.mlir import Dispatch, text_context
from autotuner.iree.run import Benchmark
from autotuner.jobs.buckets.bounds import Bucket, Family
from autotuner.jobs.opening import lengthened
from autotuner.measure.blocks import Entrant, Interval, Rules
from autotuner.measure.check import Check, Data
from autotuner.measure.contest import timed_by
from autotuner.measure.judge import Judge
from autotuner.measure.judgement import Contest
from autotuner.problems.render import dynamic_gemm_mlir, problem_mlir
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.progress import Clock
from autotuner.system.text import microseconds
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.effort import Effort
from autotuner.tuning.printer import Printer, tell_problem
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session

DEFAULT, TUNED = "default", "tuned"
_TILE_AND_FUSE = "TileAndFuse"


@dataclass(frozen=True, slots=True)
class Member:
    """What came of a bucket's configuration at one M, or (`m` None) with an M that is known only when it runs."""

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

    def harms(self, *, smallest_gain: float) -> bool:
        """Slower than the default by more than the smallest gain that counts."""
        return self.speedup is not None and self.speedup.median < 1 / (1 + smallest_gain)


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
class Examiner:
    """Tries one bucket's configuration at its members."""

    family: Family
    bucket: Bucket
    dispatch: Dispatch
    info: CompilationInfo
    target: Target
    session: Session
    builder: Builder
    effort: Effort
    seed: int
    clock: Clock
    """When the bucket's time is over."""

    @property
    def timed(self) -> bool:
        return self.session.device != NO_DEVICE

    @property
    def spec(self) -> str:
        name = self.family.entry_name(self.bucket)
        return spec_mlir(name=name, dispatch=self.dispatch, info=self.info, rows=self.bucket.rows)

    def static(self, m: int, folder: Path) -> Member:
        """A program of this very M."""
        problem = self.target.prepare(self.family.member(m))
        source = problem_mlir(problem)
        build = self._build(source, tuned=True)
        if not build.ok:
            return Member(m, _why(build))
        if not self.timed:
            return Member(m)
        data = Data.write(problem, folder / "inputs", seed=self.seed)
        check = self._check(data, build)
        if not check.ok:
            return Member(m, f"{check.failure}: {check.detail}")
        return self._race(m, source, build, data)

    def dynamic(self, folder: Path) -> Member:
        """A program whose M is known only when it runs; run at the middle one."""
        m = self.bucket.members[len(self.bucket.members) // 2]
        problem = self.target.prepare(self.family.member(m))
        build = self._build(dynamic_gemm_mlir(problem, rows=self.bucket.rows), tuned=True)
        if not build.ok:
            return Member(None, _why(build))
        if self.timed:
            check = self._check(Data.write(problem, folder / "inputs", seed=self.seed), build)
            if not check.ok:
                return Member(None, f"{check.failure}: {check.detail}")
        return Member(None, checked=self.timed)

    def _race(self, m: int, source: str, build: Compiled, data: Data) -> Member:
        baseline = self._build(source, tuned=False)
        if not baseline.ok:
            return Member(m, "IREE's own default does not compile here", checked=True)
        device = self.session.runner
        benchmark = Benchmark(data.invocation(), self.effort.repetition_seconds, self.effort.run_timeout)
        builds = {}
        for name, first in ((DEFAULT, baseline), (TUNED, build)):
            repeated = partial(self._build, source, tuned=name == TUNED)
            builds[name], rough = lengthened(device, first, benchmark, repeated)
            if not rough.ok:
                return Member(m, f"{rough.failure}: {rough.detail[-200:]}")
        contest = Contest(
            entrants=(Entrant(DEFAULT), Entrant(TUNED, complexity=1)),
            baseline=DEFAULT,
            stock=DEFAULT,
            rules=Rules(smallest_gain=self.effort.smallest_gain),
            seed=self.seed,
        )
        takes = timed_by(device, benchmark, builds)
        judgement = Judge(contest, takes, lambda: self.clock.left, self.session.stop).verdict()
        failure = "" if judgement.speedup is not None else f"not raced to the end: {judgement.reason}"
        us = judgement.us
        return Member(m, failure, us.get(TUNED), us.get(DEFAULT), judgement.speedup, checked=True)

    def _build(self, source: str, repeat: int = 1, *, tuned: bool) -> Compiled:
        return self.builder.build(
            BuildJob(
                program=source,
                flags=self.target.compile_flags,
                timeout=self.effort.compile_timeout,
                repeat=repeat,
                timed=self.timed,
                spec=self.spec if tuned else None,
                spec_flag=self.target.spec_flag,
                expected=self.info if tuned else None,
                figures=self.target.figures,
            )
        )

    def _check(self, data: Data, build: Compiled) -> Check:
        return data.checker(self.session.runner, timeout=self.effort.run_timeout).check(build.vmfb)


def _why(build: Compiled) -> str:
    return f"{build.failure}: {first_error(build.stderr)}"


# --- the document -----------------------------------------------------------------------------------------------------


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
