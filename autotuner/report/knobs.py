"""Which knobs matter, and what a configuration changes of the default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotuner.report.reading import Candidate, Run
from autotuner.space.table import Value

LEAST = 8
"""Timed configurations below which no share is told."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob that took several values among the timed candidates."""

    name: str
    share: float | None
    """Of the spread of log time: what its values explain beyond what as many groups would by chance. None where there
    are too few candidates to tell."""
    values: tuple[Value, ...]
    """In order."""


def varied(run: Run) -> tuple[Knob, ...]:
    """The knobs that were varied, the one that explains most first."""
    timed = [candidate for candidate in run.timed if candidate.tuned]
    names = dict.fromkeys(name for candidate in timed for name in candidate.knobs)
    found = []
    for name in names:
        own = [candidate for candidate in timed if name in candidate.knobs]
        values = ordered([candidate.knobs[name] for candidate in own])
        if len(values) > 1:
            found.append(Knob(name, _share(name, own, len(values)), values))
    return tuple(sorted(found, key=lambda knob: -(knob.share or 0.0)))


def ordered(values: Sequence[Value]) -> tuple[Value, ...]:
    """Each once; numbers by size, before words."""
    return tuple(sorted(set(values), key=lambda v: (isinstance(v, str), "" if isinstance(v, str) else v, str(v))))


def _share(name: str, candidates: Sequence[Candidate], groups: int) -> float | None:
    """Epsilon squared: the correlation ratio, less what chance gives to so many groups."""
    count = len(candidates)
    if count < LEAST or count <= groups:
        return None
    by_value: dict[Value, list[float]] = {}
    for candidate in candidates:
        by_value.setdefault(candidate.knobs[name], []).append(math.log(candidate.us or 1.0))
    arrays = [np.array(times) for times in by_value.values()]
    total = float(count * np.var(np.concatenate(arrays)))
    within = float(sum(len(times) * np.var(times) for times in arrays))
    if total <= 0.0:
        return 0.0
    noise = within / (count - groups)
    return min(1.0, max(0.0, (total - within - (groups - 1) * noise) / total))


def difference(candidate: Candidate, run: Run) -> str:
    """What its spec sets otherwise than IREE's default does on its route: `vector_m 8→6, peel 0→1`."""
    if not candidate.tuned or not candidate.knobs:
        return ""
    default = run.default_of(candidate)
    if default is candidate:
        return "as the default" if _proven(candidate, run) else "nearest to the default"
    both = dict.fromkeys([*default.knobs, *candidate.knobs])
    sides = ((name, default.knobs.get(name, "–"), candidate.knobs.get(name, "–")) for name in both)
    return ", ".join(f"{name} {old}→{new}" for name, old, new in sides if old != new)


def _proven(candidate: Candidate, run: Run) -> bool:
    """It gives the very binary of a route without a configuration."""
    plain = {c.binary for c in run.candidates if c.row.kind in ("baseline", "stock") and c.binary}
    return candidate.binary in plain
