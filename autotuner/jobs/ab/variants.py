"""A microkernel against IREE's default: its variants are searched, and the best of them is arm B."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from autotuner.devices.device import choose_repeat
from autotuner.errors import AutotuneError, NoCandidateError, WrongResultError
from autotuner.iree.folder import MODULE, SPEC
from autotuner.iree.run import Benchmark, benchmark_command, failed_because
from autotuner.jobs.ab.arms import DEFAULT, Arm, parse_arm
from autotuner.jobs.ab.opening import Experiment, rehearse_experiment
from autotuner.jobs.ab.racing import ArmRun
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.ab.result import AbDetails, AbResult, with_details
from autotuner.jobs.ab.run import run_experiment
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Problem
from autotuner.programs.program import ProblemProgram, difference
from autotuner.space import Value
from autotuner.system import process
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.dry_run import Rehearsal, rehearse
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.tune import searched

TRIALS = 24
"""Variants of a microkernel that are tried unless --trials says otherwise."""


ALONE = Task(kind="ab", microkernels_alone=True)
"""Nothing but the microkernel and the default."""


def run_ab(wanted: Experiment, target: Target, *, options: Options, **watched: Unpack[Watched]) -> AbResult:
    """A microkernel alone has its variants searched, anything else races two arms."""
    if wanted.searched is None or wanted.problem is None:
        return run_experiment(wanted, target, options=options, **watched)
    return _search_variants(wanted.problem, target, options=_search(wanted, options), **watched)


def rehearse_ab(wanted: Experiment, target: Target, *, options: Options) -> Rehearsal:
    """What would be done, without doing it."""
    if wanted.searched is None or wanted.problem is None:
        return rehearse_experiment(wanted, target, options=options)
    return rehearse(wanted.problem, target, options=_search(wanted, options), task=ALONE)


def _search(wanted: Experiment, options: Options) -> Options:
    """The user's options for a search among a microkernel's variants."""
    if wanted.searched is None:
        raise ValueError("there is no microkernel to search")
    return replace(options, trials=options.trials or TRIALS, microkernels=(wanted.searched,))


def _search_variants(problem: Problem, target: Target, *, options: Options, **watched: Unpack[Watched]) -> AbResult:
    """Searches the parameters of the options' one microkernel; nothing but the default is beside it."""
    (kernel,) = options.microkernels
    prepared = target.prepare(problem)
    with Session.open(target, options, **watched) as session:
        with searched(prepared, target, options=options, session=session, task=ALONE) as found:
            with process.however_late():
                result = _with_arms(found.result, found.plan, kernel, options, session)
            if found.run is not None:
                found.run.finish(result)
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
        return with_details(result, AbDetails())
    bench = _Bench(plan, options, session, session.workspace.run_folder(result.run))
    arms = [bench.arm("a", DEFAULT, plan.baseline, result.baseline.us)]
    if (best := _best(result, session)) is not None:
        candidate = plan.candidate(plan.space[plan.space.nearest(best[0])], id="b")
        arms.append(bench.arm("b", parse_arm(kernel.name, workspace=session.workspace.root), candidate, best[1]))
    answers = [arm.answer for arm in arms if arm.answer is not None and arm.answer.arrays]
    apart = difference(*answers) if len(answers) == 2 else None
    if "none" in options.keep:
        shutil.rmtree(bench.folder, ignore_errors=True)
    why = _why(result, session) if len(arms) == 1 else ""
    return with_details(result, AbDetails(tuple(arms), apart, written=result.verdict == "win", why=why))


def _best(result: Result, session: Session) -> tuple[Mapping[str, Value], float | None] | None:
    """The fastest variant, be it slower than the default; without a device the most promising one."""
    if result.best is not None and result.best.config:
        return result.best.config, result.best.us
    rows = [row for row in session.store.candidates(result.run) if row.config.items and row.state == "timed"]
    best = min(rows, key=lambda row: row.us or math.inf, default=None)
    return (best.config.as_dict(), best.us) if best is not None else None


@dataclass
class _Bench:
    """Puts candidates into folders and runs them."""

    plan: Plan
    options: Options
    session: Session
    folder: Path

    def arm(self, key: str, arm: Arm, candidate: Candidate, us: float | None) -> ArmRun:
        plan, effort, session = self.plan, self.options.effort, self.session
        folder = self.folder / key
        job = plan.job(candidate, timeout=effort.compile_timeout, repeat=choose_repeat(us) if us else 1)
        build = session.executor.start_in(folder, job, session.tools).result()
        kernels = [{"problem": plan.problem.name, "variant": one.name, "calls": build.applied} for one in job.kernels]
        recipe = Recipe(
            session.tools,
            job.compile_flags,
            spec=folder / SPEC if job.spec is not None else None,
            applied=build.applied,
            kernels=tuple(kernels),
            targets=plan.target.compile_flags,
        )
        found = ArmRun(key, arm, folder, recipe=recipe, built=build, us=us)
        if session.device != NO_DEVICE:
            program = self._program()
            how = Benchmark(program.invocation(), effort.repetition_seconds, effort.run_timeout)
            found.benchmark = tuple(benchmark_command(session.tools, Path(MODULE), how, device=session.device))
            found.answer = program.answer(build.vmfb, None) if build.ok else None
        found.write_commands(stderr=build.stderr)
        return found

    def _program(self) -> ProblemProgram:
        options = self.options
        timeout = options.effort.run_timeout
        return ProblemProgram(self.plan.problem, self.session.runner, options.seed, timeout, self.folder)
