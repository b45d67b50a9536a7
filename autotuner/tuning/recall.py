"""A finished run of the very same problem, and the candidate behind its result in the space of today."""

from __future__ import annotations

from dataclasses import dataclass

from autotuner.space import ABSENT, Config
from autotuner.store.rows import NewRun
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.result import Result, read_result
from autotuner.tuning.session import Session


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
