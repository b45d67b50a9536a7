"""From what a user asks to the program that both arms compile; from then on the run has a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.inputs import model_inputs, problem_inputs
from autotuner.jobs.ab.subject import Alone, Inside, Subject
from autotuner.jobs.model.context import Context, Model
from autotuner.jobs.model.program import Call
from autotuner.jobs.model.rounding import expected_error
from autotuner.problems import Problem
from autotuner.store.keys import run_key
from autotuner.system.digests import path_digest
from autotuner.targets import PLAIN


@dataclass(frozen=True)
class Experiment:
    """What a user asks: two arms, and the program that both compile."""

    a: Arm
    b: Arm
    problem: Problem | None = None
    """With a model: what a microkernel replaces there."""
    model: Model | None = None
    inputs: tuple[str, ...] = ()


def open_subject(wanted: Experiment, context: Context) -> Subject:
    """Reads the program and starts the run."""
    options, session = context.options, context.session
    if wanted.model is None:
        if wanted.problem is None:
            raise UsageError("there is neither a problem nor a model.", remedy="Give --shape or --model.")
        problem = wanted.problem
        arrays = problem_inputs(wanted.inputs, problem, seed=options.seed)
        _start(wanted, context, problem.describe(), (*problem.arguments(), *wanted.inputs))
        timeout = options.effort.run_timeout
        return Alone(problem, arrays, session.tools, session.device, options.seed, timeout, context.folder)
    context.stage("reading the model")
    anatomy = context.anatomy(PLAIN)
    signature = anatomy.flow.signature
    inputs = model_inputs(wanted.inputs, signature.arguments)
    context.program = replace(context.program, inputs=inputs)
    subject = Inside(
        program=context.program,
        call=Call(signature.function, [], signature.results),
        flops=anatomy.flops,
        tools=session.tools,
        device=session.device,
        timeout=context.run_timeout,
        folder=Path(),
        tolerance=context.model.tolerance,
        rounding=expected_error(anatomy.groups, anatomy.others, allow=context.model.allow),
        problem=wanted.problem,
    )
    _start(wanted, context, subject.describe(), inputs)
    if not context.timed:
        return replace(subject, folder=context.folder)
    call = Call.make(context.program, signature, context.folder / "inputs", seed=options.seed)
    for note in call.notes:
        context.note(note)
    return replace(subject, call=call, folder=context.folder)


def _start(wanted: Experiment, context: Context, problem: Mapping[str, object], arguments: tuple[str, ...]) -> None:
    context.run = context.session.store.start_run(
        key=run_key(
            problem={**problem, "arguments": (*arguments, "ab", wanted.a.name, wanted.b.name)},
            target=f"{context.target.name}/{context.session.device}/{context.options.seed}",
            flags=context.target.user_flags,
            reads=[
                *context.session.tools.programs,
                *(path_digest(arm.path) for arm in (wanted.a, wanted.b) if arm.path),
            ],
        ),
        command=context.options.command,
        problem=dict(problem),
        target=context.target.name,
        device=context.session.device,
        seed=context.options.seed,
        space_size=2,
    )
