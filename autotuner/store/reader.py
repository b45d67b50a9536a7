"""Reads a results database."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Self, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Row,
    Select,
    select,
    update,
)

from autotuner.errors import StorageError, UsageError
from autotuner.iree.figures import Isa
from autotuner.store.database import (
    DATABASE_ERRORS,
    ELSEWHERE,
    connect,
    explain,
    explained,
    file_of,
    locate,
    name_of,
    prepare,
    writer,
)
from autotuner.store.rows import (
    BUILDS,
    CANDIDATES,
    ENVIRONMENT,
    RUNS,
    TIMINGS,
    BuildRow,
    CandidateRow,
    Json,
    Phase,
    RunKind,
    RunRow,
    TimingRow,
    read_build,
    read_candidate,
    read_run,
    read_timing,
)
from autotuner.system.locks import nobody_works_in

T = TypeVar("T")
AT_ONCE = 5000
"""The number of keys in a query that every database accepts."""


def few(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """The keys in batches of that size."""
    for start in range(0, len(keys), AT_ONCE):
        yield keys[start : start + AT_ONCE]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A filter of runs; None: any."""

    op: str | None = None
    shape: str | None = None
    """A whole component of the problem's name, such as `512x512x1024`."""
    target: str | None = None
    since: datetime | None = None

    @property
    def names_problem(self) -> bool:
        """Whether it names a problem, which is also found as part of a suite or a model."""
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
    """The query of times of working candidates of some kinds, without their knobs."""
    worked = CANDIDATES.c.us.is_not(None) & (CANDIDATES.c.us > 0) & (CANDIDATES.c.failure == "")
    query = select(CANDIDATES.c.run, CANDIDATES.c.id, CANDIDATES.c.us)
    return query.where(worked, CANDIDATES.c.kind.in_(kinds)).order_by(CANDIDATES.c.run, CANDIDATES.c.ordinal)


