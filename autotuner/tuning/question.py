"""What a run over one problem asks, and what its timings depend on: --resume finds an earlier run by it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from autotuner.problems import Array, Problem
from autotuner.system.digests import read_by_flags
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Plan
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session
from autotuner.tuning.task import Task


def question_unread(problem: Problem, target: Target, options: Options, task: Task, session: Session) -> Question:
    """Before the space is read."""
    asks = {**problem.describe(), "arguments": (*problem.arguments(), *_digests(options.inputs))}
    return Question(task.kind, problem.describe(), target, asks=asks, reads=session.tools.programs)


def question_read(unread: Question, plan: Plan, session: Session) -> Question:
    """With the space: its size, and what is known of the problem's shape."""
    shape = plan.shape
    problem = {**plan.problem.describe(), **({"shape": shape.to_json()} if shape else {})}
    return replace(unread, problem=problem, reads=_reads(plan, session), space_size=len(plan.space))


def _reads(plan: Plan, session: Session) -> tuple[str, ...]:
    """What earlier timings depend on beside the question's words: programs, microkernels, files that flags name."""
    files = read_by_flags(plan.target.user_flags, folder=session.workspace.candidates)
    kernels = [variants.digest() for _, variants in sorted(plan.kernels.items())]
    return (*session.tools.programs, *kernels, *files)


def _digests(inputs: Sequence[Array]) -> list[str]:
    """A run on inputs of one's own is another run."""
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in inputs]
