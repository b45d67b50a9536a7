"""Reads a model for a run: its program, its dispatches on the plain route, and the question that the run asks."""

from __future__ import annotations

from pathlib import Path

from autotuner.jobs.model.route_search import choose
from autotuner.jobs.opening import compile_timeout, open_model
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.variants import AUTO
from autotuner.problems.operations import OPERATIONS
from autotuner.programs.model import Model, ModelBuilder
from autotuner.programs.structure import KINDS, ModelStructure, read_beside
from autotuner.system.digests import known_digest
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Question


def read_model(model: Model, job: Job) -> tuple[ModelBuilder, ModelStructure]:
    """How it is compiled, and its dispatches; what imports it keeps to the budget, too.

    What is timed needs the default's module anyway: the dispatches are read from the compile that makes it.
    """
    target, options, session, account = job.target, job.options, job.session, job.account
    account.stage("reading the model")
    check_words(model, target, options, workspace=session.workspace.root)
    with account.clocked("space"):
        builder = open_model(model, session)
    timed, timeout = session.device != NO_DEVICE, compile_timeout(options, account.clock)
    with account.clocked("build" if timed else "space"):
        plain = read_beside(target, builder, session.executor, timeout=timeout, timed=timed, whole=timed)
    return builder, plain


def check_words(model: Model, target: Target, options: Options, *, workspace: Path) -> None:
    """Refuses wrong names of routes and microkernels, and wrong files, before anything is compiled."""
    choose(target, model.routes, set(KINDS.values()))
    for kernel in options.microkernels:
        if kernel.name != AUTO:
            find(kernel.name, search_folders(workspace), OPERATIONS)
    model.check_words()


def question_of(model: Model, job: Job, plain: ModelStructure) -> Question:
    asks = model.describe(flops=plain.flops)
    expected = (known_digest(path) for path in model.expected if path.is_file())
    reads = (*job.session.tools.programs, *model.reads(), *expected)
    problem = {**asks, "ops": sorted(plain.ops)}
    return Question("model", problem, job.target, asks=asks, reads=reads, recalls=True)