class Reader:
    """Reads a results database. Failures of the database are StorageErrors."""

    def __init__(self, engine: Engine, *, shared_by: Path | None) -> None:
        self._engine = engine
        self._shared_by = shared_by
        self._writer = writer(engine)
        self.name = name_of(engine.url)
        """Where the results are, for people: never with a password."""

    @classmethod
    def open(cls, url: str | None, *, workspace: Path, create: bool = True) -> Self:
        """The database at `url`, or the workspace's own file; `create` makes what is missing."""
        location = locate(url, workspace)
        file = file_of(location)
        if file and not create and not file.exists():
            remedy = "Tune something first, or name another --workspace or --storage."
            raise StorageError(f"there are no results yet: {file} does not exist.", remedy=remedy)
        engine = connect(location)
        try:
            if file and create:
                file.parent.mkdir(parents=True, exist_ok=True)
            prepare(engine, create=create)
        except BaseException as error:
            engine.dispose()
            if isinstance(error, DATABASE_ERRORS):
                raise explain(error, location) from error
            raise
        reader = cls(engine, shared_by=None if url is None else workspace)
        with nobody_works_in(workspace) as free:
            if free and not create:
                reader.settle_killed()
        return reader

    def settle_killed(self) -> None:
        """Marks running runs of this workspace as interrupted: the caller holds its lock, so they were killed."""
        killed = (RUNS.c.status == "running", RUNS.c.workspace == self._home())
        if self._read(select(RUNS.c.id).where(*killed).limit(1)):
            self.write(lambda c: c.execute(update(RUNS).where(*killed).values(status="interrupted")))

    def _home(self) -> str:
        """The workspace's name in the database; its own file needs none, a shared one has many workspaces."""
        return "" if self._shared_by is None else f"{platform.node()}:{self._shared_by.resolve()}"

    def write(self, action: Callable[[Connection], T]) -> T:
        """Runs the action in a transaction."""
        with explained(self._engine), self._writer.begin() as connection:
            return action(connection)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def run(self, run: str) -> RunRow:
        rows = self._rows(select(RUNS).where(RUNS.c.id == run), read_run)
        if not rows:
            raise UsageError(f"there is no run {run!r} in {self.name}.", remedy="`autotune history` lists the runs.")
        return rows[0]

    def runs(self, limit: int | None = None, *, top: bool = False, which: RunFilter = ALL_RUNS) -> list[RunRow]:
        """The latest of these runs, newest first; with `top` without parts of others."""
        query = select(RUNS).where(*which.conditions()).order_by(RUNS.c.started.desc(), RUNS.c.id.desc()).limit(limit)
        return self._rows(query.where(RUNS.c.parent.is_(None)) if top else query, read_run)

    def runs_of(self, problem: str, *, kinds: Sequence[RunKind]) -> list[RunRow]:
        """The finished runs of the problem of this name, newest first."""
        query = select(RUNS).where(RUNS.c.problem["name"].as_string() == problem, RUNS.c.kind.in_(kinds))
        return self._rows(query.where(RUNS.c.status == "finished").order_by(RUNS.c.started.desc()), read_run)

    def parts(self, run: str) -> list[RunRow]:
        """The runs that are parts of a run, oldest first: a suite's problems, a model's dispatches, buckets."""
        query = select(RUNS).where(RUNS.c.parent == run).order_by(RUNS.c.started, RUNS.c.id)
        return self._rows(query, read_run)

    def environment(self, run: str) -> Json:
        """The environment of a run, as last recorded; empty: none."""
        return self.environments([run]).get(run, {})

    def environments(self, runs: Iterable[str]) -> dict[str, Json]:
        """The environments of runs; those without one are left out."""
        query = select(ENVIRONMENT.c.run, ENVIRONMENT.c.document).order_by(ENVIRONMENT.c.id)
        return {row.run: row.document for row in self.among(query, ENVIRONMENT.c.run, runs)}

    def candidates(self, run: str) -> list[CandidateRow]:
        """A run's candidates, in the order in which they were asked for."""
        query = select(CANDIDATES).where(CANDIDATES.c.run == run).order_by(CANDIDATES.c.ordinal)
        return self._rows(query, read_candidate)

    def times(self, runs: Iterable[str], *, kinds: Sequence[str]) -> dict[str, dict[int, float]]:
        """The µs of working candidates of these kinds, by run and id, in order."""
        found: dict[str, dict[int, float]] = {}
        for row in self.among(times_query(kinds), CANDIDATES.c.run, runs):
            run, candidate, us = tuple(row)
            found.setdefault(run, {})[candidate] = us
        return found

    def configs(self, candidates: Iterable[int]) -> dict[int, Json]:
        """The knobs of candidates, by their ids."""
        query = select(CANDIDATES.c.id, CANDIDATES.c.config)
        return {row.id: row.config for row in self.among(query, CANDIDATES.c.id, candidates)}

    def builds(self, run: str) -> list[BuildRow]:
        """A run's builds, oldest first."""
        query = select(BUILDS).join(CANDIDATES).where(CANDIDATES.c.run == run).order_by(BUILDS.c.id)
        return self._rows(query, read_build)

    def isa(self, run: str) -> dict[int, Isa]:
        """The machine-code figures of a run's candidates, by their ids."""
        query = select(BUILDS.c.candidate, BUILDS.c.isa).join(CANDIDATES).where(CANDIDATES.c.run == run)
        rows = self._read(query.where(BUILDS.c.isa.is_not(None)).order_by(BUILDS.c.id))
        return {row.candidate: Isa.from_json(row.isa) for row in rows}

    def timings(self, run: str) -> list[TimingRow]:
        """A run's measurements, oldest first."""
        query = select(TIMINGS).join(CANDIDATES).where(CANDIDATES.c.run == run).order_by(TIMINGS.c.id)
        return self._rows(query, read_timing)

    def timings_of(self, candidate: int) -> list[TimingRow]:
        """A candidate's measurements, oldest first."""
        query = select(TIMINGS).where(TIMINGS.c.candidate == candidate).order_by(TIMINGS.c.id)
        return self._rows(query, read_timing)

    def blocks(self, run: str, phase: Phase) -> dict[int, dict[int, float]]:
        """The median µs by candidate and block, of what was timed side by side in a run."""
        query = select(TIMINGS.c.candidate, TIMINGS.c.block, TIMINGS.c.repetitions_us).join(CANDIDATES)
        found: dict[int, dict[int, float]] = {}
        for row in self._read(query.where(CANDIDATES.c.run == run, TIMINGS.c.phase == phase).order_by(TIMINGS.c.id)):
            found.setdefault(row.candidate, {})[row.block] = median(row.repetitions_us)
        return found

    def _read(self, query: Executable) -> Sequence[Row[Any]]:
        with self.intact(), explained(self._engine), self._engine.connect() as connection:
            return connection.execute(query).all()

    def among(self, query: Select[Any], column: Column[Any], keys: Iterable[str | int]) -> Iterator[Row[Any]]:
        """The rows of many runs or candidates, in as few queries as a database allows."""
        for some in few(list(keys)):
            yield from self._read(query.where(column.in_(some)))

    def _rows(self, query: Executable, read: Callable[[Row[Any]], T]) -> list[T]:
        with self.intact():
            return [read(row) for row in self._read(query)]

    @contextmanager
    def intact(self) -> Iterator[None]:
        """A block that reads rows: malformed ones are a StorageError."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise StorageError(
                f"{self.name} holds a row that cannot be read ({type(error).__name__}: {str(error)[:100]}).",
                remedy=f"Move it away, or {ELSEWHERE}",
            ) from error
