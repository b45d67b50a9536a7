"""What several jobs do: models are opened, read and called; modules are made to last long enough, raced and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from autotuner.build import Compiled
from autotuner.devices.device import INVOCATION_US, MAX_REPEAT, Computed, Device, Timing, choose_repeat
from autotuner.errors import NoCandidateError
from autotuner.iree.run import Benchmark, Invocation
from autotuner.measure.audit import Audit, shortest_us
from autotuner.measure.check import Check
from autotuner.measure.clock import Clock
from autotuner.measure.contest import timed_by
from autotuner.measure.judge import Judge, JudgePhase, unheard
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.reference import WORDS
from autotuner.measure.schedule import Schedule, beginning
from autotuner.problems import Problem
from autotuner.programs.arbiter import Arbiter, HostAnswer, compute_on_host
from autotuner.programs.inputs import load_expected, wider
from autotuner.programs.model import Model, ModelBuilder, call_of
from autotuner.programs.program import ModelProgram, Program
from autotuner.programs.reproducer import reproduce
from autotuner.programs.structure import ModelStructure, NotCompiled, expected_error, read_beside, read_structure
from autotuner.registry.folder import LazyRegistry, Registry
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets import Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Run
from autotuner.tuning.session import Session

MIN_TIME = 0.05
"""Seconds a repetition of a whole model, at least."""
_LONG_ENOUGH = 1.1
"""Times as many repeats for which nothing is compiled anew."""


def lengthened(
    device: Device,
    first: Compiled,
    benchmark: Benchmark,
    repeated: Callable[[int], Compiled],
    *,
    lasting_us: float = INVOCATION_US,
    most: int = MAX_REPEAT,
) -> tuple[Compiled, Timing]:
    """A module that repeats its dispatches until a call lasts so long, and its last timing; the code stays the same.

    What a single call takes is mostly overhead: how often to repeat shows only when it is repeated, so that it is
    compiled anew twice, at most. Where that does not compile, it is what there was before.
    """
    module, timing = first, device.time(first, benchmark, repetitions=1)
    for _ in range(2):
        repeat = choose_repeat(timing.median, invocation_us=lasting_us, most=most) if timing.ok else 1
        made = repeated(repeat) if repeat > _LONG_ENOUGH * module.repeat else module
        if not made.ok or made.repeat <= module.repeat:
            break
        module, timing = made, device.time(made, benchmark, repetitions=1)
    return module, timing


@dataclass(frozen=True)
class Racer:
    """A program compiled in one way, as it is raced."""

    id: str
    row: int
    timed: Compiled
    """It may repeat its dispatches."""
    once: Compiled
    """It does each once, as users call it."""
    call_us: float
    """Seconds of a call of the module that is timed."""


def judged(
    contest: Contest,
    racers: Sequence[Racer],
    program: Program,
    benchmark: Benchmark,
    run: Run,
    schedule: Schedule,
    *,
    stage: Callable[[str], None] = unheard,
    agree: Callable[[Computed, Computed], Check] | None = None,
    refused: Callable[[str, Check], None] = lambda *_: None,
) -> Judgement:
    """The verdict, with every timing written down; a win is called on inputs that change, and must `agree`. Who does
    not is `refused`."""
    store, runner, rows = run.session.store, run.session.runner, {one.id: one.row for one in racers}

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        store.record_timing(rows[name], timing, phase=phase, block=block)

    def refuse(name: str, check: Check) -> None:
        store.record_failure(rows[name], check.failure or "", stderr=check.detail)
        refused(name, check)

    calls = {one.id: one.call_us for one in racers}
    takes = timed_by(runner, benchmark, {one.id: one.timed for one in racers}, call_us=calls)
    least = shortest_us(program.problem, runner.uri) if program.problem is not None and program.repeated else 0.0
    once, same = {one.id: one.once for one in racers}, agree or program.agree
    audit = Audit(runner, benchmark.invocation, program.storage, once, same, benchmark.timeout, refuse, least)
    left, stop = schedule.judging, run.session.stop
    judge = Judge(contest, takes, left, stop, schedule.pair, record, stage, audit, lambda: run.clock.elapsed)
    return schedule.with_advice(judge.verdict())


def compile_timeout(options: Options, clock: Clock) -> float:
    """A model may take as long as there is time."""
    return max(options.effort.compile_timeout, clock.budget)


def run_timeout(options: Options) -> float:
    return 10 * options.effort.run_timeout


def remembering(options: Options | None) -> Options:
    """With the registry that searches begin with: all parts of a command read it once."""
    options = options or Options()
    return options if options.registry is not None else replace(options, registry=LazyRegistry(options.workspace))


def known_here(run: Run) -> Registry:
    """What the registry has for this chip with this IREE."""
    known, sku = remembering(run.options).registry, str(run.environment.get("device_name") or "")
    whole = known.opened if isinstance(known, LazyRegistry) else Registry()
    return whole.on(chip=run.target.name, sku=sku, iree=run.session.tools.release)


def open_model(model: Model, session: Session) -> ModelBuilder:
    """The model's file, imported and vetted, and what compiles it."""
    return ModelBuilder(session.tools, Cache(cache_dir()), model.opened_in(session.workspace, session.tools))


