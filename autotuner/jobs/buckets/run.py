"""Tunes a family: each bucket on its own, merged where it is nowhere slower, and proven as one file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack

from autotuner.build import BuildJob
from autotuner.build.ship import compile_shipped, ship
from autotuner.carriers.carrier import Parts, SpecCarrier
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import Outputs, files_in
from autotuner.carriers.provenance import Provenance
from autotuner.carriers.render import spec_mlir
from autotuner.errors import (
    AutotuneError,
    DeviceError,
    EnvironmentFailure,
    NoCandidateError,
    OutOfTimeError,
    UsageError,
    WrongResultError,
)
from autotuner.iree.compile import first_error
from autotuner.jobs.ab.arms import DEFAULT, SpecArm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import experiment
from autotuner.jobs.buckets.bounds import Bucket, Family
from autotuner.jobs.buckets.result import BucketResult, FamilyDetails, FamilyResult, Member, for_all_rows
from autotuner.measure.check import Data
from autotuner.problems.render import Rows, dynamic_gemm_mlir, problem_mlir
from autotuner.specfiles.applied import applied
from autotuner.specfiles.merge import merge
from autotuner.system import process
from autotuner.system.digests import read_by_flags
from autotuner.targets import Target
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import Candidate
from autotuner.tuning.result import Counts, Files, FinalVerdict, Result, with_details
from autotuner.tuning.run import Job, Question, Run, Turn
from autotuner.tuning.session import Watched
from autotuner.tuning.ship import ESTIMATED
from autotuner.tuning.single import Found
from autotuner.tuning.tune import search

_OF_A_RANGE = Task(ship=False, recall=True, rows_vary=True)
_Program = tuple[BucketResult | None, str, str]
"""Whose entry must apply, what the program is, and its text."""


def plain_only(target: Target) -> Target:
    """Without the stock routes of a processor: those are flags for the whole program."""
    return replace(target, knobs=()) if target.backend.on_host else target


def tune_family(
    family: Family,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> FamilyResult:
    """Tunes every bucket at its bound, and ships one spec of those whose winner harms no other size of the bucket."""
    options = options or Options()
    if options.named_microkernels:
        raise UsageError("--bucket-m takes no microkernels: each is for one shape.", remedy="Leave --microkernels out.")
    options, target = replace(options, microkernels=()), plain_only(target)
    for bucket in family.buckets:
        target.prepare(family.member(bucket.at))
    with Job.open(target, options, watched, otherwise=math.inf) as job:
        session, files = job.session, job.outputs(family.name)
        files.claim(files_in(target.user_flags))
        arguments = (*family.arguments(), *(str(bucket.at) for bucket in family.buckets))
        question = Question(
            kind="buckets",
            problem={**family.gemm.describe(), "name": family.name},
            target=target,
            asks={"name": family.name, "arguments": arguments},
            reads=(
                *session.tools.programs,
                *read_by_flags(target.user_flags, folder=session.workspace.candidates),
            ),
            recalls=True,
        )
        with job.begin(question) as run:
            return _FamilyRun(family, run, files).go()


@dataclass
class _FamilyRun:
    family: Family
    run: Run
    files: Outputs
    failures: list[AutotuneError] = field(default_factory=list)
    """Causes of buckets without a result."""

    def __post_init__(self) -> None:
        self.target, self.options, self.session = self.run.target, self.run.options, self.run.session

    def go(self) -> FamilyResult:
        done: list[BucketResult] = []
        self.run.tell_resumed("bucket")
        buckets, ends = self.family.buckets, self.run.clock.phase("parts")
        for bucket, part_result in self.run.parts(
            buckets, self._bucket, name=lambda one: f"bucket {one.name}", before=ends
        ):
            if isinstance(part_result, AutotuneError):
                self.failures.append(part_result)
                late = isinstance(part_result, OutOfTimeError)
                done.append(BucketResult(bucket, None, reason=part_result.message, late=late))
            elif part_result is not None:
                done.append(part_result)
            elif not self.run.stopped:
                done.append(BucketResult(bucket, None, reason="ran out of time before its turn", late=True))
        files = Files()
        tuned = [one for one in done if one.spec]
        if tuned and not self.run.stopped and (self.run.timed or self.options.output is not None):
            self.session.reporter.stage(f"merging {len(tuned)} buckets, and proving what each M gets")
            files = self._ship(done)
        result = self._document(done, files)
        self.run.finish(result)
        return result

    # --- one bucket -----------------------------------------------------------------------------------------------

    def _bucket(self, turn: Turn[Bucket]) -> BucketResult:
        bucket, clock, session = turn.what, turn.job(self.target).account.clock, turn.session
        options = replace(turn.options, budget=clock.until(clock.phase("bucket")))
        problem = self.target.prepare(self.family.member(bucket.at))
        found = search(problem, self.target, options=options, session=session, task=_OF_A_RANGE)
        result, chosen = found.result, found.chosen
        kept = BucketResult(bucket, result, reason=f"{result.verdict}: {result.reason}")
        try:
            with process.until(clock.latest):
                if result.verdict in ("win", "compile-only") and chosen is not None and not self.run.stopped:
                    kept = self._entry(turn, kept, result, chosen, won=True)
                if kept.spec or self.run.stopped or (own := self._own_choice(bucket, found)) is None:
                    return kept
                other = self._entry(turn, kept, result, own, won=False)
                return other if other.spec else kept
        except OutOfTimeError:
            what = "the compiler's own choice" if kept.members else "it"
            return replace(kept, late=True, reason=f"{kept.reason}; no time was left to race {what} at other sizes")

    def _entry(
        self, turn: Turn[Bucket], plain: BucketResult, result: Result, winner: Candidate, *, won: bool
    ) -> BucketResult:
        """With the entry of a candidate, or why it has none."""
        bucket = turn.what
        if winner.info is None or winner.dispatch is None:
            return plain
        if len(winner.dispatch.dims("m")) != 1:
            return replace(plain, reason="to the compiler this is a matrix-vector product, without an M")
        turn.session.reporter.stage(
            "the winner at other sizes" if won else "the compiler's own choice with a dynamic M"
        )
        info = for_all_rows(winner.info)
        entry = partial(
            spec_mlir, name=self.family.entry_name(bucket), dispatch=winner.dispatch, info=info, rows=bucket.rows
        )
        members = self._members(turn, entry(), result if won and info == winner.info else None, won=won)
        if reason := self._objection(bucket, members, won=won):
            return replace(plain, reason=reason, members=members)
        how = "best by estimate, not timed" if result.verdict == "compile-only" else result.reason
        if not won:
            how = "as the compiler does it where M is static; where it is not, the default has no matrix instructions"
        text = entry(provenance=self._provenance(bucket, result, members))
        return replace(plain, reason=how, members=members, spec=text, dispatch=winner.dispatch)

    def _own_choice(self, bucket: Bucket, found: Found) -> Candidate | None:
        """That of the compiler for static sizes, where its code for a dynamic M lacks the matrix instructions."""
        if found.plan.gpu is None or not found.plan.first:
            return None
        problem = self.target.prepare(self.family.member(bucket.at))
        jobs = [
            BuildJob(
                source, self.target.compile_flags, self.options.effort.compile_timeout, figures=self.target.figures
            )
            for source in (problem_mlir(problem), dynamic_gemm_mlir(problem, rows=bucket.rows))
        ]
        static, dynamic = map(self.session.builder.build, jobs)
        lost = static.ok and dynamic.ok and static.isa.mma and not dynamic.isa.mma
        return found.plan.candidate(found.plan.first[0], id="own") if lost else None

    def _members(self, turn: Turn[Bucket], text: str, raced: Result | None, *, won: bool) -> tuple[Member, ...]:
        """The entry at other sizes of its bucket; at the bound as its run has `raced` it, where it is the same."""
        bucket, clock = turn.what, turn.job(self.target).account.clock
        path = self.run.folder / f"{bucket.name}.mlir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

        def at(m: int, seconds: float) -> Member:
            own = raced if m == bucket.at and self.run.timed else None
            return Member.of(m, own) if own else self._member(turn, m, path, seconds)

        members: list[Member] = []
        for _, member in clock.in_turn(bucket.members, at):
            if not isinstance(member, Member):
                raise member or OutOfTimeError
            members.append(member)
            if self._objection(bucket, members, won=won):
                return tuple(members)
        dynamic = self._dynamic(bucket, path)
        if not (won or dynamic.failure):  # it is for what learns M when it runs
            middle = bucket.members[len(bucket.members) // 2]
            dynamic = self._member(turn, middle, path, clock.until(clock.end), bucket.rows)
        return (*members, dynamic)

    def _member(self, turn: Turn[Bucket], m: int, spec: Path, seconds: float, rows: Rows | None = None) -> Member:
        """A program of this very M, or (with `rows`) one that learns it when it runs: the experiment of `ab`."""
        said = f"M = {m}: " if rows is None else f"a dynamic M of {m}: "
        budget = None if math.isinf(seconds) else seconds
        options = replace(turn.options, cache="warm", trials=None, budget=budget)
        wanted = Experiment(DEFAULT, SpecArm(spec.name, spec), self.family.member(m), rows=rows)
        try:
            session = turn.session.within(self.run.id, said, self.run.environment)
            raced = experiment(wanted, self.target, options=options, session=session)
            return Member.of(m if rows is None else None, raced)
        except (NoCandidateError, WrongResultError, DeviceError) as error:
            return Member(m if rows is None else None, error.message)

    def _dynamic(self, bucket: Bucket, spec: Path) -> Member:
        """A program whose M is known only when it runs; run at the middle one."""
        problem = self.target.prepare(self.family.member(bucket.members[len(bucket.members) // 2]))
        source, effort = dynamic_gemm_mlir(problem, rows=bucket.rows), self.options.effort
        flags = (*self.target.compile_flags, f"{self.target.spec_flag}={spec}")
        build = self.session.builder.build(BuildJob(source, flags, effort.compile_timeout))
        if not build.ok:
            return Member(None, f"{build.failure}: {first_error(build.stderr)}")
        uses = applied(spec.read_text(), source, self.target.compile_flags, self.session.tools)
        if not any(use.dispatches for use in uses):
            return Member(None, "it does not apply")
        if self.run.timed:
            data = Data.write(problem, self.run.folder / f"dynamic-{bucket.name}", seed=self.options.seed)
            check = data.checker(self.session.runner, timeout=effort.run_timeout).check(build.vmfb)
            if not check.ok:
                return Member(None, f"{check.failure}: {check.detail}")
        return Member(None, checked=self.run.timed)

    def _objection(self, bucket: Bucket, members: Sequence[Member], *, won: bool) -> str:
        """Why the default is kept; empty when nothing speaks against the winner."""
        gain = self.options.effort.smallest_gain
        for member in members:
            where = "with a dynamic M" if member.m is None else f"at M = {member.m}"
            if member.failure:
                return f"its winner fails {where}: {member.failure}"
            speedup = member.speedup
            if speedup is not None and speedup.median < 1 / (1 + gain):
                return f"its winner harms {where}: {speedup.median:.3f}x"
            # Where it was tuned it must still win, also as what ships; what is not faster there, where M is dynamic.
            if speedup is not None and member.m == (bucket.at if won else None) and speedup.low <= 1 + gain:
                return f"in the form that fits all sizes its winner gains nothing certain {where}"
        return ""

    def _provenance(self, bucket: Bucket, result: Result, members: Sequence[Member]) -> Provenance:
        own = next((member for member in members if member.m == bucket.at), Member(bucket.at))
        return Provenance(
            problem=f"{self.family.name}, {bucket.text}, tuned at M = {bucket.at}",
            target=self.target.name,
            device=self.session.device,
            verdict=ESTIMATED if result.verdict == "compile-only" else result.verdict,
            us=own.us,
            baseline_us=own.baseline_us,
            command=self.run.command,
        ).stamped(self.session.tools, own.speedup, self.run.environment if own.us is not None else None)

    # --- one file -------------------------------------------------------------------------------------------------

    def _ship(self, done: Sequence[BucketResult]) -> Files:
        made_by = [
            f"problem:    {self.family.name}, M in {len(self.family.buckets)} ranges",
            *(f"  {one.bucket.text}: {one.kept} ({one.reason})" for one in done),
            f"made by:    {self.run.command}",
            f"use:        {use_line(self.files.flagfile)}",
        ]
        merged = merge(self._texts(done), tools=self.session.tools, made_by=made_by)
        self._prove(merged.text, done)
        own = problem_mlir(self.target.prepare(self.family.member(self.family.home.at)))
        job = BuildJob(own, self.target.compile_flags, self.options.effort.compile_timeout)
        shipped = ship(
            self.files,
            Parts(SpecCarrier.name, merged.text, self.target.spec_flag),
            self.target.compile_flags,
            check=lambda path: compile_shipped(job, path, self.session.builder),
            binary=None,
        )
        return Files(shipped.spec, shipped.flagfile, shipped.carrier)

    def _texts(self, done: Sequence[BucketResult]) -> list[str]:
        """The specs in the order in which they are tried.

        Where only the least M is known, IREE reads the upper bound as -1, which is within every bound: such an M is
        `any` or nothing, so it is taken out before the bounded buckets are asked.
        """
        tuned = [one for one in done if one.spec]
        unbounded = [one.spec for one in tuned if one.bucket.high is None]
        bounded = [one for one in tuned if one.bucket.high is not None]
        dispatch = bounded[0].dispatch if bounded else None
        if dispatch is None:
            return unbounded
        guard = spec_mlir(
            name=f"{self.family.name}_without_end",
            dispatch=dispatch,
            info=None,
            rows=(None, 0),
            provenance=Provenance(
                problem="an M without an upper bound",
                target=self.target.name,
                iree=self.session.tools.release,
                compiler=self.session.tools.build,
            ),
        )
        return [*unbounded, guard, *(one.spec for one in bounded)]

    def _prove(self, text: str, done: Sequence[BucketResult]) -> None:
        """In the merged file every M gets the entry of its own bucket, and none where the default is kept."""
        programs: list[_Program] = []
        for one in done:
            sizes = [self.target.prepare(self.family.member(m)) for m in one.bucket.members]
            programs += [(one, size.name, problem_mlir(size)) for size in sizes]
            programs.append((one, f"a dynamic {one.bucket.text}", dynamic_gemm_mlir(sizes[-1], rows=one.bucket.rows)))
        any_size = next((one for one in done if one.bucket.rows == (1, None)), None)
        endless = dynamic_gemm_mlir(self.target.prepare(self.family.gemm), rows=(1, None))
        programs.append((any_size, "a dynamic M >= 1", endless))
        executor, tools, flags = self.session.executor.here, self.session.tools, self.target.compile_flags
        asked = [executor.submit(applied, text, source, flags, tools) for _, _, source in programs]
        for (owner, what, _), answer in zip(programs, asked, strict=True):
            used = [use for use in answer.result() if use.matched and use.entry.lowering_config]
            uses = {use.entry.name: use.dispatches for use in used}
            wanted = {f"match_{self.family.entry_name(owner.bucket)}": 1} if owner and owner.spec else {}
            if uses != wanted:
                raise EnvironmentFailure(
                    f"in the merged spec {what} gets {uses or 'nothing'}, not {wanted or 'nothing'}.",
                    remedy="Please report it with the command.",
                )

    def _document(self, done: Sequence[BucketResult], files: Files) -> FamilyResult:
        """That of the bucket in which --shape's own M falls, or of the last; with the totals of all."""
        results = {one.bucket: one.result for one in done if one.result is not None}
        if not results:
            if self.run.stopped:
                raise KeyboardInterrupt
            if all(isinstance(one, OutOfTimeError) for one in self.failures):
                raise OutOfTimeError
            for failure in self.failures:
                if not isinstance(failure, (NoCandidateError, OutOfTimeError)):
                    raise failure
            reasons = "; ".join(f"{one.bucket.text}: {one.reason}" for one in done)
            raise NoCandidateError(f"no bucket could be tuned: {reasons}", remedy="Try other bounds.")
        tuned = sum(bool(one.spec) for one in done)
        late = any(one.late for one in done)
        verdict = self._verdict({result.verdict for result in results.values()}, tuned, late=late)
        kept = [one.bucket.text for one in done if not one.spec]
        reason = f"{tuned} of {len(self.family.buckets)} buckets are tuned"
        reason += f"; the default is kept for {', '.join(kept)}" if kept else ""
        reason += f". {self.run.clock.longer()}" if late and verdict == "inconclusive" else ""
        counts = Counts.total(result.counts for result in results.values())
        if verdict == "inconclusive" and not counts.rivals and not self.run.stopped:
            reason = f"ran out of time before anything was tried. {self.run.clock.longer()}"
        for result in results.values():
            self.run.account.add(result.seconds)
        shown = results.get(self.family.home) or [*results.values()][-1]
        facts = {**self.run.facts(), "problem": {**shown.problem, "name": self.family.name}}
        more = {"verdict": verdict, "reason": reason, "counts": counts, "files": files}
        return with_details(shown, FamilyDetails(tuple(done)), **facts, **more)

    def _verdict(self, found: set[FinalVerdict], tuned: int, *, late: bool) -> FinalVerdict:
        if not self.run.timed:
            return "compile-only" if "compile-only" in found else "no-winner"
        if self.run.stopped:
            return "inconclusive"
        if tuned:
            return "win"
        return "inconclusive" if late or "inconclusive" in found else "no-winner"
