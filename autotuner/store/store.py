"""The results database: every step of a run is a row, written when it happens and read back by `Reader`."""

from __future__ import annotations

import hashlib
import json
import secrets
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Table, func, insert, select, update

from autotuner.store.reader import Reader
from autotuner.store.rows import (
    BUILDS,
    CANDIDATES,
    ENVIRONMENT,
    RUNS,
    TIMINGS,
    BuildRow,
    Json,
    Kind,
    NewRun,
    Phase,
    RunKind,
    RunRow,
    Status,
    read_run,
)

if TYPE_CHECKING:
    from autotuner.devices.device import Timing
    from autotuner.space.table import Config

STDERR_KEPT = 8192
"""Characters of a failed tool's stderr that are kept, half from its beginning: a compiler's error comes first, a
crash's cause last."""


class Store(Reader):
    """One results database. Each method is one short transaction; a failure of the database is a StorageError."""

    def unfinished_run(self, key: str, *, kind: RunKind = "single", parent: str | None = None) -> RunRow | None:
        """The latest run of this key, in this workspace, that did not come to its end."""
        return self._latest(RUNS.c.key == key, RUNS.c.status != "finished", kind=kind, parent=parent)

    def finished_run(self, key: str, *, kind: RunKind = "single", parent: str | None = None) -> RunRow | None:
        """The latest run of this key, in this workspace, that came to its end."""
        return self._latest(RUNS.c.key == key, RUNS.c.status == "finished", kind=kind, parent=parent)

    def like_it(self, new: NewRun, *, finished: bool = False) -> RunRow | None:
        """The latest run of the same problem and target with another key: unfinished, or with `finished` any."""
        problem = RUNS.c.problem["name"].as_string() == str(new.problem["name"])
        which = [problem, RUNS.c.target == new.target, RUNS.c.key != new.key]
        which += [] if finished else [RUNS.c.status != "finished"]
        return self._latest(*which, kind=new.kind, parent=new.parent)

    def _latest(self, *which: ColumnElement[bool], kind: RunKind, parent: str | None) -> RunRow | None:
        mine = (RUNS.c.workspace == self._home(), RUNS.c.kind == kind, RUNS.c.parent.is_not_distinct_from(parent))
        rows = self._rows(select(RUNS).where(*which, *mine).order_by(RUNS.c.started.desc()).limit(1), read_run)
        return rows[0] if rows else None

    def start_run(self, new: NewRun, *, space_size: int | None = None) -> str:
        """Begins a run; returns its id, which begins with the date and sorts by it."""
        now = datetime.now(UTC)
        run = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        values = asdict(new) | {"command": list(new.command), "problem": dict(new.problem)}
        self._insert(
            RUNS, id=run, workspace=self._home(), status="running", started=_text(now), space_size=space_size, **values
        )
        return run

    def finish_run(self, run: str, status: Status, *, result: Json | None = None) -> None:
        """Ends a run, with the JSON document that the user got."""
        document = None if result is None else dict(result)
        self._update(RUNS, run, status=status, ended=_text(datetime.now(UTC)), result=document)

    def keep_so_far(self, run: str, result: Json) -> None:
        """Records the result so far, which stays if the run is killed."""
        self._update(RUNS, run, result=dict(result))

    def resume_run(self, run: str) -> None:
        """Resumes a run."""
        self._update(RUNS, run, status="running", ended=None, result=None)

    def add_candidate(
        self,
        run: str,
        *,
        ordinal: int,
        config: Config,
        kind: Kind = "codegen",
        route: str = "",
    ) -> int:
        """Adds a candidate; `ordinal` counts a run's candidates. Returns its id."""
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
        )
        return candidate

    def restart_candidate(self, candidate: int) -> None:
        """Resets a candidate that is tried once more. Its builds and timings stay."""
        self._update(CANDIDATES, candidate, state="asked", failure="", stderr="", error=None, us=None)

    def record_build(self, build: BuildRow) -> None:
        """Records a candidate's build."""
        values = asdict(build) | {"command": list(build.command), "isa": build.isa.to_json() or None}

        def write(connection: Connection) -> None:
            connection.execute(insert(BUILDS).values(**values))
            connection.execute(update(CANDIDATES).where(CANDIDATES.c.id == build.candidate).values(state="built"))

        self.write(write)

    def record_duplicate(self, candidate: int, *, of: int) -> None:
        """Records that a candidate has the binary of an earlier one."""
        self._update(CANDIDATES, candidate, state="duplicate", duplicate_of=of)

    def record_failure(self, candidate: int, failure: str, *, stderr: str = "") -> None:
        # A crashed tool may write anything; NUL and unpaired surrogates cannot be stored everywhere.
        kept = _ends(stderr).replace("\0", "").encode(errors="replace").decode()
        self._update(CANDIDATES, candidate, state="failed", failure=failure, stderr=kept)

    def record_check(self, candidate: int, *, error: float) -> None:
        """Records that a candidate is right; `error` is its distance from the reference."""
        self._update(CANDIDATES, candidate, state="checked", error=error)

    def record_timing(
        self, candidate: int, timing: Timing, *, phase: Phase, block: int, us: float | None = None
    ) -> None:
        """Records raw repetitions and the device's state. The first timing's median (or `us`, for several devices) is
        the candidate's time until `set_us`."""
        raw = [float(one) for one in timing.us]
        time = func.coalesce(CANDIDATES.c.us, statistics.median(raw) if us is None else us)
        now = _text(datetime.now(UTC))
        conditions = timing.conditions.to_json() if timing.conditions else None
        row = {"phase": phase, "block": block, "repetitions_us": raw, "time": now, "conditions": conditions}

        def write(connection: Connection) -> None:
            connection.execute(insert(TIMINGS).values(candidate=candidate, **row))
            connection.execute(update(CANDIDATES).where(CANDIDATES.c.id == candidate).values(state="timed", us=time))

        self.write(write)

    def set_us(self, candidate: int, us: float) -> None:
        """Sets a candidate's time."""
        self._update(CANDIDATES, candidate, us=us)

    def record_environment(self, run: str, document: Json) -> None:
        self._insert(ENVIRONMENT, run=run, document=dict(document))

    def _insert(self, table: Table, **values: Any) -> Any:
        def write(connection: Connection) -> Any:
            key = connection.execute(insert(table).values(**values)).inserted_primary_key
            return key[0] if key else None

        return self.write(write)

    def _update(self, table: Table, key: str | int, **values: Any) -> None:
        self.write(lambda connection: connection.execute(update(table).where(table.c.id == key).values(**values)))


def _text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")


def _ends(stderr: str) -> str:
    if len(stderr) <= STDERR_KEPT:
        return stderr
    half = STDERR_KEPT // 2
    return f"{stderr[:half]}\n… {len(stderr) - 2 * half} characters are left out …\n{stderr[-half:]}"


def run_key(*, problem: Json, target: str, flags: Sequence[str], reads: Sequence[str]) -> str:
    """The key of runs with the same question, programs and files; `reads` are digests of these."""
    question = json.dumps([problem, target, list(flags)], sort_keys=True)
    return "-".join(hashlib.sha256(text.encode()).hexdigest()[:16] for text in (question, json.dumps(list(reads))))
