"""Ships a winner: the spec with its provenance, the flagfile, and the proof that a fresh compile applies them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotuner.build.ship import compile_shipped
from autotuner.build.ship import ship as ship_parts
from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import MICROKERNEL, SPEC, Outputs
from autotuner.carriers.provenance import Provenance, heading, machine_of, today
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
from autotuner.tuning.plan import BASELINE, Plan
from autotuner.tuning.result import Files
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
    """A candidate that is shipped, and what was found of it."""

    run: Run
    plan: Plan
    outcome: Outcome
    judgement: Judgement | None
    """Without one nothing was timed, and the files say so."""
    standing: Standing[Outcome]
    command: str
    """What repeats it."""
    caches: Caches | None = None
    program: Path | None = None
    """The problem as a file that stays; None where it does not (--keep)."""

    def ship(self, files: Outputs) -> Files:
        """Spec, flagfile and objects, proven by a fresh compile."""
        plan, candidate, build = self.plan, self.outcome.candidate, self.outcome.build
        job, builder = plan.job(candidate, timeout=self.run.options.effort.compile_timeout), self.run.session.builder
        shipped = ship_parts(
            files,
            candidate.carrier.parts(FileHeader(self._header(files.flagfile), self._provenance())),
            plan.flags(candidate),
            check=lambda flagfile: compile_shipped(job, flagfile, builder),
            binary=build.binary if build else None,
        )
        return Files(shipped.spec, shipped.flagfile, shipped.carrier)

    def _provenance(self) -> Provenance:
        judgement, plan, run, cold = self.judgement, self.plan, self.run, self.caches.cold if self.caches else None
        speedup, us = (judgement.speedup, judgement.us) if judgement else (None, {})
        base = self.standing.base
        return Provenance(
            problem=plan.problem.name,
            target=plan.target.name,
            device=run.session.device,
            verdict=judgement.verdict if judgement else ESTIMATED,
            us=us.get(self.outcome.id),
            baseline_us=us.get(base.id if base else BASELINE),
            cold_us=cold.best_us if cold else None,
            baseline_cold_us=cold.baseline_us if cold else None,
            seconds=run.clock.elapsed if judgement else None,
            command=self.command,
        ).stamped(run.session.tools, speedup, run.environment if judgement else None)

    def _header(self, flagfile: Path) -> list[str]:
        judgement, problem, speedup, over = self.judgement, self.plan.problem, None, ""
        if judgement is not None:
            speedup = judgement.speedup
            if judgement.over_stock is not None and judgement.stock != BASELINE:
                route = next(c.route.name for c in self.plan.stock if c.id == judgement.stock)
                over = judgement.over_stock.over(f"route {route}")
        gain = speedup.over(self.standing.over) if speedup is not None else "no interval"
        said = {
            "problem": f"{problem.name} ({problem.flops} flops, {problem.bytes} bytes)",
            "target": self.plan.target.name,
            "machine": machine_of(self.run.environment) if judgement else "",
            "verdict": f"{judgement.verdict}, {gain}" if judgement else ESTIMATED,
            "default": self.standing.words,
            "precision": f"results of {problem.allow} accuracy were accepted" if problem.allow else "",
            "over stock": over,
            "cold cache": self.caches.words() if self.caches is not None else "",
            "date": today(),
            "made by": self.command,
            "use": use_line(flagfile.absolute(), program=self.program),
        }
        return heading(self.outcome.candidate.carrier.title, self.run.session.tools, said)


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
