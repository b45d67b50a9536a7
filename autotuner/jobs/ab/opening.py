"""From what a user asks to the program that both arms compile, and the question that their run has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotuner.errors import OutOfTimeError, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.inputs import problem_inputs
from autotuner.jobs.opening import compile_timeout, model_program
from autotuner.jobs.opening import open_model as open_model_file
from autotuner.measure.reference import WORDS
from autotuner.problems import Problem
from autotuner.problems.accuracy import Precision
from autotuner.programs.model import Model
from autotuner.programs.program import ProblemProgram, Program
from autotuner.programs.structure import read_beside
from autotuner.system.digests import path_digest
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session
from autotuner.tuning.too_short import would_read


@dataclass(frozen=True)
class Experiment:
    """What a user asks: two arms, and the program that both compile."""

    a: Arm
    b: Arm
    problem: Problem | None = None
    """With a model: what a microkernel replaces there."""
    model: Model | None = None
    inputs: tuple[str, ...] = ()
    """Of a problem on its own; a model has its own."""
    has_won: bool = False
    """B was found to be faster before: it is confirmed at once, and no race comes first."""
    expected_us: tuple[float, float] | None = None
    """What A and B took on this machine before: how often they are repeated is known before they are timed."""

    @property
    def allow(self) -> Precision:
        """The accuracy that is accepted of what both compute."""
        of = self.model or self.problem
        return of.allow if of is not None else ""


@dataclass(frozen=True)
class Opened:
    """A program that was read: what its run asks, and how it is called in that run's folder."""

    question: Question
    subject: Callable[[Run], Program]


def open_problem(wanted: Experiment, problem: Problem, target: Target, options: Options, session: Session) -> Opened:
    """A problem on its own, with a reference."""
    arrays = problem_inputs(wanted.inputs, problem, seed=options.seed)
    question = _question(wanted, target, session, problem.describe(), (*problem.arguments(), *wanted.inputs))
    timeout = options.effort.run_timeout

    def subject(run: Run) -> Program:
        return ProblemProgram(problem, arrays, session.runner, options.seed, timeout, run.folder)

    return Opened(question, subject)


def open_model(
    wanted: Experiment, model: Model, target: Target, options: Options, session: Session, account: Account
) -> Opened:
    """A model: arm A is the reference."""
    account.stage("reading the model")
    model.check_words()
    try:
        with account.clocked("space"):
            builder = open_model_file(model, session)
            timeout, timed = compile_timeout(options, account.clock), session.device != NO_DEVICE
            structure = read_beside(model, target, builder, session.executor, timeout=timeout, timed=timed)
    except OutOfTimeError as error:
        late = f"the time was up before {model.path.name} was read."
        raise OutOfTimeError(late, remedy=f"{would_read(account.clock)}.") from error
    description = model.describe(builder.program, flops=structure.flops)
    first = WORDS["default"] if wanted.a.name == DEFAULT.name else wanted.a.name

    def subject(run: Run) -> Program:
        return model_program(model, structure, builder, run, first=first, problem=wanted.problem)

    return Opened(_question(wanted, target, session, description, builder.program.inputs), subject)


def open_program(wanted: Experiment, target: Target, options: Options, session: Session, account: Account) -> Opened:
    """What both arms compile."""
    if wanted.model is not None:
        return open_model(wanted, wanted.model, target, options, session, account)
    if wanted.problem is None:
        raise UsageError("there is neither a problem nor a model.", remedy="Give --shape or --model.")
    return open_problem(wanted, wanted.problem, target, options, session)


def _question(
    wanted: Experiment, target: Target, session: Session, problem: Mapping[str, object], arguments: tuple[str, ...]
) -> Question:
    arms = (wanted.a, wanted.b)
    read = [path for arm in arms for path in arm.reads]
    read += [path for path in wanted.model.expected if path.is_file()] if wanted.model is not None else []
    return Question(
        kind="ab",
        problem=problem,
        target=target,
        asks={**problem, "arguments": (*arguments, "ab", wanted.a.name, wanted.b.name)},
        reads=(*session.tools.programs, *(path_digest(path) for path in read)),
        space_size=len(arms),
    )
