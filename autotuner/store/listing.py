"""Queries for lists and pages of many runs: parts, counts of candidates, measurements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, Select, case, func, select

from autotuner.store.reader import Reader
from autotuner.store.rows import CANDIDATES, LEFT_OUT, RUNS, RunRow, Tally, TimingRow, read_run


def runs_below(store: Reader, runs: Iterable[str]) -> dict[str, list[RunRow]]:
    """The parts of these runs, by the run that they belong to, recursively."""
    found: dict[str, list[RunRow]] = {}
    above = list(runs)
    while above:
        query = select(RUNS).order_by(RUNS.c.started, RUNS.c.id)
        with store.intact():
            parts = [read_run(row) for row in store.among(query, RUNS.c.parent, above)]
        for part in parts:
            found.setdefault(str(part.parent), []).append(part)
        above = [part.id for part in parts if part.id not in found]
    return found


def owners_of(store: Reader, run: str | None) -> list[RunRow]:
    """One run with its parts, and theirs; or all, oldest first."""
    if run is None:
        return store.runs()[::-1]
    return [store.run(run), *(part for parts in runs_below(store, [run]).values() for part in parts if part.id != run)]


def tallies_of(store: Reader, runs: Iterable[str]) -> dict[str, Tally]:
    """The candidate counts of runs; runs without candidates are left out."""
    found = store.among(tally_query(), CANDIDATES.c.run, runs)
    return {row.run: read_tally(row) for row in found}


def timings_by_candidate(store: Reader, run: str) -> dict[int, list[TimingRow]]:
    """A run's measurements by the id of the candidate that was measured."""
    found: dict[int, list[TimingRow]] = {}
    for timing in store.timings(run):
        found.setdefault(timing.candidate, []).append(timing)
    return found


def tally_query() -> Select[Any]:
    """One row for each run that has candidates. A suite's first looks at defaults are left out: they are counted in the
    runs of its problems."""
    failed = (CANDIDATES.c.state == "failed") & CANDIDATES.c.failure.not_in(LEFT_OUT)
    tuned = CANDIDATES.c.kind.in_(("codegen", "microkernel")) & (CANDIDATES.c.state != "failed")
    counts = select(
        CANDIDATES.c.run,
        func.count().label("asked"),
        func.count(CANDIDATES.c.us).label("timed"),
        func.count(case((failed, 1))).label("failed"),
        func.min(case((CANDIDATES.c.kind == "baseline", CANDIDATES.c.us))).label("baseline_us"),
        func.min(case((tuned, CANDIDATES.c.us))).label("best_us"),
    )
    return counts.where(CANDIDATES.c.kind != "default").group_by(CANDIDATES.c.run)


def read_tally(row: Row[Any]) -> Tally:
    return Tally(**{name: value for name, value in row._mapping.items() if name != "run"})
