"""The experiment: both arms compiled, proven, compared and raced; every step is a row when it happens."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from autotuner.errors import DeviceError, EnvironmentFailure, NoCandidateError, OutOfTimeError, WrongResultError
from autotuner.iree.compile import FAILURE_CLASSES, Compiled, first_error
from autotuner.iree.folder import MODULE
from autotuner.iree.run import Benchmark, benchmark_command, failed_because, known_remedy
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.opening import Experiment, open_program
from autotuner.jobs.ab.racing import ArmRun, race_sides, time_sides_cold
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.ab.result import A, AbDetails, AbResult, B
from autotuner.jobs.ab.ship import claim, ship
from autotuner.jobs.opening import MIN_TIME, compile_timeout, lengthened, run_timeout
from autotuner.measure.blocks import ALPHA, Interval
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import SAME, Audited, Judgement
from autotuner.programs.program import Program, difference
from autotuner.store.rows import BuildRow
from autotuner.system import process
from autotuner.system.digests import file_digest
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import Best, Counts, Files, FinalVerdict, Measured, Result
from autotuner.tuning.run import Job, Run
from autotuner.tuning.session import Session, Watched

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
    with Session.open(target, options, **watched) as session:
        return experiment(wanted, target, options=options, session=session)


def experiment(wanted: Experiment, target: Target, *, options: Options, session: Session) -> AbResult:
    """The same within a session."""
    problem = target.prepare(wanted.problem) if wanted.problem is not None else None
    wanted = replace(wanted, problem=problem)
    claim(wanted, target, options, session.workspace)
    job = Job.within(session, target, options)
    with process.until(job.account.clock.latest):
        opened = open_program(wanted, job)
        with job.begin(opened.question) as run:
            return _ExperimentRun(run, wanted, opened.subject(run)).go()


@dataclass
class _ExperimentRun:
    """One experiment's steps in order."""

    run: Run
    wanted: Experiment
    subject: Program
    sides: tuple[ArmRun, ...] = ()
    """Both arms, once they are prepared."""
    benchmark: Benchmark | None = None
    """How both arms are timed, once they are found to be right."""
    difference: float | None = None
    same_code: bool = False
    speedup: Interval | None = None
    audited: Audited | None = None
    caches: Caches | None = None
    shipped: tuple[Path | None, Path | None] = (None, None)
    written: bool = False
    """What is shipped was written by this run."""

    def go(self) -> AbResult:
        run = self.run
        if run.earlier is not None:
            run.account.note(f"going on with run {run.id}")
        result = self._steps()
        run.finish(result)
        if "none" in run.options.keep:
            shutil.rmtree(run.folder, ignore_errors=True)
        return result

    # --- the steps ----------------------------------------------------------------------------------------------

    def _steps(self) -> AbResult:
        run, subject = self.run, self.subject
        self.sides = (self._prepared(A, self.wanted.a), self._prepared(B, self.wanted.b))
        self._build()
        a, b = self.sides
        # What runs on the host is part of a module: equal executables are not enough.
        self.same_code = file_digest(a.once.vmfb) == file_digest(b.once.vmfb)
        if run.session.emulated:
            self._check()
            return self._result("compile-only", "executed on an emulated device: both arms are right, and not timed")
        if not run.timed:
            return self._result("compile-only", "no device: both arms are built and proven, not timed")
        self._check()
        seconds = run.options.effort.repetition_seconds if subject.repeated else MIN_TIME
        benchmark = self.benchmark = Benchmark(subject.invocation(), seconds, run_timeout(run.options))
        for side in self.sides if not self.same_code else (a,):
            if run.stopped:
                return self._result("inconclusive", "interrupted before the race")
            self._time(side, benchmark)
        if self.same_code:
            b.us, self.speedup = a.us, SAME
            run.session.store.record_duplicate(b.row, of=a.row)
            return self._result("no-winner", "the two arms compile to the same code")
        if run.stopped:
            return self._result("inconclusive", "interrupted before the race")
        run.account.stage(f"racing {b.name} against {a.name}")
        with run.account.clocked("time"):
            raced = replace(benchmark, cache=run.options.searched_cache) if subject.repeated else benchmark
            judgement = race_sides(self.sides, subject, raced, run)
            self.speedup, self.audited = judgement.speedup, judgement.audited
            refused = self.sides[1].refused
            if refused is not None and refused.failure != "wrong-time":
                self._wrong(self.sides[1], refused.failure or "", refused.detail)
            if subject.repeated and judgement.verdict != "inconclusive":
                self.caches = time_sides_cold(self.sides, raced, run, won=judgement.verdict == "win")
        if judgement.verdict == "win":
            try:
                self._ship(judgement)
            except OutOfTimeError:
                return self._result("inconclusive", run.unproven)
        wrong = subject.arbiter.words if subject.arbiter is not None else ""
        return self._result(judgement.verdict, f"{wrong}; {judgement.reason}" if wrong else judgement.reason)

    def _prepared(self, key: str, arm: Arm) -> ArmRun:
        """An arm with its flags, and the proof that what it brings arrives."""
        run, subject, folder = self.run, self.subject, self.run.folder / key
        run.account.stage(f"preparing {arm.name}")
        folder.mkdir(parents=True, exist_ok=True)
        row = run.candidate("baseline" if key == A else arm.code, arm.name)
        site = ArmSite.within(
            run.session,
            run.target,
            program=subject.source,
            flags=subject.flags,
            problem=subject.problem,
            timeout=compile_timeout(run.options, run.clock),
            allow=subject.allow,
        )
        try:
            with run.account.clocked("space"):
                recipe = arm.recipe(site)
        except NoCandidateError as error:
            self._failed(row, folder, "not-applied", str(error))
            raise
        for note in recipe.notes:
            run.account.note(note)
        return ArmRun(key, arm, folder, row, recipe)

    def _build(self) -> None:
        run, source = self.run, self.subject.source
        run.account.stage("compiling both arms")
        with run.account.clocked("build"):
            jobs = [self._compile(side, 1) for side in self.sides]
            for side, job in zip(self.sides, jobs, strict=True):
                built = _kept_apart(job.result())
                command = side.recipe.command(source, run.session.tools) if isinstance(source, Path) else built.command
                side.once = side.module = replace(built, command=command)
        for side in self.sides:
            side.write_commands()
            once, applied = side.once, side.recipe.applied
            built_row = (once.seconds, once.cached, once.binary, applied, tuple(once.command), str(once.vmfb))
            run.session.store.record_build(BuildRow(side.row, *built_row))
        for side in self.sides:
            if side.once.failure is not None:
                self._fail(side, side.once.failure, side.once.stderr)
                raise NoCandidateError(
                    f"{side.name} does not compile {self.subject.name}: {first_error(side.once.stderr)}",
                    remedy=f"{side.folder / 'stderr.txt'} has all of it.",
                )

    def _compile(self, side: ArmRun, repeat: int) -> Future[Compiled]:
        timeout = compile_timeout(self.run.options, self.run.clock)
        job = side.recipe.job(self.subject.source, timeout=timeout, repeat=repeat)
        return self.run.session.executor.start_in(side.folder, job)

    def _check(self) -> None:
        """Both outputs against what is right, and against each other."""
        run, subject = self.run, self.subject
        run.account.stage("comparing what both arms compute")
        subject.invocation()  # its inputs must be there
        a, b = self.sides
        for side in self.sides:
            with run.account.clocked("time"):
                side.answer = subject.answer(side.once.vmfb, None if side is a else a.answer)
            if side.answer.check.ok:
                run.session.store.record_check(side.row, error=side.answer.check.error)
            else:
                self._wrong(side, side.answer.check.failure or "", side.answer.check.detail)
        arbiter = subject.arbiter
        if arbiter is not None and a.answer is not None and a.answer.check != arbiter.default_check:
            a.answer = replace(a.answer, check=arbiter.default_check)
            if arbiter.default_is_wrong:
                self._fail(a, "wrong-result", a.answer.check.detail)
        if a.answer is not None and b.answer is not None:
            self.difference = difference(a.answer, b.answer)

    def _wrong(self, side: ArmRun, failure: str, detail: str) -> None:
        """An arm that does not run or is wrong ends the experiment."""
        run, subject = self.run, self.subject
        self._fail(side, failure, detail)
        if failure != "wrong-result":
            raise DeviceError(
                f"{side.name} does not run on {run.session.device!r}: {failed_because(detail)}",
                remedy=known_remedy(detail)
                or "Check --input and --device; `autotune doctor` lists the devices that answer.",
            )
        if subject.arbiter is not None and side.key == A:
            return  # that is told; what is right may be B
        against = f"{subject.arbiter.against} in {subject.name}" if subject.arbiter is not None else "the reference"
        raise WrongResultError(
            f"{side.name} computes wrong results, against {against}: {detail}.",
            remedy=f"{side.folder} has what was compiled.",
        )

    def _time(self, side: ArmRun, benchmark: Benchmark) -> None:
        """What it takes, as far as that must be known before the judge asks; in a module whose calls last long enough.

        Of a model the call whose outputs were compared tells: its dispatches are not repeated.
        """
        run, device, account = self.run, self.run.session.runner, self.run.account
        called = side.answer.seconds if side.answer is not None and not self.subject.repeated else None
        if called is not None:
            side.us = 1e6 * called
            return
        account.stage(f"timing {side.name}")

        def repeated(repeat: int) -> Compiled:
            with account.clocked("build"):
                return self._compile(side, repeat).result()

        with account.clocked("time"):
            if self.subject.repeated and side.recipe.repeatable:
                side.module, timing = lengthened(device, side.once, benchmark, repeated)
            else:
                timing = device.time(side.once, benchmark)
        if not timing.ok:
            self._fail(side, timing.failure or "", timing.detail)
            raise DeviceError(
                f"{side.name} cannot be timed on {run.session.device!r}: {failed_because(timing.detail)}",
                remedy="`autotune doctor` lists the devices that answer.",
            )
        if side.module.binary != side.once.binary:
            raise EnvironmentFailure(
                f"{side.name} does not give the same code when its dispatches are repeated.",
                remedy="Please report it with the candidate's folder.",
            )
        side.us = timing.median
        run.session.store.record_timing(side.row, timing, phase="screen", block=0)
        run.session.store.set_us(side.row, side.us)

    def _ship(self, judgement: Judgement) -> None:
        """The files of a microkernel that has won; what B is a file of is there already."""
        b, run = self.sides[1], self.run
        if b.recipe.kernel is None:
            self.shipped = (b.recipe.spec, b.recipe.flagfile)
            return
        run.account.stage("shipping, and compiling once more with what is shipped")
        with process.however_late(latest=run.proof_ends):
            self.shipped, self.written = ship(b, b.recipe.kernel, self.subject, judgement, run), True

    # --- the end ------------------------------------------------------------------------------------------------

    def _fail(self, side: ArmRun, failure: str, detail: str) -> None:
        side.failure = failure
        self._failed(side.row, side.folder, failure, detail)

    def _failed(self, row: int, folder: Path, failure: str, detail: str) -> None:
        self.run.session.store.record_failure(row, failure, stderr=detail)
        (folder / "stderr.txt").write_text(detail)

    def _result(self, verdict: FinalVerdict, reason: str) -> AbResult:
        session, how = self.run.session, self.benchmark
        timing = benchmark_command(session.tools, Path(MODULE), how, device=session.device) if how else ()
        for side in self.sides:
            side.write_commands(timing)
        a, b = arms = tuple(side.facts(timing) for side in self.sides)
        baseline = Measured(a.us, a.flags, a.name)
        arbiter = self.subject.arbiter if self.run.timed else None
        carrier = self.sides[1].recipe.carrier if verdict == "win" else None
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
            counts=self._counts(),
            files=Files(*self.shipped, carrier),
            audited=self.audited,
            caches=self.caches,
            reference=arbiter.found(a.us) if arbiter else None,
            details=AbDetails(arms, self.difference, self.same_code, written=self.written, arbiter=arbiter),
        )

    def _counts(self) -> Counts:
        """The states of both arms; equal code is timed once."""
        both, timed = len(self.sides), sum(side.us is not None for side in self.sides)
        return Counts(
            space=both,
            asked=both,
            built=both,
            duplicate=int(self.same_code),
            checked=sum(side.answer is not None for side in self.sides),
            timed=timed - int(self.same_code and timed == both),
            failed={name: sum(side.failure == name for side in self.sides) for name in FAILURE_CLASSES},
        )


def _kept_apart(once: Compiled) -> Compiled:
    """Under a name of its own: the module that repeats its dispatches comes into the same folder with the usual one."""
    if not once.ok:
        return once
    return replace(once, vmfb=Path(shutil.copy(once.vmfb, once.vmfb.with_name(ONCE))))
