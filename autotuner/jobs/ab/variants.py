"""A microkernel against IREE's default: its variants are searched, and the best of them is arm B."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from autotuner.devices.device import choose_repeat
from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError, WrongResultError
from autotuner.iree.folder import MODULE, SPEC
from autotuner.iree.run import Benchmark, benchmark_command, failed_because
from autotuner.jobs.ab.arms import DEFAULT, Arm, parse_arm
from autotuner.jobs.ab.opening import Experiment, problem_inputs, rehearse_experiment
from autotuner.jobs.ab.result import AbDetails, AbResult, ArmReport, with_arms, write_commands
from autotuner.jobs.ab.run import run_experiment
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Problem
from autotuner.programs.program import Answer, ProblemProgram, difference
from autotuner.space import Value
from autotuner.system import process
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.dry_run import Rehearsal, rehearse
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.single import SingleRun
from autotuner.tuning.too_short import too_short
from autotuner.tuning.tune import searched

TRIALS = 24
"""Variants of a microkernel that are tried unless --trials says otherwise."""


ALONE = Task(kind="ab", microkernels_alone=True)
"""Nothing but the microkernel and the default."""


def run_ab(wanted: Experiment, target: Target, *, options: Options, **watched: Unpack[Watched]) -> AbResult:
    """A microkernel alone has its variants searched, anything else races two arms."""
    if wanted.searched is None or wanted.problem is None:
        return run_experiment(wanted, target, options=options, **watched)
    return _search_variants(wanted.problem, target, options=_search(wanted, target, options), **watched)


def rehearse_ab(wanted: Experiment, target: Target, *, options: Options) -> Rehearsal:
    """What would be done, without doing it."""
    if wanted.searched is None or wanted.problem is None:
        return rehearse_experiment(wanted, target, options=options)
    return rehearse(wanted.problem, target, options=_search(wanted, target, options), task=ALONE)


def _search(wanted: Experiment, target: Target, options: Options) -> Options:
    """The user's options for a search among a microkernel's variants."""
    if wanted.problem is None or wanted.searched is None:
        raise ValueError("there is no microkernel, or no problem, to search")
    arrays = problem_inputs(wanted.inputs, target.prepare(wanted.problem), seed=options.seed)
    return replace(options, trials=options.trials or TRIALS, microkernels=(wanted.searched,), inputs=arrays)


def _search_variants(problem: Problem, target: Target, *, options: Options, **watched: Unpack[Watched]) -> AbResult:
    """Searches the parameters of the options' one microkernel; nothing but the default is beside it."""
    (kernel,) = options.microkernels
    prepared = target.prepare(problem)
    with Session.open(target, options, **watched) as session:
        try:
            with searched(prepared, target, options=options, session=session, task=ALONE) as found:
                with process.however_late():
                    result = _with_arms(found.result, found.plan, kernel, options, session)
                if found.run is not None:
                    found.run.finish(result)
        except OutOfTimeError:  # what has begun reports for itself
            asked = SingleRun(prepared, target, options, session, ALONE)
            question, account = asked.question_unread(), asked.account
            return too_short(question, session=session, options=options, account=account, details=AbDetails())
        return result


def failure(wanted: Experiment, result: AbResult) -> AutotuneError | None:
    """A microkernel that never worked is no slow one: the user must know."""
    kernel, counts = wanted.searched, result.counts
    if kernel is None:
        return None
    failed = {str(name): n for name, n in counts.failed.items() if n}
    if result.interrupted or not failed or counts.asked - counts.duplicate - 1 > sum(failed.values()):
        return None
    where = f"See candidates/{result.run} for each one's stderr."
    why = f": {result.details.why}" if result.details.why else ""
    if failed.get("wrong-result"):
        return WrongResultError(f"{kernel.name} computes wrong results{why}.", remedy=where)
    reasons = ", ".join(f"{name} {n}" for name, n in failed.items())
    return NoCandidateError(f"no variant of {kernel.name} works ({reasons}){why}.", remedy=where)


