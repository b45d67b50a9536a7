"""Reads and writes of a database. Where the connection to a server is lost they are tried again: no row is lost, and
none is written twice, also when only the answer to a commit was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, Engine, Executable, Row, delete, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from autotuner.errors import StorageError
from autotuner.store.database import DATABASE_ERRORS, alone, cause_of, explain, name_of, on_server, writer
from autotuner.store.schema import WRITERS

T = TypeVar("T")
OnWait = Callable[[str], None]

PATIENCE_SECONDS = 120.0
"""How long a server may stay away. A restart takes seconds, one that moves to another machine a minute or two."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

_PASSES = ("08", "57P", "53300", "40001", "40P01")
"""How the codes of what passes begin: connections, shutdown and start, too many clients, two that were in each other's
way."""
_STILL_HELD = "55P03"
"""The code of a row that another transaction holds."""
_ENOUGH_TO_SETTLE = "SET LOCAL lock_timeout = '1s'"
_FORGOTTEN_AFTER = timedelta(days=1)
"""A client that was killed does not take its row away; nobody asks for it later than `PATIENCE_SECONDS`."""


class _Unsettled(Exception):
    """The server still works on a commit whose connection was lost."""


class Transactions:
    """One database. A failure of it is a StorageError."""

    def __init__(self, engine: Engine, *, on_wait: OnWait | None = None) -> None:
        self.engine = engine
        self._writer = writer(engine)
        self._on_wait = on_wait
        self._given_up = False
        self._client, self._number = uuid4().hex, 0
        self._writing = threading.Lock()

    def read(self, query: Executable) -> Sequence[Row[Any]]:
        """The rows that a question has."""

        def once() -> Sequence[Row[Any]]:
            with self.engine.connect() as connection:
                return connection.execute(query).all()

        return self._lasting(once)

    def write(self, action: Callable[[Connection], T]) -> T:
        """All that the action writes, once, or nothing. It may be called again, so it must do nothing else."""
        if on_server(self.engine.url):
            with self._writing:
                return self._numbered(action)

        def once() -> T:
            with self._writer.begin() as connection:
                return action(connection)

        return self._lasting(once)

    def _numbered(self, action: Callable[[Connection], T]) -> T:
        """Each write leaves its number in the transaction itself: where the answer to a commit is lost, that tells.

        The server's own numbers do not: after a crash it may give one to another transaction.
        """
        if not self._number:
            self._lasting(self._make_room)
        self._number += 1
        committing: list[T] = []  # what the transaction gives whose answer may be lost

        def once() -> T:
            if committing:
                if self._is_committed():
                    return committing[0]
                committing.clear()
            with self._writer.begin() as connection:
                value = action(connection)
                own = {"last": self._number, "time": datetime.now(UTC).isoformat()}
                row = insert(WRITERS).values(client=self._client, **own)
                connection.execute(row.on_conflict_do_update(index_elements=[WRITERS.c.client], set_=own))
                committing.append(value)
            return value

        return self._lasting(once)

    def _make_room(self) -> None:
        """The table, where there is none, without the rows of clients that are long gone."""
        with alone(self.engine) as connection:
            WRITERS.create(connection, checkfirst=True)
            old = (datetime.now(UTC) - _FORGOTTEN_AFTER).isoformat()
            connection.execute(delete(WRITERS).where(WRITERS.c.time < old))

    def _is_committed(self) -> bool:
        """Did the last write get there? The row of this client is locked as long as the server still works on it."""
        row = insert(WRITERS).values(client=self._client, last=0, time=datetime.now(UTC).isoformat())
        last = select(WRITERS.c.last).where(WRITERS.c.client == self._client).with_for_update()
        try:
            with self._writer.begin() as connection:
                connection.execute(text(_ENOUGH_TO_SETTLE))
                connection.execute(row.on_conflict_do_nothing())
                return connection.scalar(last) == self._number
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == _STILL_HELD:
                raise _Unsettled from error
            raise

    def _lasting(self, once: Callable[[], T]) -> T:
        began, pause, told = time.monotonic(), FIRST_PAUSE, False
        while True:
            try:
                with explained(self.engine):
                    return once()
            except (StorageError, _Unsettled) as error:
                if not (isinstance(error, _Unsettled) or self._lost(error.__cause__)):
                    raise
                if self._given_up or time.monotonic() - began + pause > PATIENCE_SECONDS:
                    self._given_up = True  # what follows, such as the run's end, is tried once
                    raise self._away(error) from error
            if self._on_wait is not None and not told and pause > FIRST_PAUSE:
                told = True
                self._on_wait(
                    f"{name_of(self.engine.url)} does not answer; the run waits for it, up to {PATIENCE_SECONDS:.0f} s"
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _lost(self, error: BaseException | None) -> bool:
        """A server that is gone or going, which may come back."""
        if not isinstance(error, DBAPIError) or not on_server(self.engine.url):
            return False
        code = getattr(error.orig, "sqlstate", None)
        return (
            error.connection_invalidated
            or (isinstance(error, OperationalError) and code is None)
            or str(code or "").startswith(_PASSES)
        )

    def _away(self, error: Exception) -> StorageError:
        reason = cause_of(error.__cause__, self.engine.url) if error.__cause__ is not None else "it is still committing"
        return StorageError(
            f"{name_of(self.engine.url)} has not answered for {PATIENCE_SECONDS:.0f} s ({reason}).",
            remedy="What was written before is kept: start the server, then give the same command with --resume.",
        )


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DATABASE_ERRORS as error:
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig:
            # A value that no column can take: a bug of the caller, not a trouble of the disk.
            raise error.orig from None
        raise explain(error, engine.url) from error
