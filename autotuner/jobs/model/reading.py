"""Reads a model for a run: its program, its dispatches on the plain route, and the question that the run asks."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotuner.build import Compiled
from autotuner.iree.compile import CompilerRefusal
from autotuner.jobs.model.route_search import choose
from autotuner.jobs.opening import compile_timeout, open_model
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.variants import AUTO
from autotuner.programs.model import Model, ModelBuilder
from autotuner.programs.structure import (
    KINDS,
    ModelStructure,
    check_program,
    read_structure,
    structure_in,
)
from autotuner.system.digests import known_digest
from autotuner.targets import NO_DEVICE, PLAIN, Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question
from autotuner.tuning.session import Session


@dataclass(frozen=True)
class ReadModel:
    """A model that was read: its program, how it is compiled, its dispatches on the plain route."""

    builder: ModelBuilder
    plain: ModelStructure
    ahead: dict[Route, Future[Compiled]]
    """Compiles that are under way."""


def read_model(model: Model, target: Target, options: Options, session: Session, account: Account) -> ReadModel:
    """The model and its dispatches; what imports it keeps to the budget, too.

    What is timed needs the default's module anyway: the dispatches are read from the compile that makes it. What is
    wrong with the call is told while that goes on.
    """
    account.stage("reading the model")
    check_words(model, target, options, workspace=session.workspace.root)
    with account.clocked("space"):
        builder = open_model(model, session)
    timed, timeout = session.device != NO_DEVICE, compile_timeout(options, account.clock)
    ahead: dict[Route, Future[Compiled]] = {}
    if timed:
        ahead = {PLAIN: session.executor.start(builder.job(target.compile_flags, timeout=timeout))}
    if timed or model.inputs or model.function:
        with suppress(CompilerRefusal), account.clocked("space"):  # the compile has it in full
            text = builder.preprocessed(target.compile_flags, timeout=timeout)
            check_program(builder.program, text, timed=timed)
    return ReadModel(builder, structure_of(target, options, builder, account, ahead), ahead)


def check_words(model: Model, target: Target, options: Options, *, workspace: Path) -> None:
    """Refuses what the words alone tell: names of routes and microkernels, files that cannot be what is wanted."""
    choose(target, model.routes, set(KINDS.values()))
    for kernel in options.microkernels:
        if kernel.name != AUTO:
            find(kernel.name, search_folders(workspace))
    model.check_words()


def structure_of(
    target: Target,
    options: Options,
    builder: ModelBuilder,
    account: Account,
    ahead: Mapping[Route, Future[Compiled]],
) -> ModelStructure:
    """From the default's compile where that is under way; else the compiler goes no further than it must."""
    with account.clocked("build" if PLAIN in ahead else "space"):
        if PLAIN in ahead:
            build, flags = ahead[PLAIN].result(), target.compile_flags
            return structure_in(build, builder, flags=flags, target=target.name)
        timeout = compile_timeout(options, account.clock)
        return read_structure(builder, target.compile_flags, target=target.name, timeout=timeout)


def question_of(model: Model, target: Target, session: Session, plain: ModelStructure) -> Question:
    asks = model.describe(flops=plain.flops)
    expected = (known_digest(path) for path in model.expected if path.is_file())
    reads = (*session.tools.programs, *model.reads(), *expected)
    problem = {**asks, "ops": sorted(plain.ops)}
    return Question("model", problem, target, asks=asks, reads=reads, recalls=True)
