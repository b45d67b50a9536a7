"""What a run takes from earlier ones of the same chip: configurations to begin with, and a note that says so."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotuner.search.history import RUNS, SUGGESTED, Earlier, Shape, suggest
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
    found: list[tuple[float, RunRow, Shape]] = []
    for row in reader.runs():
        known = _shape(row)
        if known is not None and row.target == target and row.id != but and math.isfinite(shape.distance(known)):
            found.append((shape.distance(known), row, known))
    earlier: list[Earlier] = []
    for _, row, known in sorted(found, key=lambda item: item[0]):
        if len(earlier) < RUNS and reader.environment(row.id).get("device_name") == device_name:
            earlier += _timed(reader, row, known)
    return earlier


def _shape(row: RunRow) -> Shape | None:
    document = row.problem.get("shape")
    return Shape.from_json(document) if document else None


def _timed(reader: Reader, row: RunRow, shape: Shape) -> list[Earlier]:
    """What a run timed, if anything."""
    timed = [c for c in reader.candidates(row.id) if c.us and c.kind in SEARCHED and not c.failure]
    name = f"{row.problem.get('name', '')} ({row.id})"
    configs, us = [c.config.as_dict() for c in timed], [float(c.us) for c in timed if c.us]
    return [Earlier(name, shape, configs, us)] if timed else []
