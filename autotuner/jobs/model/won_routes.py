"""Which routes were the fastest for models on this chip before: they are tried first."""

from __future__ import annotations

from autotuner.store.reader import Reader
from autotuner.store.rows import Json, RunRow
from autotuner.targets import PLAIN

_TAKEN = 2
"""So many routes of earlier runs, at most."""


def routes_that_won(reader: Reader, problem: Json, *, target: str, device_name: str, but: str) -> list[str]:
    """By name; those of the same model first, then those of models with the same operations, the newest first."""
    same: list[str] = []
    alike: list[str] = []
    for row in reader.runs(top=True):
        if row.kind != "model" or row.target != target or row.id == but:
            continue
        found = same if row.problem.get("sha256") == problem.get("sha256") else alike
        if found is alike and row.problem.get("ops") != problem.get("ops"):
            continue
        route = _fastest(reader, row)
        if route and reader.environment(row.id).get("device_name") == device_name:
            found.append(route)
    return list(dict.fromkeys([*same, *alike]))[:_TAKEN]


def _fastest(reader: Reader, row: RunRow) -> str:
    """The stock route that a run timed best; empty where that is none or the default."""
    timed = [c for c in reader.candidates(row.id) if c.us and c.kind in ("baseline", "stock") and not c.failure]
    best = min(timed, key=lambda c: c.us or 0.0, default=None)
    return "" if best is None or best.route == PLAIN.name else best.route