def _why(result: Result, session: Session) -> str:
    """Of the first variant that computes something wrong, what that is; else of one that does not run, how it ended."""
    rows = session.store.candidates(result.run)
    wrong = next((row for row in rows if row.failure == "wrong-result"), None)
    row = wrong or next((row for row in rows if row.failure.startswith("run-")), None)
    return "" if row is None else failed_because(row.stderr)


def _with_arms(result: Result, plan: Plan, kernel: Kernel, options: Options, session: Session) -> AbResult:
    """The default and the best variant, each with a folder to repeat it from, run once more side by side."""
    if result.interrupted:
        return with_arms(result, AbDetails(searched=True))
    bench = _Bench(result, plan, options, session)
    arms = [bench.arm("a", DEFAULT, plan.baseline, result.baseline.us)]
    if (best := _best(result, session)) is not None:
        candidate = plan.candidate(plan.space[plan.space.nearest(best[0])], id="b")
        arms.append(bench.arm("b", parse_arm(kernel.name, workspace=session.workspace.root), candidate, best[1]))
    apart = difference(*bench.answers) if len(bench.answers) == 2 else None
    if "none" in options.keep:
        shutil.rmtree(bench.folder, ignore_errors=True)
    why = _why(result, session) if len(arms) == 1 else ""
    return with_arms(result, AbDetails(tuple(arms), apart, searched=True, why=why))


def _best(result: Result, session: Session) -> tuple[Mapping[str, Value], float | None] | None:
    """The fastest variant, be it slower than the default; without a device the most promising one."""
    if result.best is not None and result.best.config:
        return result.best.config, result.best.us
    rows = [row for row in session.store.candidates(result.run) if row.config.items and row.state == "timed"]
    best = min(rows, key=lambda row: row.us or math.inf, default=None)
    return (best.config.as_dict(), best.us) if best is not None else None


class _Bench:
    """Puts candidates into folders and runs them."""

    def __init__(self, result: Result, plan: Plan, options: Options, session: Session) -> None:
        self.plan, self.options, self.session = plan, options, session
        self.folder = session.workspace.run_folder(result.run)
        self.answers: list[Answer] = []
        own, timeout = tuple(options.inputs), options.effort.run_timeout
        self.program = ProblemProgram(plan.problem, own, session.runner, options.seed, timeout, self.folder)

    def arm(self, key: str, arm: Arm, candidate: Candidate, us: float | None) -> ArmReport:
        plan, effort, session = self.plan, self.options.effort, self.session
        folder = self.folder / key
        job = plan.job(candidate, timeout=effort.compile_timeout, repeat=choose_repeat(us) if us else 1)
        build = session.executor.start_in(folder, job, session.tools).result()
        benchmark: tuple[str, ...] = ()
        error = None
        if session.device != NO_DEVICE:
            how = Benchmark(self.program.invocation(), effort.repetition_seconds, effort.run_timeout)
            benchmark = tuple(benchmark_command(session.tools, Path(MODULE), how, device=session.device))
            answer = self.program.answer(build.vmfb, None) if build.ok else None
            if answer is not None and answer.arrays:
                self.answers.append(answer)
                error = answer.check.error if math.isfinite(answer.check.error) else None
        report = ArmReport(
            name=arm.name,
            kind=arm.kind,
            flags=tuple(flag for flag in job.compile_flags if flag not in plan.target.compile_flags),
            spec=folder / SPEC if job.spec is not None else None,
            folder=folder,
            compile=build.command,
            benchmark=benchmark,
            repeat=job.repeat,
            us=us,
            error=error,
            applied=build.applied,
            kernels=tuple(
                {"problem": plan.problem.name, "variant": call.name, "calls": build.applied} for call in job.kernels
            ),
        )
        write_commands(report, stderr=build.stderr)
        return report
