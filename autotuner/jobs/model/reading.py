"""Reads a model for a run: its program, its dispatches on the plain route, and the question that the run asks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from iree.compiler import ir

from autotuner.iree.compile import PREPROCESSED, CompilerRefusal
from autotuner.iree.mlir import parse, walk
from autotuner.jobs.model.choice import choose
from autotuner.jobs.model.context import (
    Ahead,
    Model,
    ModelStructure,
    compile_timeout,
    read_structure,
    structure_in,
)
from autotuner.jobs.model.early import check_words
from autotuner.jobs.model.expected import load_expected
from autotuner.jobs.model.inputs import check_inputs
from autotuner.jobs.model.program import Program, ProgramBuilder, check_call
from autotuner.jobs.model.signature import signature_in
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest
from autotuner.system.settings import cache_dir
from autotuner.targets import NO_DEVICE, PLAIN, Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question
from autotuner.tuning.session import Session

_WORDS = {"conv": ("linalg.conv_", "linalg.depthwise_conv_"), "gemm": ("matmul", "matvec"), "attention": ("attention",)}
"""What the names of operations have in them."""


@dataclass(frozen=True)
class ReadModel:
    """A model that was read: its program, how it is compiled, its dispatches on the plain route."""

    program: Program
    builder: ProgramBuilder
    plain: ModelStructure
    ahead: dict[Route, Ahead]
    """Compiles that are under way."""


def read_model(model: Model, target: Target, options: Options, session: Session, account: Account) -> ReadModel:
    """The model and its dispatches; what imports it keeps to the budget, too.

    What is timed needs the default's module anyway: the dispatches are read from the compile that makes it, and beside
    it the route that is expected to win is compiled.
    """
    account.stage("reading the model")
    check_words(model, target, options, workspace=session.workspace.root)
    with account.clocked("space"):
        program = model.opened_in(session)
        builder = ProgramBuilder(session.tools, Cache(cache_dir()), program)
    ahead: dict[Route, Ahead] = {}
    timeout = compile_timeout(options, account.clock)
    if session.device != NO_DEVICE:
        ahead = _begun(model, target, session, builder, timeout=timeout)
    elif model.inputs or model.function:
        with suppress(CompilerRefusal), account.clocked("space"):
            _checked(model, target, session, builder, timeout=timeout)
    return ReadModel(program, builder, structure_of(model, target, options, builder, account, ahead), ahead)


def structure_of(
    model: Model,
    target: Target,
    options: Options,
    builder: ProgramBuilder,
    account: Account,
    ahead: Mapping[Route, Ahead],
) -> ModelStructure:
    """From the default's compile where that is under way; else the compiler goes no further than it must."""
    with account.clocked("build" if PLAIN in ahead else "space"):
        if PLAIN in ahead:
            build, flags = ahead[PLAIN].build.result(), target.compile_flags
            return structure_in(build, model, builder, flags=flags, target=target.name)
        timeout = compile_timeout(options, account.clock)
        return read_structure(builder, model, target.compile_flags, target=target.name, timeout=timeout)


def _begun(
    model: Model, target: Target, session: Session, builder: ProgramBuilder, *, timeout: float
) -> dict[Route, Ahead]:
    """The default's compile, and that of the route which the operations of the program speak for."""

    def start(route: Route) -> Ahead:
        job = builder.job([*target.compile_flags, *route.flags], timeout=timeout)
        return Ahead(session.executor.start_whole(job), time.monotonic())

    found = {PLAIN: start(PLAIN)}
    with suppress(CompilerRefusal):  # the default's compile has it in full
        ops = operations_in(_checked(model, target, session, builder, timeout=timeout))
        # Of some attentions the default is wrong: what is compiled instead is known only with its dispatches.
        expected = choose(target, model.routes, ops).first[1:2] if "attention" not in ops else ()
        found |= {route: start(route) for route in expected}
    return found


def read_beside(
    model: Model, target: Target, session: Session, builder: ProgramBuilder, *, timeout: float
) -> ModelStructure:
    """The dispatches alone, from a compile that goes no further; what is wrong with the call is told beside it.

    Where the default was compiled before, from that.
    """
    flags = target.compile_flags
    known = builder.known(flags, timeout=timeout)
    with process.ended_by_an_error():
        if known is not None:
            _check(model, session, builder, "".join(known.dumped[PREPROCESSED]))
            return structure_in(known, model, builder, flags=flags, target=target.name)
        begun = session.executor.start_whole(builder.configuring(flags, timeout=timeout))
        with suppress(CompilerRefusal):
            _checked(model, target, session, builder, timeout=timeout)
        return structure_in(begun.result(), model, builder, flags=flags, target=target.name)


def _checked(model: Model, target: Target, session: Session, builder: ProgramBuilder, *, timeout: float) -> str:
    """The preprocessed program. What is wrong with the call is told now, not after minutes of compiling."""
    text = builder.preprocessed(target.compile_flags, timeout=timeout)
    _check(model, session, builder, text)
    return text


def _check(model: Model, session: Session, builder: ProgramBuilder, text: str) -> None:
    program, signature = builder.program, signature_in(text, function=model.function)
    if session.device != NO_DEVICE:
        check_call(program, signature)
        load_expected(model.expected, signature)
    elif program.inputs:
        check_inputs(program.inputs, signature, name=program.name)


def operations_in(text: str) -> set[str]:
    """The operations of a preprocessed program that take time, as the command line calls them."""
    with ir.Context() as context:
        names = {op.name for op in walk(parse(text, context).operation)}
    return {kind for kind, words in _WORDS.items() if any(word in name for name in names for word in words)}


def question_unread(model: Model, target: Target, session: Session) -> Question:
    """Of a model that there was no time to read."""
    size = model.path.stat().st_size
    problem = {"op": "model", "name": model.name, "flops": 0, "bytes": size}
    return Question("model", problem, target, asks=problem, reads=session.tools.programs, recalls=True)


def question_of(model: Model, program: Program, target: Target, session: Session, plain: ModelStructure) -> Question:
    asks = model.describe(program, flops=plain.flops)
    expected = (known_digest(path) for path in model.expected if path.is_file())
    reads = (*session.tools.programs, *program.reads(), *expected)
    problem = {**asks, "ops": sorted(plain.ops)}
    return Question("model", problem, target, asks=asks, reads=reads, recalls=True)
