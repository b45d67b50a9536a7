"""The experiment: both arms compiled, proven, compared and raced; every step is a row when it happens."""

from __future__ import annotations

import math
import shutil
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from autotuner.devices.device import Timing, choose_repeat
from autotuner.errors import (
    DeviceError,
    EnvironmentFailure,
    NoCandidateError,
    OutOfTimeError,
    WrongResultError,
)
from autotuner.iree.compile import Compiled, first_error
from autotuner.iree.folder import MODULE
from autotuner.iree.run import Benchmark, benchmark_command, failed_because, known_remedy
from autotuner.jobs.ab.opening import Experiment, open_program
from autotuner.jobs.ab.racing import A, ArmRun, B, counts_of, race_sides, time_sides_cold, timing_seconds
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.ab.result import AbDetails, AbResult, write_commands
from autotuner.jobs.ab.shares import note_shares
from autotuner.jobs.ab.ship import claim, ship
from autotuner.jobs.opening import MIN_TIME, compile_timeout, lengthened, model_clock, run_timeout
from autotuner.measure.blocks import ALPHA, Interval
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import SAME, Judgement
from autotuner.programs.program import ModelProgram, Program, difference
from autotuner.store.rows import BuildRow
from autotuner.system import process
from autotuner.system.digests import file_digest
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import Best, Files, FinalVerdict, Measured, Result
from autotuner.tuning.run import Account, Run
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.too_short import unread

ONCE = "once.vmfb"


