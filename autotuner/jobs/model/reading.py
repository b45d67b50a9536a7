"""Reads a model for a run: its program, its dispatches on the plain route, and the question that the run asks."""

from __future__ import annotations

from autotuner.jobs.model.context import Model, ModelStructure, compile_timeout, read_structure
from autotuner.jobs.model.program import Program, ProgramBuilder, program_name
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question
from autotuner.tuning.session import Session


def read_model(
    model: Model, target: Target, options: Options, session: Session, account: Account
) -> tuple[Program, ProgramBuilder, ModelStructure]:
    """The model and its dispatches; what imports it keeps to the budget, too."""
    account.stage("reading the model")
    with account.clocked("space"):
        program = Program.open(
            model.path,
            folder=session.workspace.candidates / "models",
            tools=session.tools,
            trust=model.trust,
        ).called(function=model.function, inputs=model.inputs, parameters=model.parameters)
        builder = ProgramBuilder(session.tools, Cache(cache_dir()), program)
    timed = session.device != NO_DEVICE
    return program, builder, structure_of(model, target, options, builder, account, timed=timed)


def structure_of(
    model: Model, target: Target, options: Options, builder: ProgramBuilder, account: Account, *, timed: bool
) -> ModelStructure:
    """What is timed needs the default's module anyway: the dispatches are read from the compile that makes it."""
    with account.clocked("build" if timed else "space"):
        timeout = compile_timeout(options, account.clock)
        flags = target.compile_flags
        return read_structure(builder, model, flags, target=target.name, timeout=timeout, module=timed)


def question_unread(model: Model, target: Target, session: Session) -> Question:
    """Of a model that there was no time to read."""
    size = model.path.stat().st_size
    problem = {"op": "model", "name": program_name(model.path), "flops": 0, "bytes": size}
    return Question("model", problem, target, asks=problem, reads=session.tools.programs, has_parts=True)


def question_of(model: Model, program: Program, target: Target, session: Session, plain: ModelStructure) -> Question:
    asks = program.describe(flops=plain.flops) | ({"allow_precision": model.allow} if model.allow else {})
    reads = (*session.tools.programs, *program.reads())
    problem = {**asks, "ops": sorted(plain.ops)}
    return Question("model", problem, target, asks=asks, reads=reads, has_parts=True)
