"""The results database: every step of a run is a row, written when it happens and read back by `Store`."""

from __future__ import annotations

import platform
import secrets
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import pandas as pd
from sqlalchemy import Connection, Engine, Executable, Row, Table, case, func, insert, select, update
from sqlalchemy.exc import DBAPIError, StatementError

from autotuner.build.isa import NO_FIGURES, Isa
from autotuner.errors import StorageError, UsageError
from autotuner.space.table import Config
from autotuner.store.database import (
    DATABASE_ERRORS,
    ELSEWHERE,
    connect,
    explain,
    file_of,
    locate,
    name_of,
    prepare,
    writer,
)
from autotuner.store.keys import question_of
from autotuner.store.rows import (
    BuildRow,
    CandidateRow,
    Json,
    Kind,
    Phase,
    RunRow,
    State,
    Status,
    Tally,
    TimedRow,
    TimingRow,
    read_build,
    read_candidate,
    read_run,
    read_timing,
)
from autotuner.store.schema import BUILDS, CANDIDATES, ENVIRONMENT, RUNS, TIMINGS, VERDICTS

__all__ = [
    "BuildRow",
    "CandidateRow",
    "Json",
    "Kind",
    "Phase",
    "RunRow",
    "State",
    "Status",
    "Store",
    "Tally",
    "TimedRow",
    "TimingRow",
]

T = TypeVar("T")
STDERR_TAIL = 8192
"""Characters of a failed tool's stderr that are kept: its last words name the cause."""


