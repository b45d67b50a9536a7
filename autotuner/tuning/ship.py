"""Ships a winner: the spec with its provenance, the flagfile, and the proof that a fresh compile applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotuner._version import __version__
from autotuner.build import Builder
from autotuner.build.ship import Shipped, compile_shipped
from autotuner.build.ship import ship as ship_parts
from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import MICROKERNEL, SPEC, Outputs
from autotuner.carriers.provenance import Provenance, machine_of, today
from autotuner.iree.compile import shell_line
from autotuner.iree.tools import Tools
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.measure.standing import Standing
from autotuner.microkernels.variants import AUTO, Kernel
from autotuner.problems import Problem
from autotuner.search import GUIDED
from autotuner.system.workspace import Workspace, checked_name
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options, Task
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, Candidate, Plan
from autotuner.tuning.run import Run

ESTIMATED = "compile-only: an estimate, never timed"
"""The verdict of what was chosen without a device."""


def outputs(problem: Problem, target: Target, options: Options, task: Task, workspace: Workspace) -> Outputs:
    """Named after the problem; an experiment with a microkernel does not write over what tuning has shipped."""
    names = (
        [checked_name(kernel.name, what="a microkernel") for kernel in options.microkernels]
        if task.microkernels_alone
        else []
    )
    default = workspace.specs / f"{problem.name}-{'-'.join([target.name, *names])}.mlir"
    suffixes = MICROKERNEL if options.microkernels else SPEC
    return Outputs.at(options.output or default, workspace, suffixes, force=options.force)


@dataclass(frozen=True)
class Winner:
    """A candidate that is shipped, what was found of it, and the command that repeats it."""

    plan: Plan
    outcome: Outcome
    judgement: Judgement | None
    """Without one nothing was timed, and the files say so."""
    device: str
    command: Sequence[str]
    standing: Standing[Outcome]
    caches: Caches | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    """What the run has taken."""
    program: Path | None = None
    """The problem as a file that stays; None where it does not (--keep)."""

    @property
    def candidate(self) -> Candidate:
        return self.outcome.candidate


def ship(winner: Winner, *, files: Outputs, builder: Builder, timeout: float) -> Shipped:
    """Spec, flagfile and objects, proven by a fresh compile."""
    plan, candidate, build = winner.plan, winner.candidate, winner.outcome.build
    said = FileHeader(_header(winner, files.flagfile, builder.tools), _provenance(winner, builder.tools))
    job = plan.job(candidate, timeout=timeout)
    return ship_parts(
        files,
        candidate.carrier.parts(said),
        plan.flags(candidate),
        check=lambda flagfile: compile_shipped(job, flagfile, builder),
        binary=build.binary if build else None,
    )


def _provenance(winner: Winner, tools: Tools) -> Provenance:
    judgement, plan = winner.judgement, winner.plan
    speedup, us = (judgement.speedup, judgement.us) if judgement else (None, {})
    base = winner.standing.base
    return Provenance(
        problem=plan.problem.name,
        target=plan.target.name,
        device=winner.device,
        verdict=judgement.verdict if judgement else ESTIMATED,
        us=us.get(winner.candidate.id),
        baseline_us=us.get(base.candidate.id if base else BASELINE),
        cold_us=winner.caches.cold.best_us if winner.caches else None,
        baseline_cold_us=winner.caches.cold.baseline_us if winner.caches else None,
        seconds=winner.seconds if judgement else None,
        command=shell_line(winner.command),
    ).stamped(tools, speedup, winner.environment if judgement else None)


def _header(winner: Winner, flagfile: Path, tools: Tools) -> list[str]:
    judgement, plan = winner.judgement, winner.plan
    speedup, over = (judgement.speedup, judgement.over_stock) if judgement else (None, None)
    verdict = f"{judgement.verdict}, no interval" if judgement else ESTIMATED
    if judgement is not None and speedup is not None:
        verdict = f"{judgement.verdict}, {speedup.over(winner.standing.over)}"
    lines = [
        f"{winner.candidate.carrier.title} by autotune {__version__}",
        f"problem:    {plan.problem.name} ({plan.problem.flops} flops, {plan.problem.bytes} bytes)",
        f"target:     {plan.target.name}; IREE {tools.release} ({tools.build})",
        *([f"machine:    {machine}"] if judgement and (machine := machine_of(winner.environment)) else []),
        f"verdict:    {verdict}",
        *([f"default:    {wrong}"] if (wrong := winner.standing.words) else []),
        *([f"precision:  results of {plan.problem.allow} accuracy were accepted"] if plan.problem.allow else []),
    ]
    if judgement is not None and over is not None and judgement.stock != BASELINE:
        route = next(c.route.name for c in plan.stock if c.id == judgement.stock)
        lines.append(f"over stock: {over.over(f'route {route}')}")
    if winner.caches is not None:
        lines.append(f"cold cache: {winner.caches.words()}")
    lines += [
        f"date:       {today()}",
        f"made by:    {shell_line(winner.command)}",
        f"use:        {use_line(flagfile.absolute(), program=winner.program)}",
    ]
    return [" ".join(line.splitlines()) for line in lines]


def reproduced_by(problem: Problem, run: Run, *, task: Task, trials: int) -> list[str]:
    """In words that a shell can be given; what the options left open is spelt out."""
    target, options, device = run.target, run.options, run.session.named
    words = [*problem.arguments(), *target.words, "--device", device]
    kernels = options.microkernels
    if task.microkernels_alone:
        own = [word for path in kernels[0].objects for word in ("--object", str(path))]
        own += ["--symbol", kernels[0].symbol] if kernels[0].symbol else []
        words = ["ab", kernels[0].name, *words[1:], *own]
    elif [*kernels] != [Kernel(AUTO)]:
        words += ["--microkernels", ",".join(kernel.name for kernel in kernels) or "none"]
    words += ["--isolate"] if options.isolate else []
    words += ["--cache", options.cache] if options.cache != "both" else []
    words += ["--sampler", options.sampler] if options.sampler != GUIDED else []
    words += [f"--flag={flag}" for flag in target.user_flags]
    words += run.session.tools.arguments()
    if device == NO_DEVICE and options.output is not None:  # without it nothing is written
        words += ["-o", str(options.output)]
    budget = f"{run.clock.budget:g}s"
    return ["autotune", *words, "--budget", budget, "--trials", str(trials), "--seed", str(options.seed)]
