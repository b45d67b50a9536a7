"""What a run over one problem asks, and what its timings depend on: --resume finds an earlier run by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotuner.problems import Problem
from autotuner.space import ABSENT, Config
from autotuner.store.rows import NewRun
from autotuner.system.digests import read_by_flags
from autotuner.targets import Target
from autotuner.tuning.options import Options, Task
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.result import Result, read_result
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session


def question_unread(problem: Problem, target: Target, task: Task, session: Session) -> Question:
    """Before the space is read."""
    asks = {**problem.describe(), "arguments": problem.arguments()}
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


@dataclass(frozen=True)
class Recalled:
    """What a finished run came to."""

    result: Result
    candidate: Candidate | None
    """Its winner, or who was ahead where it was too short for a verdict."""


def recall(new: NewRun, plan: Plan, session: Session, options: Options) -> Recalled | None:
    """The finished run that asked what `new` asks; None where there is none, or the space has its best no more."""
    earlier = session.store.finished_run(new.key, kind=new.kind, parent=new.parent)
    if earlier is None or earlier.result is None:
        return None
    with session.store.intact():
        result = read_result(earlier.result, workspace=session.workspace.root, storage=options.storage)
    config = Config(tuple(result.best.config.items()) if result.best else ())
    if not (result.verdict == "win" or result.ranking or (result.verdict == "inconclusive" and config.items)):
        return Recalled(result, None)
    whole = _complete(config, plan)
    return Recalled(result, plan.candidate(whole, id="recalled")) if whole in plan.space else None


def _complete(config: Config, plan: Plan) -> Config:
    """A result leaves out the knobs that its route or pipeline does not have."""
    known = config.as_dict()
    return Config(tuple((knob.name, known.get(knob.name, ABSENT)) for knob in plan.space.knobs))
