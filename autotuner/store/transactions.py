"""Reads and writes of a database. Where the connection to a server is lost they are tried again: no row is lost, and
none is written twice, also when only the answer to a commit was lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, Engine, Executable, Row, cast, func, select
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from autotuner.errors import StorageError
from autotuner.store.database import DATABASE_ERRORS, cause_of, explain, name_of, on_server, writer

T = TypeVar("T")
OnWait = Callable[[str], None]

PATIENCE_SECONDS = 120.0
"""How long a server may stay away. A restart takes seconds, one that moves to another machine a minute or two."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

_PASSES = ("08", "57P", "53300", "40001", "40P01")
"""How the codes of what passes begin: connections, shutdown and start, too many clients, two that were in each other's
way."""
_NOT_BEGUN = "22023"
"""The code of a transaction that is "in the future": a server that crashed had written nothing of it."""


class _Unsettled(Exception):
    """The server still works on a commit whose connection was lost."""


class Transactions:
    """One database. A failure of it is a StorageError."""

    def __init__(self, engine: Engine, *, on_wait: OnWait | None = None) -> None:
        self.engine = engine
        self._writer = writer(engine)
        self._on_wait = on_wait
        self._given_up = False

    def read(self, query: Executable) -> Sequence[Row[Any]]:
        """The rows that a question has."""

        def once() -> Sequence[Row[Any]]:
            with self.engine.connect() as connection:
                return connection.execute(query).all()

        return self._lasting(once)

    def write(self, action: Callable[[Connection], T]) -> T:
        """All that the action writes, once, or nothing. It may be called again, so it must do nothing else."""
        begun: list[tuple[int, T]] = []  # the transaction that is being committed, and what it gives

        def once() -> T:
            if begun:
                status = self._status(begun[0][0])
                if status == "in progress":
                    raise _Unsettled
                if status == "committed":
                    return begun[0][1]
                begun.clear()
            with self._writer.begin() as connection:
                value = action(connection)
                if on_server(self.engine.url):
                    begun.append((connection.scalar(select(func.txid_current())) or 0, value))
            return value

        return self._lasting(once)

    def _status(self, transaction: int) -> str:
        """What became of a transaction whose answer was lost."""
        with self.engine.connect() as connection:
            try:
                return str(connection.scalar(select(func.txid_status(cast(transaction, BigInteger)))))
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != _NOT_BEGUN:
                    raise
                return "aborted"

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