def run_experiment(
    wanted: Experiment,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> AbResult:
    """Is B faster than A, and does it compute the same?"""
    options = options or Options()
    if wanted.model is None and options.budget is None:
        options = replace(options, budget=options.effort.budget)
    with Session.open(target, options, **watched) as session:
        return experiment(wanted, target, options=options, session=session)


def experiment(wanted: Experiment, target: Target, *, options: Options, session: Session) -> AbResult:
    """The same within a session."""
    problem = target.prepare(wanted.problem) if wanted.problem is not None else None
    wanted = replace(wanted, problem=problem)
    claim(wanted, target, options, session.workspace)
    account = Account(session.reporter, model_clock(options, session))
    with process.until(account.clock.latest):
        opened = open_program(wanted, target, options, session, account)
        with Run.begin(opened.question, session=session, options=options, account=account) as run:
            return _ExperimentRun(run, wanted, opened.subject(run)).go()


@dataclass
class _ExperimentRun:
    """One experiment's steps in order."""

    run: Run
    wanted: Experiment
    subject: Program
    sides: tuple[ArmRun, ArmRun] = field(init=False)
    benchmark: Benchmark | None = None
    """How both arms are timed, once they are found to be right."""
    difference: float | None = None
    same_code: bool = False
    share_from: str = ""
    speedup: Interval | None = None
    caches: Caches | None = None
    shipped: tuple[Path | None, Path | None] = (None, None)
    written: bool = False
    """What is shipped was written by this run."""

    def __post_init__(self) -> None:
        known = (self.wanted.expected_us if self.run.timed else None) or (None, None)
        arms = ((A, self.wanted.a), (B, self.wanted.b))
        a, b = (ArmRun(*one, expected_us=us) for one, us in zip(arms, known, strict=True))
        self.sides = (a, b)

    def go(self) -> AbResult:
        run = self.run
        if run.earlier is not None:
            run.account.note(f"going on with run {run.id}")
        try:
            result = self._steps(self.subject)
        except OutOfTimeError:
            result = unread(run, AbDetails(), what="both arms were compared", building=True)
        run.finish(result)
        if "none" in run.options.keep:
            shutil.rmtree(run.folder, ignore_errors=True)
        return result

    @property
    def compile_timeout(self) -> float:
        return compile_timeout(self.run.options, self.run.clock)

    # --- the steps ----------------------------------------------------------------------------------------------

    def _steps(self, subject: Program) -> AbResult:
        run = self.run
        for side in self.sides:
            self._prepare(side, subject)
        self._build(subject)
        a, b = self.sides
        # What runs on the host is part of a module: equal executables are not enough.
        self.same_code = file_digest(a.module.vmfb) == file_digest(b.module.vmfb)
        if not run.timed:
            return self._result("compile-only", "no device: both arms are built and proven, not timed")
        self._check(subject)
        seconds = run.options.effort.repetition_seconds if subject.repeated else MIN_TIME
        benchmark = self.benchmark = Benchmark(subject.invocation(), seconds, run_timeout(run.options))
        if self._interrupted():
            return self._result("inconclusive", "interrupted before the race")
        if self.same_code:
            self._time(a, subject, benchmark)
            b.us = a.us
            run.session.store.record_duplicate(b.row, of=a.row)
            self.speedup = SAME
            return self._result("no-winner", "the two arms compile to the same code")
        for side in self.sides:
            self._time(side, subject, benchmark)
        if self._interrupted():
            return self._result("inconclusive", "interrupted before the race")
        run.account.stage(f"racing {b.arm.name} against {a.arm.name}")
        with run.account.clocked("time"):
            raced = replace(benchmark, cache=run.options.searched_cache) if subject.repeated else benchmark
            judgement, self.speedup = race_sides(self.sides, raced, run, has_won=self.wanted.has_won)
            if subject.repeated and judgement.verdict != "inconclusive":
                self.caches = time_sides_cold(self.sides, raced, run, won=judgement.verdict == "win")
        if judgement.verdict == "win":
            try:
                self._ship(subject, judgement)
            except OutOfTimeError:
                return self._result("inconclusive", run.unproven)
        if isinstance(subject, ModelProgram) and not self.wanted.has_won and not self._interrupted():
            seconds = sum(timing_seconds(side, benchmark) for side in self.sides)
            self.share_from = note_shares(self.sides, run, subject.call, seconds=seconds)
        wrong = subject.arbiter.words if isinstance(subject, ModelProgram) else ""
        return self._result(judgement.verdict, f"{wrong}; {judgement.reason}" if wrong else judgement.reason)

    def _interrupted(self) -> bool:
        return self.run.stopped

    def _prepare(self, side: ArmRun, subject: Program) -> None:
        """The flags of an arm, and the proof that what it brings arrives."""
        run = self.run
        run.account.stage(f"preparing {side.arm.name}")
        side.folder = run.folder / side.key
        side.folder.mkdir(parents=True, exist_ok=True)
        side.row = run.candidate("baseline" if side.key == A else side.arm.code, side.arm.name)
        site = ArmSite.within(
            run.session,
            run.target,
            program=subject.source,
            flags=subject.flags,
            problem=subject.problem,
            folder=side.folder,
            timeout=self.compile_timeout,
            allow=subject.allow,
        )
        try:
            with run.account.clocked("space"):
                side.recipe = side.arm.recipe(site)
        except NoCandidateError as error:
            self._fail(side, "not-applied", str(error))
            raise
        for note in side.how.notes:
            run.account.note(note)

    def _build(self, subject: Program) -> None:
        run = self.run
        run.account.stage("compiling both arms")
        with run.account.clocked("build"):
            jobs = [self._compile(side, subject, 1) for side in self.sides]
            for side in self.sides:
                self._compile_ahead(side, subject)
            for side, job in zip(self.sides, jobs, strict=True):
                built = _kept_apart(job.result())
                if isinstance(subject.source, Path):
                    built = replace(built, command=side.how.command(subject.source))
                side.built = built
        for side in self.sides:
            self._record(side, side.module)
        for side in self.sides:
            if side.module.failure is not None:
                self._fail(side, side.module.failure, side.module.stderr)
                raise NoCandidateError(
                    f"{side.arm.name} does not compile {subject.name}: {first_error(side.module.stderr)}",
                    remedy=f"{side.folder / 'stderr.txt'} has all of it.",
                )

    def _compile_ahead(self, side: ArmRun, subject: Program) -> None:
        """As it will be timed, into the cache, where what it takes is known: both compile while results are checked."""
        repeat = choose_repeat(side.expected_us or math.inf)
        if repeat > 1 and subject.repeated and side.how.repeatable and isinstance(subject.source, str):
            self.run.session.executor.start(side.how.job(subject.source, timeout=self.compile_timeout, repeat=repeat))

    def _compile(self, side: ArmRun, subject: Program, repeat: int) -> Future[Compiled]:
        job = side.how.job(subject.source, timeout=self.compile_timeout, repeat=repeat)
        return self.run.session.executor.start_in(side.folder, job, side.how.tools)

    def _check(self, subject: Program) -> None:
        """Both outputs against what is right, and against each other."""
        run = self.run
        run.account.stage("comparing what both arms compute")
        subject.invocation()  # its inputs must be there
        a, b = self.sides
        for side in self.sides:
            with run.account.clocked("time"):
                side.answer = subject.answer(side.module.vmfb, None if side is a else a.answer)
            check = side.answer.check
            if check.ok:
                run.session.store.record_check(side.row, error=check.error)
                continue
            self._fail(side, check.failure or "", check.detail)
            if check.failure != "wrong-result":
                raise DeviceError(
                    f"{side.arm.name} does not run on {run.session.device!r}: {failed_because(check.detail)}",
                    remedy=known_remedy(check.detail)
                    or "Check --input and --device; `autotune doctor` lists the devices that answer.",
                )
            if isinstance(subject, ModelProgram) and side is a:
                continue  # that is told; what is right may be B
            against = (
                f"{subject.arbiter.against} in {subject.name}" if isinstance(subject, ModelProgram) else "the reference"
            )
            raise WrongResultError(
                f"{side.arm.name} computes wrong results, against {against}: {check.detail}.",
                remedy=f"{side.folder} has what was compiled.",
            )
        if (
            isinstance(subject, ModelProgram)
            and a.answer is not None
            and a.answer.check != subject.arbiter.default_check
        ):
            a.answer = replace(a.answer, check=subject.arbiter.default_check)
            if subject.arbiter.default_is_wrong:
                self._fail(a, "wrong-result", a.answer.check.detail)
        if a.answer is not None and b.answer is not None:
            self.difference = difference(a.answer, b.answer)

    def _time(self, side: ArmRun, subject: Program, benchmark: Benchmark) -> None:
        """What it takes, as far as that must be known before the judge asks; in a module whose calls last long enough.

        Of a model the call whose outputs were compared tells: its dispatches are not repeated.
        """
        called = side.answer.seconds if side.answer is not None and not subject.repeated else None
        if called is not None:
            side.us = 1e6 * called
            return
        run = self.run
        run.account.stage(f"timing {side.arm.name}")
        module, timing = self._lengthened(side, subject, benchmark)
        if not timing.ok:
            self._fail(side, timing.failure or "", timing.detail)
            raise DeviceError(
                f"{side.arm.name} cannot be timed on {run.session.device!r}: {failed_because(timing.detail)}",
                remedy="`autotune doctor` lists the devices that answer.",
            )
        if module.binary != side.once.binary:
            raise EnvironmentFailure(
                f"{side.arm.name} does not give the same code when its dispatches are repeated.",
                remedy="Please report it with the candidate's folder.",
            )
        side.timed, side.us = module if module is not side.once else None, timing.median
        run.session.store.record_timing(side.row, timing, phase="screen", block=0)
        run.session.store.set_us(side.row, side.us)

    def _lengthened(self, side: ArmRun, subject: Program, benchmark: Benchmark) -> tuple[Compiled, Timing]:
        """What it took before tells how often it is repeated at first."""
        account, repeatable = self.run.account, subject.repeated and side.how.repeatable

        def repeated(repeat: int) -> Compiled:
            with account.clocked("build"):
                return self._compile(side, subject, repeat).result()

        often = choose_repeat(side.expected_us or math.inf) if repeatable else 1
        first = repeated(often) if often > 1 else side.once
        with account.clocked("time"):
            if not repeatable:
                return first, self.run.session.runner.time(first, benchmark)
            return lengthened(self.run.session.runner, first, benchmark, repeated)

    def _ship(self, subject: Program, judgement: Judgement) -> None:
        """The files of a microkernel that has won; what B is a file of is there already."""
        b, run = self.sides[1], self.run
        if b.how.inserted is None:
            self.shipped = (b.how.spec, b.how.flagfile)
            return
        run.account.stage("shipping, and compiling once more with what is shipped")
        with process.however_late(latest=run.proof_ends(b.module.took)):
            self.shipped, self.written = ship(b, subject, judgement, run), True

    # --- the end ------------------------------------------------------------------------------------------------

    def _record(self, side: ArmRun, built: Compiled) -> None:
        row, command = side.row, tuple(built.command)
        self.run.session.store.record_build(
            BuildRow(row, built.seconds, built.cached, built.binary, side.how.applied, command, str(built.vmfb))
        )

    def _fail(self, side: ArmRun, failure: str, detail: str) -> None:
        side.failure = failure
        self.run.session.store.record_failure(side.row, failure, stderr=detail)
        if side.built is not None:
            write_commands(side.report(self.run.target, self._by_hand()), stderr=detail)
        elif side.folder.is_dir():
            (side.folder / "stderr.txt").write_text(detail)

    def _by_hand(self) -> tuple[str, ...]:
        """How to time an arm in its folder; nothing before it is known."""
        session = self.run.session
        if self.benchmark is None:
            return ()
        return tuple(benchmark_command(session.tools, Path(MODULE), self.benchmark, device=session.device))

    def _result(self, verdict: FinalVerdict, reason: str) -> AbResult:
        a, b = (side.report(self.run.target, self._by_hand()) for side in self.sides)
        for side, report in zip(self.sides, (a, b), strict=True):
            write_commands(report, stderr=side.module.stderr)
        baseline = Measured(a.us, a.flags, a.name)
        spec, flagfile = self.shipped
        arbiter = self.subject.arbiter if isinstance(self.subject, ModelProgram) and self.run.timed else None
        return Result(
            **self.run.facts(),
            verdict=verdict,
            reason=reason,
            baseline=baseline,
            stock=baseline,
            best=Best(Measured(b.us, b.flags, b.name), {}, self.wanted.b.code),
            speedup=self.speedup,
            speedup_over_stock=self.speedup,
            confidence=1 - ALPHA,
            counts=counts_of(self.sides, same_code=self.same_code),
            files=Files(spec, flagfile, self.sides[1].how.carrier if verdict == "win" else None),
            caches=self.caches,
            reference=arbiter.found(a.us) if arbiter else None,
            details=AbDetails(
                (a, b),
                self.difference,
                self.same_code,
                self.share_from,
                written=self.written,
                arbiter=arbiter,
            ),
        )


def _kept_apart(once: Compiled) -> Compiled:
    """Under a name of its own: the module that repeats its dispatches comes into the same folder with the usual one."""
    if not once.ok:
        return once
    return replace(once, vmfb=Path(shutil.copy(once.vmfb, once.vmfb.with_name(ONCE))))
