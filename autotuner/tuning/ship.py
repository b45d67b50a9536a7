"""Ships a winner: the spec with its provenance, the flagfile, and the proof that a fresh compile applies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner._version import __version__
from autotuner.build import Builder
from autotuner.build.builder import BINARIES, CONFIGURATIONS, dump_flags, hash_binaries, kernel_binary, prove
from autotuner.carriers.calls import preprocess
from autotuner.carriers.calls import prove as proof_of
from autotuner.carriers.flagfile import flagfile_text, use_line
from autotuner.carriers.microkernel import OBJECTS_FLAG
from autotuner.carriers.outputs import MICROKERNEL, SPEC, Outputs
from autotuner.carriers.provenance import Provenance, today
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import first_error, shell_line
from autotuner.iree.tools import Tools
from autotuner.measure.judge import Judgement
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.names import checked_name
from autotuner.system.workspace import Workspace
from autotuner.targets import Target
from autotuner.tuning.evaluate import Outcome
from autotuner.tuning.options import Options
from autotuner.tuning.plan import BASELINE, Candidate, Carrier, Plan
from autotuner.tuning.task import Task

ESTIMATED = "compile-only: an estimate, never timed"
"""The verdict of what was chosen without a device."""


@dataclass(frozen=True)
class Shipped:
    """The files that a user takes away; `spec` is None when flags alone win."""

    spec: Path | None
    flagfile: Path
    carrier: Carrier
    objects: Path | None = None
    """The folder of a microkernel's objects."""


def outputs(problem: Problem, target: Target, options: Options, task: Task, workspace: Workspace) -> Outputs:
    """Named after the problem; an experiment with a microkernel does not write over what tuning has shipped."""
    names = (
        [checked_name(kernel.name, what="a microkernel") for kernel in options.microkernels]
        if task.microkernels_alone
        else []
    )
    default = workspace.specs / f"{problem.name}-{'-'.join([target.name, *names])}.mlir"
    return Outputs.at(options.output or default, workspace, MICROKERNEL if options.microkernels else SPEC)


def ship(
    plan: Plan,
    judgement: Judgement | None,
    winner: Outcome,
    *,
    files: Outputs,
    builder: Builder,
    device: str,
    command: Sequence[str],
    timeout: float,
) -> Shipped:
    """Writes spec and flagfile, then compiles with them once more: what does not apply is not left behind.

    Without a judgement nothing was timed, and the files say so.
    """
    candidate, path, flagfile = winner.candidate, files.spec, files.flagfile
    text = plan.spec(
        candidate,
        header=_header(plan, judgement, candidate, flagfile, command, builder.tools),
        provenance=_provenance(plan, judgement, candidate, device, command, builder.tools),
    )
    flags = list(plan.flags(candidate))
    if text is not None:
        flags.append(f"{plan.spec_flag(candidate)}={path.absolute()}")
        files.write(path, text)
    objects = None
    if candidate.kind == "microkernel":
        objects = files.objects
        for source in plan.call(candidate).instance.objects:
            files.copy(source)
        flags.append(f"{OBJECTS_FLAG}={objects.absolute()}")
    files.write(flagfile, flagfile_text(flags))
    shipped = Shipped(path if text is not None else None, flagfile, candidate.carrier, objects)
    try:
        _verify(plan, winner, shipped, builder, timeout=timeout)
    except EnvironmentFailure:
        files.clear()
        raise
    return shipped


def _verify(plan: Plan, winner: Outcome, shipped: Shipped, builder: Builder, *, timeout: float) -> None:
    """A fresh compile by `@flagfile`, as a user would do it, must give the binary that won."""
    with builder.cache.scratch() as folder:
        (folder / "problem.mlir").write_text(plan.source)
        done = process.run(
            [
                builder.tools.iree_compile,
                "problem.mlir",
                f"@{shipped.flagfile.absolute()}",
                *builder.tools.printing,
                *dump_flags(substitutes=shipped.carrier == "substitution"),
                "-o",
                "module.vmfb",
            ],
            timeout=timeout,
            cwd=folder,
        )
        if not done.ok:
            raise EnvironmentFailure(
                f"the winner does not compile again from {shipped.flagfile}: {first_error(done.why())}",
                remedy="Run again; if it stays so, please report it with the candidate's folder.",
            )
        if winner.candidate.info is not None:
            applied, why = prove(folder / CONFIGURATIONS, winner.candidate.info)
            if not applied:
                raise EnvironmentFailure(
                    f"the shipped spec does not apply: {why}.", remedy="Please report it with the candidate's folder."
                )
        binary = hash_binaries(folder / BINARIES)
        if winner.candidate.kind == "microkernel":
            calls = [plan.call(winner.candidate)]
            flags = [f"@{shipped.flagfile.absolute()}"]
            text = preprocess(builder.tools, folder / "problem.mlir", flags, timeout=timeout)
            why = proof_of(text, calls).reason(calls)
            if why:
                raise EnvironmentFailure(
                    f"the shipped microkernel is not called: {why}", remedy="Please report it with the spec."
                )
            binary = kernel_binary(binary, calls)
        if winner.build is not None and binary != winner.build.binary:
            raise EnvironmentFailure(
                "the shipped files give another binary than the one that won.",
                remedy="Was IREE exchanged during the run? Run again.",
            )


def _provenance(
    plan: Plan, judgement: Judgement | None, candidate: Candidate, device: str, command: Sequence[str], tools: Tools
) -> Provenance:
    speedup, us = (judgement.speedup, judgement.us) if judgement else (None, {})
    return Provenance(
        problem=plan.problem.name,
        target=plan.target.name,
        device=device,
        iree=tools.release,
        compiler=tools.build,
        verdict=judgement.verdict if judgement else ESTIMATED,
        us=us.get(candidate.id),
        baseline_us=us.get(BASELINE),
        low=speedup.low if speedup else None,
        median=speedup.median if speedup else None,
        high=speedup.high if speedup else None,
        date=today(),
        command=shell_line(command),
    )


def _header(
    plan: Plan, judgement: Judgement | None, candidate: Candidate, flagfile: Path, command: Sequence[str], tools: Tools
) -> list[str]:
    speedup, over = (judgement.speedup, judgement.over_stock) if judgement else (None, None)
    verdict = f"{judgement.verdict}, no interval" if judgement else ESTIMATED
    if judgement is not None and speedup is not None:
        interval = f"95 % interval {speedup.low:.3f} to {speedup.high:.3f}"
        verdict = f"{judgement.verdict}, {speedup.median:.3f}x over IREE's default, {interval}"
    what = {"substitution": "Configured executable, to be substituted,", "microkernel": "Microkernel spec"}.get(
        candidate.carrier, "Tuning spec"
    )
    lines = [
        f"{what} by autotune {__version__}",
        f"problem:    {plan.problem.name} ({plan.problem.flops} flops, {plan.problem.bytes} bytes)",
        f"target:     {plan.target.name}; IREE {tools.release} ({tools.build})",
        f"verdict:    {verdict}",
        *([f"precision:  results of {plan.problem.allow} accuracy were accepted"] if plan.problem.allow else []),
    ]
    if judgement is not None and over is not None and judgement.stock != BASELINE:
        route = next(c.route.name for c in plan.stock if c.id == judgement.stock)
        lines.append(f"over stock: {over.median:.3f}x over route {route}, {over.low:.3f} to {over.high:.3f}")
    lines += [
        f"date:       {today()}",
        f"made by:    {shell_line(command)}",
        f"use:        {use_line(flagfile.absolute())}",
    ]
    return [" ".join(line.splitlines()) for line in lines]