class Store:
    """One results database. Each method is one short transaction; a failure of the database is a StorageError."""

    def __init__(self, engine: Engine, *, home: str) -> None:
        self._engine = engine
        self._writer = writer(engine)
        self._home = home

    @classmethod
    def open(cls, url: str | None, *, workspace: Path, create: bool = True) -> Store:
        """The database at `url`, or the workspace's own file; `create` makes what is missing."""
        location = locate(url, workspace)
        file = file_of(location)
        engine = connect(location)
        # The workspace's own file moves with it; a shared database holds the runs of many workspaces.
        home = "" if url is None else f"{platform.node()}:{workspace.resolve()}"
        try:
            if file and not create and not file.exists():
                remedy = "Tune something first, or name another --workspace or --storage."
                raise StorageError(f"there are no results yet: {file} does not exist.", remedy=remedy)
            if file and create:
                file.parent.mkdir(parents=True, exist_ok=True)
            prepare(engine, create=create)
        except BaseException as error:
            engine.dispose()
            if isinstance(error, DATABASE_ERRORS):
                raise explain(error, location) from error
            raise
        return cls(engine, home=home)

    @property
    def name(self) -> str:
        """Where the results are, for people: never with a password."""
        return name_of(self._engine.url)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def start_run(
        self,
        *,
        key: str,
        command: Sequence[str],
        problem: Json,
        target: str,
        device: str,
        seed: int,
        space_size: int | None = None,
    ) -> str:
        """A new run; gives its id, which begins with the date and sorts by it."""
        now = datetime.now(UTC)
        run = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self._insert(
            RUNS,
            id=run,
            key=key,
            workspace=self._home,
            command=list(command),
            problem=dict(problem),
            target=target,
            device=device,
            seed=seed,
            status="running",
            started=_text(now),
            space_size=space_size,
        )
        return run

    def set_space_size(self, run: str, size: int) -> None:
        self._update(RUNS, run, space_size=size)

    def finish_run(self, run: str, status: Status, *, result: Json | None = None) -> None:
        """The run's end, with the JSON document that the user was given."""
        document = None if result is None else dict(result)
        self._update(RUNS, run, status=status, ended=_text(datetime.now(UTC)), result=document)

    def resume_run(self, run: str) -> None:
        """The run goes on."""
        self._update(RUNS, run, status="running", ended=None, result=None)

    def unfinished_run(self, key: str) -> RunRow | None:
        """The latest run of this key, in this workspace, that did not come to its end."""
        mine = (RUNS.c.key == key, RUNS.c.workspace == self._home, RUNS.c.status != "finished")
        rows = self._rows(select(RUNS).where(*mine).order_by(RUNS.c.started.desc()).limit(1), read_run)
        return rows[0] if rows else None

    def outdated_run(self, key: str) -> RunRow | None:
        """The latest unfinished run that asked the same question of other programs or files."""
        same = (RUNS.c.key.startswith(f"{question_of(key)}-", autoescape=True), RUNS.c.key != key)
        mine = (*same, RUNS.c.workspace == self._home, RUNS.c.status != "finished")
        rows = self._rows(select(RUNS).where(*mine).order_by(RUNS.c.started.desc()).limit(1), read_run)
        return rows[0] if rows else None

    def finished_run(self, key: str) -> RunRow | None:
        """The latest run of this key, in this workspace, that came to its end."""
        mine = (RUNS.c.key == key, RUNS.c.workspace == self._home, RUNS.c.status == "finished")
        rows = self._rows(select(RUNS).where(*mine).order_by(RUNS.c.started.desc()).limit(1), read_run)
        return rows[0] if rows else None

    def winners(self, target: str) -> list[Json]:
        """The configurations that won on this target, newest first."""
        query = select(RUNS.c.result).where(RUNS.c.target == target, RUNS.c.status == "finished")
        results = [row.result for row in self._read(query.order_by(RUNS.c.started.desc()))]
        won = [r for r in results if r and r.get("verdict") == "win" and r.get("best")]
        return [r["best"]["config"] for r in won if r["best"].get("config")]

    def run(self, run: str) -> RunRow:
        rows = self._rows(select(RUNS).where(RUNS.c.id == run), read_run)
        if not rows:
            raise UsageError(f"there is no run {run!r} in {self.name}.", remedy="`autotune history` lists the runs.")
        return rows[0]

    def runs(self, limit: int | None = None) -> list[RunRow]:
        """The latest runs, newest first."""
        query = select(RUNS).order_by(RUNS.c.started.desc(), RUNS.c.id.desc()).limit(limit)
        return self._rows(query, read_run)

    def add_candidate(
        self,
        run: str,
        *,
        ordinal: int,
        config: Config,
        kind: Kind = "codegen",
        route: str = "",
        spec: str = "",
    ) -> int:
        """A candidate that the search asked for; `ordinal` counts a run's candidates. Gives its id."""
        candidate: int = self._insert(
            CANDIDATES,
            run=run,
            ordinal=ordinal,
            config_key=config.key,
            config=config.as_dict(),
            kind=kind,
            route=route,
            state="asked",
            failure="",
            stderr="",
            spec=spec,
        )
        return candidate

    def record_build(
        self,
        candidate: int,
        *,
        seconds: float,
        cached: bool,
        binary: str,
        applied: int,
        command: Sequence[str],
        vmfb: str,
        isa: Isa = NO_FIGURES,
    ) -> None:
        with self._writing() as connection:
            values = {
                "seconds": seconds,
                "cached": cached,
                "binary": binary,
                "applied": applied,
                "vmfb": vmfb,
                "isa": isa.to_json() or None,
            }
            connection.execute(insert(BUILDS).values(candidate=candidate, command=list(command), **values))
            connection.execute(update(CANDIDATES).where(CANDIDATES.c.id == candidate).values(state="built"))

    def record_duplicate(self, candidate: int, *, of: int) -> None:
        """It is built to the same binary as an earlier candidate."""
        self._update(CANDIDATES, candidate, state="duplicate", duplicate_of=of)

    def record_failure(self, candidate: int, failure: str, *, stderr: str = "") -> None:
        # A crashed tool may write anything; NUL and unpaired surrogates cannot be stored everywhere.
        tail = stderr[-STDERR_TAIL:].replace("\0", "").encode(errors="replace").decode()
        self._update(CANDIDATES, candidate, state="failed", failure=failure, stderr=tail)

    def record_check(self, candidate: int, *, error: float) -> None:
        """The output is right; `error` is its distance from the reference."""
        self._update(CANDIDATES, candidate, state="checked", error=error)

    def record_timing(self, candidate: int, *, phase: Phase, block: int, repetitions_us: Sequence[float]) -> None:
        """Raw repetitions. The first timing's median is the candidate's time until `set_us` says better."""
        raw = [float(us) for us in repetitions_us]
        us = func.coalesce(CANDIDATES.c.us, statistics.median(raw))
        now = _text(datetime.now(UTC))
        with self._writing() as connection:
            row = {"phase": phase, "block": block, "repetitions_us": raw, "time": now}
            connection.execute(insert(TIMINGS).values(candidate=candidate, **row))
            connection.execute(update(CANDIDATES).where(CANDIDATES.c.id == candidate).values(state="timed", us=us))

    def set_us(self, candidate: int, us: float) -> None:
        """The median over everything that was measured of it."""
        self._update(CANDIDATES, candidate, us=us)

    def record_verdict(self, run: str, verdict: str, document: Json) -> None:
        self._insert(VERDICTS, run=run, verdict=verdict, document=dict(document))

    def record_environment(self, run: str, document: Json) -> None:
        self._insert(ENVIRONMENT, run=run, document=dict(document))

    def verdict(self, run: str) -> tuple[str, Json] | None:
        """The last verdict on a run, with its evidence."""
        query = select(VERDICTS).where(VERDICTS.c.run == run).order_by(VERDICTS.c.id.desc()).limit(1)
        rows = self._read(query)
        return (rows[0].verdict, rows[0].document) if rows else None

    def environment(self, run: str) -> Json:
        """Where a run was measured, as last recorded; empty when it was not."""
        query = select(ENVIRONMENT).where(ENVIRONMENT.c.run == run).order_by(ENVIRONMENT.c.id.desc()).limit(1)
        rows = self._read(query)
        return cast(Json, rows[0].document) if rows else {}

    def candidates(self, run: str) -> list[CandidateRow]:
        """A run's candidates, in the order in which they were asked for."""
        query = select(CANDIDATES).where(CANDIDATES.c.run == run).order_by(CANDIDATES.c.ordinal)
        return self._rows(query, read_candidate)

    def builds(self, run: str) -> list[BuildRow]:
        """A run's builds, oldest first."""
        query = select(BUILDS).join(CANDIDATES).where(CANDIDATES.c.run == run).order_by(BUILDS.c.id)
        return self._rows(query, read_build)

    def isa(self, run: str) -> dict[int, Isa]:
        """What is known of the machine code of a run's candidates, by their ids."""
        query = select(BUILDS.c.candidate, BUILDS.c.isa).join(CANDIDATES).where(CANDIDATES.c.run == run)
        rows = self._read(query.where(BUILDS.c.isa.is_not(None)).order_by(BUILDS.c.id))
        return {row.candidate: Isa.from_json(row.isa) for row in rows}

    def timings(self, run: str) -> list[TimingRow]:
        """A run's measurements, oldest first."""
        query = select(TIMINGS).join(CANDIDATES).where(CANDIDATES.c.run == run).order_by(TIMINGS.c.id)
        return self._rows(query, read_timing)

    def tally(self, run: str) -> Tally:
        """How many candidates a run asked for, timed and failed, with the best time so far."""
        failed = CANDIDATES.c.state == "failed"
        tuned = CANDIDATES.c.kind.in_(("codegen", "microkernel")) & ~failed
        query = select(
            func.count().label("asked"),
            func.count(CANDIDATES.c.us).label("timed"),
            func.count(case((failed, 1))).label("failed"),
            func.min(case((CANDIDATES.c.kind == "baseline", CANDIDATES.c.us))).label("baseline_us"),
            func.min(case((tuned, CANDIDATES.c.us))).label("best_us"),
        ).where(CANDIDATES.c.run == run)
        return Tally(**self._read(query)[0]._mapping)

    def timed(self, run: str | None = None) -> list[TimedRow]:
        """Every candidate that was timed, of one run or of all, oldest run first."""
        rows = []
        for owner in [self.run(run)] if run is not None else reversed(self.runs()):
            candidates = [c for c in self.candidates(owner.id) if c.us is not None]
            isa = self.isa(owner.id)
            baseline = min((c.us for c in candidates if c.kind == "baseline" and c.us), default=None)
            for candidate in candidates:
                us = cast(float, candidate.us)
                speedup = baseline / us if baseline and us else None
                rows.append(TimedRow(owner, candidate, us, speedup, isa.get(candidate.id, NO_FIGURES)))
        return rows

    def frame(self, run: str | None = None) -> pd.DataFrame:
        """The timed candidates as a table; knobs and figures are columns that begin with `config.` and `isa.`."""
        rows = self.timed(run)
        columns: dict[str, Any] = {
            "run": [r.run.id for r in rows],
            "started": pd.to_datetime([r.run.started for r in rows], utc=True),
            "problem": [r.run.problem.get("name", "") for r in rows],
            "target": [r.run.target for r in rows],
            "device": [r.run.device for r in rows],
            "ordinal": [r.candidate.ordinal for r in rows],
            "kind": [r.candidate.kind for r in rows],
            "route": [r.candidate.route for r in rows],
            "us": pd.Series([r.us for r in rows], dtype=float),
            "speedup": pd.Series([r.speedup for r in rows], dtype=float),
            "error": pd.Series([r.candidate.error for r in rows], dtype=float),
            "failure": [r.candidate.failure for r in rows],
            "spec": [r.candidate.spec for r in rows],
        }
        parts = {
            "config": [r.candidate.config.as_dict() for r in rows],
            "isa": [r.isa.to_json() for r in rows],
        }
        for part, records in parts.items():
            for name in dict.fromkeys(name for record in records for name in record):
                # pd.array keeps whole numbers whole where another run does not have the knob.
                columns[f"{part}.{name}"] = pd.array([record.get(name) for record in records])
        return pd.DataFrame(columns)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with _explained(self._writer), self._writer.begin() as connection:
            yield connection

    def _read(self, query: Executable) -> Sequence[Row[Any]]:
        with self.intact(), _explained(self._engine), self._engine.connect() as connection:
            return connection.execute(query).all()

    def _rows(self, query: Executable, read: Callable[[Row[Any]], T]) -> list[T]:
        with self.intact():
            return [read(row) for row in self._read(query)]

    @contextmanager
    def intact(self) -> Iterator[None]:
        """Within, rows are read: what is in none of the forms that are written there is the database's fault."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise StorageError(
                f"{self.name} holds a row that cannot be read ({type(error).__name__}: {str(error)[:100]}).",
                remedy=f"Move it away, or {ELSEWHERE}",
            ) from error

    def _insert(self, table: Table, **values: Any) -> Any:
        with self._writing() as connection:
            key = connection.execute(insert(table).values(**values)).inserted_primary_key
            return key[0] if key else None

    def _update(self, table: Table, key: str | int, **values: Any) -> None:
        with self._writing() as connection:
            connection.execute(update(table).where(table.c.id == key).values(**values))


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DATABASE_ERRORS as error:
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig:
            # A value that no column can take: a bug of the caller, not a trouble of the disk.
            raise error.orig from None
        raise explain(error, engine.url) from error


def _text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
