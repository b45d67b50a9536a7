"""What the registry knows of one problem: its files, proven to apply, its results checked. Nothing is timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from autotuner.build import BuildJob, Compiled
from autotuner.build.ship import Shipped, compile_shipped, ship
from autotuner.carriers.carrier import FLAGS, Carrier, FileHeader, MicrokernelCarrier
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import MICROKERNEL, Outputs, files_in
from autotuner.carriers.provenance import heading
from autotuner.errors import NoCandidateError, WrongResultError
from autotuner.iree.processor import executable_target
from autotuner.jobs.opening import known_here
from autotuner.measure.blocks import Interval
from autotuner.measure.standing import Kind
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import all_manifests, find
from autotuner.microkernels.variants import Variants
from autotuner.problems import Problem
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.programs.program import ProblemProgram
from autotuner.registry.folder import Known
from autotuner.space.table import Config
from autotuner.store.rows import BuildRow
from autotuner.system import process
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.result import Best, Counts, Files, Measured, Result
from autotuner.tuning.run import Job, Question, Run
from autotuner.tuning.session import Watched


def apply_problem(
    problem: Problem, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> Result:
    """Writes the files of the entry of this problem, or of the nearest shape that the same kernel computes."""
    with Job.open(target, options, watched) as job, process.until(job.account.clock.latest):
        return apply_within(target.prepare(problem), job)


def apply_within(problem: Problem, job: Job, known: Known | None = None) -> Result:
    """`known`: this very entry."""
    files = job.outputs(problem.name, MICROKERNEL)
    files.claim(files_in(job.target.user_flags))
    asks = {**problem.describe(), "arguments": problem.arguments(), "apply": True}
    with job.begin(Question("single", problem.describe(), job.target, asks=asks, reads=())) as run:
        result = _apply(problem, run, known or _known(problem, run), files)
        run.finish(result)
    return result


def _known(problem: Problem, run: Run) -> Known:
    registry = known_here(run)
    entry = registry.exact(problem)
    if entry is not None:
        return Known(entry, exact=True)
    manifests = all_manifests(search_folders(run.session.workspace.root), OPERATIONS).manifests
    near = registry.nearest(problem, [one.name for one in manifests])
    if near is None:
        known = count(len(registry.entries), "entry")
        raise NoCandidateError(
            f"the registry has nothing for {problem.name} on {run.target.name} ({known} for this chip and IREE).",
            remedy="Tune it; `autotune registry list` shows what there is.",
        )
    return near


def _apply(problem: Problem, run: Run, known: Known, files: Outputs) -> Result:
    session, account, entry = run.session, run.account, known.entry
    timeout = run.options.effort.compile_timeout
    account.stage(f"proving what the registry knows of {problem.name}")
    plan = replace(Plan.bare(problem, run.target), source=problem_mlir(problem))
    candidate = _candidate(plan, run, known, timeout=timeout)
    row = run.candidate(candidate.kind, candidate.route.name, candidate.config)
    job = plan.job(candidate, timeout=timeout)
    with account.clocked("build"):
        made = session.builder.build(job)
    command = tuple(job.by_hand(session.tools, output=str(made.vmfb)))
    session.store.record_build(
        BuildRow(row, made.seconds, made.cached, made.binary, made.applied, command, str(made.vmfb))
    )
    if not made.ok:
        session.store.record_failure(row, made.failure or "compile-error", stderr=made.stderr)
        raise NoCandidateError(f"{problem.name}: {made.failure}: {made.stderr[:300]}", remedy="Tune it.")
    right = _checked(problem, run, row, made) if run.timed else ""
    shipped = _shipped(plan, candidate, job, known, made, files, run)
    same = " the very code that was timed," if known.exact and entry.binary == made.binary else ""
    gain = Interval(entry.median, entry.low, entry.high).over("IREE's default")
    there = "" if known.exact else " there"
    reason = (
        f"from the registry ({known.words}): {gain}{there} on {entry.date}; proven here,{same}{right} nothing timed"
    )
    best = Best(Measured(None, entry.flags, entry.route), candidate.knobs, candidate.carrier.code)
    return Result(
        **run.facts(),
        verdict="compile-only",
        reason=reason,
        baseline=Measured(),
        stock=Measured(),
        best=best,
        speedup=None,
        speedup_over_stock=None,
        confidence=0.0,
        counts=Counts(asked=1, built=1),
        details=None,
        files=Files(shipped.spec, shipped.flagfile, shipped.carrier),
    )


def _candidate(plan: Plan, run: Run, known: Known, *, timeout: float) -> Candidate:
    entry, session, root = known.entry, run.session, run.session.workspace.root
    config = Config.of(entry.config)
    carrier: Carrier = FLAGS
    if entry.spec:
        carrier = entry.carrier_of_spec(run.target.spec_flag)
    elif entry.kernel:
        target = ""
        if run.target.backend.on_host:
            flags = (*plan.problem.flags, *run.target.compile_flags)
            target = executable_target(session.builder.inspect(plan.source, flags, timeout=timeout))
        manifest = find(entry.kernel, search_folders(root), OPERATIONS)
        variants = Variants.of(manifest, plan.problem, session.chip, workspace=root, executable_target=target)
        config = variants.space[variants.space.nearest(entry.config)] if entry.config else variants.default()
        carrier = MicrokernelCarrier((variants.call(config),), target)
    kind: Kind = "microkernel" if entry.kernel else "codegen" if entry.spec else "stock"
    return Candidate("known", kind, entry.own_route, 0, config, carrier=carrier)


def _checked(problem: Problem, run: Run, row: int, made: Compiled) -> str:
    """That its results are right, in words."""
    options, session = run.options, run.session
    program = ProblemProgram(problem, session.runner, options.seed, options.effort.run_timeout, run.folder)
    program.invocation()
    check = program.answer(made.vmfb, None).check
    if not check.ok:
        session.store.record_failure(row, check.failure or "wrong-result", stderr=check.detail)
        raise WrongResultError(
            f"{problem.name}: what the registry has is wrong here: {check.detail}", remedy="Tune it."
        )
    session.store.record_check(row, error=check.error)
    return f" results right (relative error {check.error:.1e}),"


def _shipped(
    plan: Plan, candidate: Candidate, job: BuildJob, known: Known, made: Compiled, files: Outputs, run: Run
) -> Shipped:
    entry, tools = known.entry, run.session.tools
    said = {
        "problem": plan.problem.name,
        "target": run.target.name,
        "registry": f"{known.words}; {entry.sku}, {entry.date}, {entry.command}",
        "use": use_line(files.flagfile),
    }
    header = heading(candidate.carrier.title, tools, said)
    return ship(
        files,
        candidate.carrier.parts(FileHeader(header, entry.provenance(plan.problem.name))),
        plan.flags(candidate),
        check=lambda flagfile: compile_shipped(job, flagfile, run.session.builder),
        binary=made.binary,
    )
