"""What a run takes from earlier ones of the same chip: configurations to begin with, and a note that says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotuner.search.history import RUNS, SUGGESTED, Earlier, Shape, kept, suggest
from autotuner.store.reader import Reader
from autotuner.store.rows import RunRow
from autotuner.tuning.plan import SEARCHED, Plan

SHARE = 4
"""At most one in so many trials is spent on what earlier runs suggest."""
_NAMED = 3


@dataclass(frozen=True)
class Learned:
    """A plan that begins with what earlier runs suggest, and what it took from where; empty when it took nothing."""

    plan: Plan
    note: str = ""


def learned(plan: Plan, reader: Reader, *, run: str, device_name: str, trials: int) -> Learned:
    """From every run on the same target and chip whose operation is of the same kind, the nearest shapes first."""
    shape, count = plan.shape, min(SUGGESTED, trials // SHARE)
    if shape is None or not count:
        return Learned(plan)
    earlier = earlier_runs(reader, shape, target=plan.target.name, device_name=device_name, but=run)
    suggestions = suggest(plan.space, shape, earlier, count=count)
    configs, sources = suggestions.configs, suggestions.sources
    if not configs:
        return Learned(plan)
    named = ", ".join(sources[:_NAMED]) + (", ..." if len(sources) > _NAMED else "")
    come = "come" if len(configs) > 1 else "comes"
    note = f"{len(configs)} of the first candidates {come} from earlier runs on this chip ({len(sources)}): {named}"
    return Learned(replace(plan, seeds=tuple(dict.fromkeys([*plan.seeds, *configs]))), note)


def earlier_runs(reader: Reader, shape: Shape, *, target: str, device_name: str, but: str) -> list[Earlier]:
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
        Earlier(
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
