"""Opens the database of a `--storage` URL, and explains its errors."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, StatementError

from autotuner.errors import AutotuneError, EnvironmentFailure, StorageError, UsageError
from autotuner.store.rows import METADATA, SCHEMA, VERSION

DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error, OSError, UnicodeDecodeError)
"""The exceptions of databases; all but the first come unwrapped from a first statement. What SQLite says of a damaged
file may be no text."""

BUSY_SECONDS = "15"
"""The time limit of a write that waits for another process's. One takes a millisecond; this is for slow disks."""

_UPGRADES = 0x6175746F74756E65
"""The advisory lock for creating or changing tables on a server: `autotune` in ASCII."""

_TRIGGERS = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'"

ELSEWHERE = "choose another --workspace or --storage."

URL_FORMS = "Write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE (%-encode :, / and @ in a password)."


def locate(url: str | None, workspace: Path) -> URL:
    """The URL of the database. Messages never repeat what was typed: it may hold a password."""
    if url is None:
        return URL.create("sqlite", database=str(workspace / "results" / "autotune.db"))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError("--storage is not a database URL.", remedy=URL_FORMS) from None
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise UsageError("--storage names no file, so its results would be lost.", remedy=URL_FORMS)
    if (kind := parsed.get_backend_name()) not in ("sqlite", "postgres", "postgresql"):
        raise UsageError(f"--storage is a database of {kind}, which autotune does not know.", remedy=URL_FORMS)
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed


def name_of(url: URL) -> str:
    """A URL for people, without user, password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    bare = URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
    return bare.render_as_string()


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def on_server(url: URL) -> bool:
    """Whether the database is on a server (PostgreSQL), which may go away and come back."""
    return url.get_backend_name() == "postgresql"


def connect(url: URL) -> Engine:
    """An engine; nothing is opened yet."""
    if file_of(url) and "timeout" not in url.query:
        url = url.update_query_dict({"timeout": BUSY_SECONDS})
    try:
        # NaN is not JSON: PostgreSQL refuses it and other readers choke, so it must not get into a column.
        engine = create_engine(url, json_serializer=partial(json.dumps, allow_nan=False), pool_pre_ping=True)
    except ModuleNotFoundError as error:
        if url.get_backend_name() == "postgresql":
            remedy = "Run: pip install 'psycopg[binary]'"
            raise EnvironmentFailure("PostgreSQL needs the psycopg package.", remedy=remedy) from error
        raise EnvironmentFailure(
            f"{url.drivername} needs the Python package {error.name}.", remedy="Install it."
        ) from error
    except (SQLAlchemyError, TypeError, ValueError):
        raise UsageError("--storage is not a database URL that can be used.", remedy=URL_FORMS) from None
    if file_of(url):
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # Python's driver begins transactions only before some statements; _begin_sqlite does it before all.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # With a write-ahead log a kill loses nothing that was committed, and no commit waits for the disk.
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


def writer(engine: Engine) -> Engine:
    """The engine of writing transactions: SQLite can wait for its write lock only at their beginning."""
    return engine.execution_options(begin="BEGIN IMMEDIATE")


def prepare(engine: Engine, *, create: bool) -> None:
    """Creates the tables; refuses databases that are not autotune's or of another schema version."""
    name = name_of(engine.url)
    with engine.connect() as connection:
        found, views = set(inspect(connection).get_table_names()), set(inspect(connection).get_view_names())
        # In a stranger's file either may be a question without an end.
        triggers = file_of(engine.url) and connection.scalar(text(_TRIGGERS))
    if views & set(METADATA.tables) or triggers:
        raise StorageError(f"{name} holds views or triggers in place of plain tables.", remedy=f"Please {ELSEWHERE}")
    if not found & set(METADATA.tables):
        if not create:
            raise StorageError(f"{name} holds no results of autotune yet.", remedy="Tune something first.")
        if engine.url.get_backend_name() == "sqlite":
            _keep_write_ahead_log(engine)
        with alone(engine) as connection:
            METADATA.create_all(connection)
            if connection.scalar(select(SCHEMA.c.version)) is None:
                connection.execute(insert(SCHEMA).values(version=VERSION))
    elif SCHEMA.name not in found:
        raise StorageError(
            f"{name} holds tables of another program that have the names of ours.",
            remedy=f"Please {ELSEWHERE}",
        )
    with engine.connect() as connection:
        version = connection.scalar(select(SCHEMA.c.version))
    if version != VERSION:
        older = version is not None and version < VERSION
        remedy = "Open it with autotune 0.2.0, which upgrades it," if older else "Upgrade autotune"
        raise StorageError(
            f"{name} was written by {'an older' if older else 'a newer'} autotune (schema {version}, this one knows "
            f"{VERSION}).",
            remedy=f"{remedy} or {ELSEWHERE}",
        )


@contextmanager
def alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that excludes other clients' changes of the tables: SQLite has one writer, a server a lock."""
    with writer(engine).begin() as connection:
        if on_server(engine.url):
            connection.execute(select(func.pg_advisory_xact_lock(sql_cast(_UPGRADES, BigInteger))))
        yield connection


def _keep_write_ahead_log(engine: Engine) -> None:
    """The file remembers its journal mode, so this is done once, outside of a transaction. Where it is busy, another
    client is doing the same."""
    connection = engine.raw_connection()
    try:
        with suppress(sqlite3.OperationalError):
            connection.cursor().execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def cause_of(error: BaseException, url: URL) -> str:
    """The database's own message, in one line without the password."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    said = str(cause).strip().partition("\n")[0]
    for secret in (url.password, url.query.get("password")):
        said = said.replace(str(secret), "…") if secret else said
    return said


def explain(error: Exception, url: URL) -> AutotuneError:
    """A StorageError with the cause in one line, and the remedy."""
    name, said = name_of(url), cause_of(error, url)
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    code = cause.errno if isinstance(cause, OSError) else None

    def says(*phrases: str) -> bool:
        return any(phrase in said for phrase in phrases)

    if code in (errno.ENOSPC, errno.EDQUOT) or says("disk is full"):
        remedy = f"Free some space, or {ELSEWHERE} What was written before is kept: --resume goes on with it."
        return StorageError(f"there is no space left to write {name}.", remedy=remedy)
    if says("not a database"):
        return StorageError(f"{name} is not a database.", remedy=f"Move it away, or {ELSEWHERE}")
    if says("malformed") or isinstance(cause, UnicodeDecodeError):
        return StorageError(f"{name} is damaged ({said}).", remedy=f"Move it away, or {ELSEWHERE}")
    if says("is locked", "is busy"):
        remedy = f"Close the program that has it open, or {ELSEWHERE}"
        return StorageError(f"{name} is locked by another program.", remedy=remedy)
    if says("readonly", "unable to open") or code is not None:
        reason = cause.strerror if isinstance(cause, OSError) else said
        remedy = f"Check that you may write there, or {ELSEWHERE}"
        return StorageError(f"{name} cannot be written ({reason}).", remedy=remedy)
    if says("no such table", "no such column"):
        return StorageError(f"{name} is not a database of autotune ({said}).", remedy=f"Please {ELSEWHERE}")
    kept = "What was written is kept: the same command with --resume goes on when it answers."
    remedy = kept if on_server(url) else f"Check it, or {ELSEWHERE}"
    return StorageError(f"{name} does not work ({said}).", remedy=remedy)


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turns failures of the database in a block into StorageErrors."""
    try:
        yield
    except DATABASE_ERRORS as error:
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig:
            # A value that no column can take: a bug of the caller, not a trouble of the disk.
            raise error.orig from None
        raise explain(error, engine.url) from error
