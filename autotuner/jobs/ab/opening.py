"""From what a user asks to the program that both arms compile, and the question that their run has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import Bug, UsageError
from autotuner.iree.compile import shell_line
from autotuner.iree.folder import SPEC
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.opening import model_program, read_model
from autotuner.measure.reference import WORDS
from autotuner.microkernels.variants import Kernel, kernel_chip
from autotuner.problems import Problem
from autotuner.problems.render import Rows, problem_mlir
from autotuner.programs.model import Model
from autotuner.programs.program import ProblemProgram, Program
from autotuner.system import process
from autotuner.system.digests import path_digest
from autotuner.system.text import times
from autotuner.targets import Target
from autotuner.tuning.dry_run import Rehearsal
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Question, Run


@dataclass(frozen=True)
class Experiment:
    """What a user asks: two arms, and the program that both compile."""

    a: Arm
    b: Arm
    problem: Problem | None = None
    """With a model: what a microkernel replaces there."""
    model: Model | None = None
    rows: Rows | None = None
    """The range of the problem's M, where the program learns it when it runs."""
    alone: bool = False
    """The user named B only: all variants of a microkernel take part."""

    def __post_init__(self) -> None:
        if self.problem is None and self.model is None:
            raise UsageError("ab needs a problem or a model.", remedy="Give --shape or --model.")

    @classmethod
    def of(
        cls, first: Arm, second: Arm | None, problem: Problem | None = None, model: Model | None = None
    ) -> Experiment:
        """As the user names it: one arm races IREE's default."""
        if second is None:
            return cls(DEFAULT, first, problem, model, alone=True)
        return cls(first, second, problem, model)

    @property
    def searched(self) -> Kernel | None:
        """The microkernel whose variants all take part: it is alone, and so is the problem."""
        return self.b.kernels[0] if self.alone and self.model is None and self.b.kernels else None


@dataclass(frozen=True)
class Opened:
    """A program that was read: what its run asks, and how it is called in that run's folder."""

    question: Question
    subject: Callable[[Run], Program]


def open_program(wanted: Experiment, job: Job) -> Opened:
    """What both arms compile: a model, or a problem on its own, with a reference."""
    if wanted.model is not None:
        return open_model(wanted, wanted.model, job)
    problem = wanted.problem
    if problem is None:
        raise Bug("an experiment has neither a problem nor a model.")
    session, options = job.session, job.options

    def subject(run: Run) -> Program:
        return ProblemProgram(
            problem, session.runner, options.seed, options.effort.run_timeout, run.folder, wanted.rows
        )

    rows = () if wanted.rows is None else (f"M {wanted.rows}",)
    return Opened(_question(wanted, job, problem.describe(), (*problem.arguments(), *rows)), subject)


def open_model(wanted: Experiment, model: Model, job: Job) -> Opened:
    """A model: arm A is the reference."""
    builder, structure = read_model(model, job)
    description = builder.program.describe(flops=structure.flops)
    first = WORDS["default"] if wanted.a.name == DEFAULT.name else wanted.a.name

    def subject(run: Run) -> Program:
        return model_program(model, structure, builder, run, first=first, problem=wanted.problem)

    return Opened(_question(wanted, job, description, builder.program.inputs), subject)


def _question(wanted: Experiment, job: Job, problem: Mapping[str, object], arguments: tuple[str, ...]) -> Question:
    arms = (wanted.a, wanted.b)
    read = [path for arm in arms for path in arm.reads]
    read += [path for path in wanted.model.expected if path.is_file()] if wanted.model is not None else []
    return Question(
        kind="ab",
        problem=problem,
        target=job.target,
        asks={**problem, "arguments": (*arguments, "ab", wanted.a.name, wanted.b.name)},
        reads=(*job.session.tools.programs, *(path_digest(path) for path in read)),
        space_size=len(arms),
    )


# --- a rehearsal ------------------------------------------------------------------------------------------------------


def rehearse_experiment(wanted: Experiment, target: Target, *, options: Options) -> Rehearsal:
    """Both arms prepared and proven, and the commands; nothing is written outside of a folder that is thrown away."""
    tools = Tools.find(options.iree_tools)
    problem, model = target.prepare(wanted.problem) if wanted.problem is not None else None, wanted.model
    with process.temporary("autotune-") as scratch:
        source: str | Path = problem_mlir(problem) if problem is not None else ""
        flags, subject = problem.flags if problem is not None else (), model or problem
        if model is not None:
            subject = model.opened(folder=scratch, tools=tools)
            flags, source = (), subject.path
        site = ArmSite(
            program=source,
            flags=(*flags, *target.compile_flags),
            target=target,
            chip=kernel_chip(target, target.choose_device(options.device)),
            tools=tools,
            workspace=options.workspace.absolute(),
            timeout=options.effort.compile_timeout,
            problem=problem,
            allow=subject.allow if subject is not None else "",
        )
        recipes = [(arm, arm.recipe(site)) for arm in (wanted.a, wanted.b)]
    text, name = source if isinstance(source, str) else None, subject.name if subject is not None else ""
    lines, arms = [f"{name} on {target.name}"], []
    for letter, (arm, recipe) in zip("AB", recipes, strict=True):
        line = shell_line(recipe.command(source, tools))
        spec = str(recipe.spec) if recipe.spec else SPEC if recipe.kernel else None
        applied = f", its spec applies {times(recipe.applied)}" if spec else ""
        lines += ["", f"--- {letter}: {arm.name} ({arm.kind}){applied}", line]
        facts = {"name": arm.name, "kind": arm.kind, "flags": list(recipe.added), "spec": spec}
        arms.append({**facts, "applied": recipe.applied, "command": [line]})
    lines += ["", "--- problem.mlir", text.rstrip()] if text else []
    document = {"problem": {"name": name}, "target": target.name, "arms": arms, "problem_mlir": text}
    return Rehearsal(document, "\n".join(lines))
