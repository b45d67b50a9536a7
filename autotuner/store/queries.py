"""Questions to the tables: which runs are meant, and what tells of a run without all of its candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Select, case, func, select

from autotuner.store.rows import CANDIDATES, LEFT_OUT, RUNS, Tally

T = TypeVar("T")
AT_ONCE = 5000
"""Keys in a question, and rows in a write: every database takes so many."""


def few(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many at a time."""
    for start in range(0, len(keys), AT_ONCE):
        yield keys[start : start + AT_ONCE]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """What a run must have; None: anything."""

    op: str | None = None
    shape: str | None = None
    """A whole part of the problem's name, `512x512x1024`."""
    target: str | None = None
    since: datetime | None = None

    @property
    def names_problem(self) -> bool:
        """A problem is meant wherever it was tuned, also as a part of a suite or a model."""
        return self.op is not None or self.shape is not None

    def conditions(self) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.op is not None:
            found.append(RUNS.c.problem["op"].as_string() == self.op)
        if self.shape is not None:
            # The name between two underscores, so that 12x12x12 is not found in 512x12x12.
            padded = "_" + RUNS.c.problem["name"].as_string() + "_"
            found.append(padded.contains(f"_{self.shape}_", autoescape=True))
        if self.target is not None:
            found.append(RUNS.c.target == self.target)
        if self.since is not None:
            found.append(RUNS.c.started >= self.since.astimezone(UTC).isoformat(timespec="microseconds"))
        return found


ALL_RUNS = RunFilter()


def times_query(kinds: Sequence[str]) -> Select[Any]:
    """What candidates of some kinds took that worked; their knobs are many words, and read where they are needed."""
    worked = CANDIDATES.c.us.is_not(None) & (CANDIDATES.c.us > 0) & (CANDIDATES.c.failure == "")
    query = select(CANDIDATES.c.run, CANDIDATES.c.id, CANDIDATES.c.us)
    return query.where(worked, CANDIDATES.c.kind.in_(kinds)).order_by(CANDIDATES.c.run, CANDIDATES.c.ordinal)


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
