"""Earlier runs: the one to resume, a finished result to reuse, configurations to begin with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from autotuner.search.history import RUNS, SUGGESTED, EarlierRun, Shape, kept, suggest
from autotuner.space import ABSENT, Config
from autotuner.store.reader import Reader
from autotuner.store.rows import NewRun, RunRow
from autotuner.system.digests import read_by_flags
from autotuner.tuning.options import Known, Options, Task
from autotuner.tuning.plan import SEARCHED, Candidate, Plan
from autotuner.tuning.result import Result, read_result
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session

SHARE = 4
"""At most one in this many trials comes from earlier runs."""


# --- what a run asks: --resume finds an earlier one by it -----------------------------------------------------------


def question(plan: Plan, task: Task, session: Session) -> Question:
    """With the size of the space, and what is known of the problem's shape."""
    shape, described = plan.shape, plan.problem.describe()
    return Question(
        task.kind,
        {**described, **({"shape": shape.to_json()} if shape else {})},
        plan.target,
        asks={**described, "arguments": plan.problem.arguments()},
        reads=_reads(plan, session),
        space_size=len(plan.space),
    )


def _reads(plan: Plan, session: Session) -> tuple[str, ...]:
    """What earlier timings depend on beside the question's words: programs, microkernels, files that flags name."""
    files = read_by_flags(plan.target.user_flags, folder=session.workspace.candidates)
    kernels = [variants.digest() for _, variants in sorted(plan.kernels.items())]
    return (*session.tools.programs, *kernels, *files)


def recall(new: NewRun, plan: Plan, session: Session, options: Options) -> tuple[Result, Candidate | None] | None:
    """The finished run that asked what `new` asks, with its winner, or who was ahead where it was too short for a
    verdict; None where there is none, or the space has its best no more."""
    earlier = session.store.finished_run(new.key, kind=new.kind, parent=new.parent)
    if earlier is None or earlier.result is None:
        return None
    with session.store.intact():
        result = read_result(earlier.result, workspace=session.workspace.root, storage=options.storage)
    config = Config(tuple(result.best.config.items()) if result.best else ())
    if not (result.verdict == "win" or result.ranking or (result.verdict == "inconclusive" and config.items)):
        return result, None
    whole = _complete(config, plan)
    return (result, plan.candidate(whole, id="recalled")) if whole in plan.space else None


def _complete(config: Config, plan: Plan) -> Config:
    """A result leaves out the knobs that its route or pipeline does not have."""
    known = config.as_dict()
    return Config(tuple((knob.name, known.get(knob.name, ABSENT)) for knob in plan.space.knobs))


# --- what was timed before on the same chip ------------------------------------------------------------------------


def learned(plan: Plan, reader: Reader, *, run: str, device_name: str, trials: int) -> tuple[Plan, str]:
    """A plan that begins with what earlier runs suggest, and what it took from where; empty when it took nothing.

    From every run on the same target and chip whose operation is of the same kind, the nearest shapes first.
    """
    shape, count = plan.shape, min(SUGGESTED, trials // SHARE)
    if shape is None or not count:
        return plan, ""
    earlier = earlier_runs(reader, shape, target=plan.target.name, device_name=device_name, but=run)
    suggestions = suggest(plan.space, shape, earlier, count=count)
    configs, sources = suggestions.configs, suggestions.sources
    if not configs:
        return plan, ""
    note = f"{len(configs)} of the first candidates come from earlier runs on this chip ({len(sources)}): {sources[0]}"
    return replace(plan, seeds=tuple(dict.fromkeys([*plan.seeds, *configs]))), note


def remembered(plan: Plan, registry: Known | None, *, sku: str, iree: str) -> tuple[Plan, str]:
    """A plan that begins with what the registry knows, and what that is; empty where it knows nothing."""
    asked = plan.problem, plan.kernels
    known = registry.to_begin_with(*asked, chip=plan.target.name, sku=sku, iree=iree) if registry else None
    if known is None or not len(plan.space):
        return plan, ""
    config, words = known
    first = dict.fromkeys([plan.space[plan.space.nearest(config)], *plan.first])
    return replace(plan, first=tuple(first)), f"the first candidate comes from the registry: {words}"


def earlier_runs(reader: Reader, shape: Shape, *, target: str, device_name: str, but: str) -> list[EarlierRun]:
    """What was timed on this chip for shapes like this one, the nearest first; `but` is the run that asks."""
    known = {row.id: (row, own) for row in reader.runs() if row.target == target and (own := _shape(row)) is not None}
    apart = {run: shape.distance(own) for run, (_, own) in known.items() if run != but}
    near = sorted((run for run, distance in apart.items() if math.isfinite(distance)), key=apart.__getitem__)
    chosen: dict[str, dict[int, float]] = {}
    while near and len(chosen) < RUNS:
        some, near = near[:RUNS], near[RUNS:]
        chips = reader.environments(some)
        times = reader.times(
            (run for run in some if chips.get(run, {}).get("device_name") == device_name), kinds=SEARCHED
        )
        chosen |= {run: _chosen(times[run]) for run in some if run in times}
    chosen = dict([*chosen.items()][:RUNS])
    # Of long runs little is made use of: only that is read.
    configs = reader.configs(candidate for candidates in chosen.values() for candidate in candidates)
    return [
        EarlierRun(
            f"{known[run][0].problem.get('name', '')} ({run})",
            known[run][1],
            [configs[candidate] for candidate in candidates],
            [*candidates.values()],
        )
        for run, candidates in chosen.items()
    ]


def _shape(row: RunRow) -> Shape | None:
    document = row.problem.get("shape")
    return Shape.from_json(document) if document else None


def _chosen(us: Mapping[int, float]) -> dict[int, float]:
    candidates = list(us)
    return {candidates[place]: us[candidates[place]] for place in kept([*us.values()])}
