"""What tells of a run without all of its candidates: how many there are of each kind, and which lead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, Select, case, func, select

from autotuner.store.rows import LEFT_OUT, CandidateRow, Tally
from autotuner.store.schema import CANDIDATES


def leading_queries(run: str, limit: int) -> tuple[Select[Any], ...]:
    """The fastest of a run, the first that were not timed, so many of each, and IREE's default in any case."""
    own, us = select(CANDIDATES).where(CANDIDATES.c.run == run), CANDIDATES.c.us
    fastest = own.where(us.is_not(None)).order_by(us, CANDIDATES.c.ordinal).limit(limit)
    others = own.where(us.is_(None)).order_by(CANDIDATES.c.ordinal).limit(limit)
    return fastest, others, own.where(CANDIDATES.c.kind == "baseline")


def times_query(kinds: Sequence[str]) -> Select[Any]:
    """What candidates of some kinds took that worked; their knobs are many words, and read where they are needed."""
    worked = CANDIDATES.c.us.is_not(None) & (CANDIDATES.c.us > 0) & (CANDIDATES.c.failure == "")
    query = select(CANDIDATES.c.run, CANDIDATES.c.id, CANDIDATES.c.us)
    return query.where(worked, CANDIDATES.c.kind.in_(kinds)).order_by(CANDIDATES.c.run, CANDIDATES.c.ordinal)


def fastest_first(rows: Iterable[CandidateRow]) -> list[CandidateRow]:
    """Each once; those that were not timed come last, as they were asked for."""
    found = {row.id: row for row in rows}
    return sorted(found.values(), key=lambda row: (row.us is None, row.us or 0.0, row.ordinal))


def tally_query() -> Select[Any]:
    """One row for each run that has candidates."""
    failed = (CANDIDATES.c.state == "failed") & CANDIDATES.c.failure.not_in(LEFT_OUT)
    look = CANDIDATES.c.kind == "default"
    tuned = CANDIDATES.c.kind.in_(("codegen", "microkernel")) & (CANDIDATES.c.state != "failed")
    return select(
        CANDIDATES.c.run,
        func.count().label("asked"),
        func.count(CANDIDATES.c.us).label("timed"),
        func.count(case((failed, 1))).label("failed"),
        func.count(case((look, 1))).label("looks"),
        func.count(case((look, CANDIDATES.c.us))).label("looks_timed"),
        func.count(case((look & failed, 1))).label("looks_failed"),
        func.min(case((CANDIDATES.c.kind == "baseline", CANDIDATES.c.us))).label("baseline_us"),
        func.min(case((tuned, CANDIDATES.c.us))).label("best_us"),
    ).group_by(CANDIDATES.c.run)


def read_tally(row: Row[Any]) -> Tally:
    return Tally(**{name: value for name, value in row._mapping.items() if name != "run"})