def read_model(
    model: Model, job: Job, *, whole: bool = False, others: Sequence[Route] = ()
) -> tuple[ModelBuilder, ModelStructure]:
    """How it is compiled, and its dispatches on the plain route; what imports it keeps to the budget, too.

    `whole`: the default's module is needed anyway, so that the dispatches are read from the compile that makes it.
    Where the default does not compile, the first of the `others` that does has dispatches to begin with.
    """
    session, account = job.session, job.account
    account.stage("reading the model")
    model.check_words()
    with beginning("reading the model"):
        with account.clocked("space"):
            builder = open_model(model, session)
        timed, timeout = session.timed, compile_timeout(job.options, account.clock)
        with account.clocked("build" if whole else "space"):
            try:
                plain = read_beside(job.target, builder, session.executor, timeout=timeout, timed=timed, whole=whole)
            except NotCompiled as error:
                told = _reproduced(builder, job, error)
                found = _read_otherwise(builder, job.target, others, timeout=timeout)
                if found is None:
                    raise NoCandidateError(f"{error.message}; {told}", remedy=error.remedy) from error
                account.note(f"IREE's default does not compile; {told}")
                plain = found
    return builder, plain


def _reproduced(builder: ModelBuilder, job: Job, error: NotCompiled) -> str:
    """The part of the model that fails alike, in words."""
    path = job.session.workspace.candidates / "models" / f"{builder.program.name}-reproducer.mlir"
    job.account.stage("looking for the smallest part that fails alike")
    whole = builder.job(job.target.compile_flags, timeout=compile_timeout(job.options, job.account.clock))
    return reproduce(whole, error.stderr, builder.tools, path)


def _read_otherwise(
    builder: ModelBuilder, target: Target, others: Sequence[Route], *, timeout: float
) -> ModelStructure | None:
    """By the first route that compiles."""
    for route in others:
        with suppress(NotCompiled):
            flags = [*target.compile_flags, *route.flags]
            return read_structure(builder, flags, target=target.name, timeout=timeout)
    return None


def model_program(
    model: Model,
    structure: ModelStructure,
    builder: ModelBuilder,
    run: Run,
    *,
    first: str = WORDS["default"],
    problem: Problem | None = None,
) -> ModelProgram:
    """How the model is called in a run, and what is right; `first` is what all is compared with at first."""
    signature = structure.flow.signature
    call = Invocation(signature.function, (), signature.results)
    if run.timed:
        call, notes = call_of(builder.program, signature, run.folder / "inputs", seed=run.options.seed)
        for note in notes:
            run.account.note(note)
    return ModelProgram(
        model=builder.program,
        call=call,
        device=run.session.runner,
        timeout=run_timeout(run.options),
        arbiter=_arbiter(model, structure, builder, call, run, first),
        problem=problem,
        allow=model.allow,
    )


def _arbiter(
    model: Model, structure: ModelStructure, builder: ModelBuilder, call: Invocation, run: Run, first: str
) -> Arbiter:
    """For outputs of this call; files that do not fit are refused."""
    expected = load_expected(model.expected, structure.flow.signature)
    rounded = wider(expected, structure.flow.signature)
    rounding = expected_error(structure.groups, structure.others, allow=model.allow, rounded_weights=rounded)

    def ask() -> HostAnswer:
        clock = run.clock
        run.account.stage("two builds disagree: computing the model on llvm-cpu")
        until, timeout = clock.phase("answers"), compile_timeout(run.options, clock)
        with run.account.clocked("build"):
            return compute_on_host(builder, run.target, call, run.folder / "reference", until=until, timeout=timeout)

    return Arbiter(
        rounding,
        model.tolerance,
        ask=ask,
        note=run.account.note,
        name=first,
        given=expected,
    )
