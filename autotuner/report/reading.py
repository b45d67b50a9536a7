"""One run as a page shows it: its rows, joined once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from autotuner.iree.figures import Isa
from autotuner.measure.blocks import Interval
from autotuner.report.history import run_records
from autotuner.store.reader import Reader
from autotuner.store.rows import LEFT_OUT, CandidateRow, Json, RunRow


@dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate that was timed beside the default, with its speedup over the blocks that have both."""

    name: str
    ordinal: int
    phase: str
    median: float
    interval: Interval | None
    """None where there are too few blocks."""
    blocks: int


@dataclass(frozen=True)
class Run:
    """A run and its results so far."""

    row: RunRow
    record: Mapping[str, Any]
    """As `autotune history` has it."""
    environment: Json
    candidates: tuple[CandidateRow, ...]
    isa: Mapping[int, Isa]
    finalists: tuple[Finalist, ...]

    @property
    def document(self) -> Json:
        """Its JSON document; empty while it is unfinished."""
        return self.row.result or {}

    @property
    def key(self) -> str:
        """Prefix of its candidates' anchors on a page."""
        return f"run-{self.row.id}-c"

    def link(self, ordinal: int) -> str:
        """To a candidate's row."""
        return f"#{self.key}{ordinal}"

    @cached_property
    def timed(self) -> tuple[CandidateRow, ...]:
        """In the order of the search, without the defaults of a suite's problems."""
        return tuple(c for c in self.candidates if time_of(c) is not None and c.kind != "default")

    @property
    def failed(self) -> list[CandidateRow]:
        """Includes a default that was timed and is wrong."""
        return [c for c in self.candidates if (c.state == "failed" or c.failure) and c.failure not in LEFT_OUT]


def time_of(row: CandidateRow) -> float | None:
    """Its time; None if it failed."""
    return row.us if row.us and row.state != "failed" and math.isfinite(row.us) else None


def name_of(row: CandidateRow) -> str:
    if row.kind in ("baseline", "default"):
        return "default"
    return row.route if row.kind in ("stock", "library") or row.route == "tuned" else f"c{row.ordinal:04d}"


def read(store: Reader, row: RunRow) -> Run:
    """A run without its parts."""
    candidates = tuple(store.candidates(row.id))
    (record,) = run_records(store, [row])
    finalists = _finalists(store, row.id, candidates)
    return Run(row, record, store.environment(row.id), candidates, store.isa(row.id), finalists)


def _finalists(store: Reader, run: str, candidates: Sequence[CandidateRow]) -> tuple[Finalist, ...]:
    """Of the race and of the confirmation, each on its own: one chose the winner, the other did not."""
    baseline = next((row.id for row in candidates if row.kind == "baseline"), None)
    found = []
    for phase in ("race", "confirm"):
        blocks = store.blocks(run, phase)
        against = blocks.get(baseline, {}) if baseline is not None else {}
        for row in candidates:
            if row.id == baseline or not (own := blocks.get(row.id)):
                continue
            logs = [math.log(against[b] / us) for b, us in own.items() if us > 0 and against.get(b, 0.0) > 0]
            if logs:
                ratio, known = math.exp(median(logs)), Interval.of(logs)
                found.append(Finalist(name_of(row), row.ordinal, phase, ratio, known, len(logs)))
    return tuple(found)
