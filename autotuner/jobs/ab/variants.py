"""A microkernel against IREE's default: its variants are searched, and the best of them is arm B."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

from autotuner.errors import AutotuneError, NoCandidateError, WrongResultError
from autotuner.iree.run import failed_because
from autotuner.jobs.ab.arms import DEFAULT
from autotuner.jobs.ab.opening import Experiment, rehearse_experiment
from autotuner.jobs.ab.result import AbDetails, AbResult, ArmFacts, B
from autotuner.jobs.ab.run import run_experiment
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Problem
from autotuner.store.rows import CandidateRow
from autotuner.targets import Target
from autotuner.tuning.dry_run import Rehearsal, rehearse
from autotuner.tuning.options import Options, Task
from autotuner.tuning.result import with_details
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.single import Found
from autotuner.tuning.tune import searched

TRIALS = 24
"""Variants of a microkernel that are tried unless --trials says otherwise."""
ALONE = Task(kind="ab", microkernels_alone=True)
"""Nothing but the microkernel and the default."""


def run_ab(wanted: Experiment, target: Target, *, options: Options, **watched: Unpack[Watched]) -> AbResult:
    """A microkernel alone has its variants searched, anything else races two arms."""
    if wanted.searched is None or wanted.problem is None:
        return run_experiment(wanted, target, options=options, **watched)
    return _search_variants(wanted.problem, wanted.searched, target, options=options, **watched)


def rehearse_ab(wanted: Experiment, target: Target, *, options: Options) -> Rehearsal:
    """A rehearsal."""
    if wanted.searched is None or wanted.problem is None:
        return rehearse_experiment(wanted, target, options=options)
    return rehearse(wanted.problem, target, options=_search(wanted.searched, options), task=ALONE)


def _search(kernel: Kernel, options: Options) -> Options:
    """The user's options for a search among a microkernel's variants."""
    return replace(options, trials=options.trials or TRIALS, microkernels=(kernel,))


def _search_variants(
    problem: Problem, kernel: Kernel, target: Target, *, options: Options, **watched: Unpack[Watched]
) -> AbResult:
    """Searches the parameters of the microkernel; nothing but the default is beside it."""
    options, prepared = _search(kernel, options), target.prepare(problem)
    with Session.open(target, options, **watched) as session:
        with searched(prepared, target, options=options, session=session, task=ALONE) as found:
            result = with_details(found.result, _details(found, kernel, session))
            if found.run is not None:
                found.run.finish(result)
        return result


def failure(wanted: Experiment, result: AbResult) -> AutotuneError | None:
    """The error for a microkernel that never worked; a slow one is a verdict."""
    kernel, counts = wanted.searched, result.counts
    if kernel is None:
        return None
    failed = {str(name): n for name, n in counts.failed.items() if n and name not in ("wrong-time", "run-timeout")}
    if result.interrupted or not failed or counts.asked - counts.duplicate - 1 > sum(failed.values()):
        return None
    where = f"See candidates/{result.run} for each one's stderr."
    why = f": {result.details.why}" if result.details.why else ""
    if failed.get("wrong-result"):
        return WrongResultError(f"{kernel.name} computes wrong results{why}.", remedy=where)
    reasons = ", ".join(f"{name} {n}" for name, n in failed.items())
    return NoCandidateError(f"no variant of {kernel.name} works ({reasons}){why}.", remedy=where)


def _details(found: Found, kernel: Kernel, session: Session) -> AbDetails:
    """The default and the fastest variant; without a device the most promising one."""
    result, plan = found.result, found.plan
    rows = session.store.candidates(result.run)
    default = ArmFacts(DEFAULT.name, DEFAULT.kind, result.baseline.us, result.baseline.flags)
    timed = [row for row in rows if row.kind == "microkernel" and row.state == "timed"]
    row = min(timed, key=lambda row: row.us or math.inf, default=None)
    config, us = (row.config.as_dict(), row.us) if row is not None else ({}, None)
    if result.best is not None and result.best.config:
        config, us = dict(result.best.config), result.best.us
    if not config or result.interrupted:
        return AbDetails((default,), why=_why(rows))
    knobs = plan.candidate(plan.space[plan.space.nearest(config)], id=B).knobs
    variant = ", ".join(f"{name}={value}" for name, value in knobs.items())
    kernels = ({"problem": plan.problem.name, "variant": variant, "calls": 1},)
    arms = (default, ArmFacts(kernel.name, "microkernel", us, applied=1, kernels=kernels))
    return AbDetails(arms, written=result.verdict == "win")


def _why(rows: list[CandidateRow]) -> str:
    """Of the first variant that computes something wrong, what that is; else of one that does not run, how it ended."""
    wrong = next((row for row in rows if row.failure == "wrong-result"), None)
    row = wrong or next((row for row in rows if row.failure.startswith("run-")), None)
    return "" if row is None else failed_because(row.stderr)
