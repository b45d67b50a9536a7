"""Rows of another store, by way of a file: all of it checked first, then written at once or not at all.

A file can give nothing but rows: no path of it is kept, nothing of it is run, no run that was measured here is changed,
and what it brings is neither continued by --resume nor learned from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from autotuner.errors import UsageError
from autotuner.store.checked import Candidate, Refused, Run, take
from autotuner.store.interchange import MAKE_ONE, read_export
from autotuner.store.schema import BUILDS, CANDIDATES, ENVIRONMENT, IMPORTED, RUNS, TIMINGS
from autotuner.store.store import Store
from autotuner.system.text import printable, short

_AT_ONCE = 5000
_NOT_BUILT_HERE = {"seconds": 0.0, "cached": True, "binary": "", "applied": 0, "command": [], "vmfb": ""}


@dataclass(frozen=True)
class Imported:
    """What a file brought."""

    runs: int
    candidates: int
    known: int
    """Runs of the file that were here already."""


def import_file(store: Store, path: Path) -> Imported:
    """Writes what the file has and the store has not."""
    runs: dict[str, Run] = {}
    for number, record in enumerate(read_export(path), start=1):
        try:
            take(runs, record, source=printable(path.name))
        except (Refused, KeyError) as error:
            said = f"it has no {error}" if isinstance(error, KeyError) else short(str(error))[1:-1]
            remedy = f"Nothing was imported. {MAKE_ONE}"
            raise UsageError(f"{path}, record {number}: {said}.", remedy=remedy) from error
    if not runs:
        raise UsageError(f"{path} holds no timed candidate.", remedy=MAKE_ONE)
    return store.write(lambda connection: _write(connection, runs))


def _write(connection: Connection, runs: Mapping[str, Run]) -> Imported:
    here = {row.id: row.key for some in _few(list(runs)) for row in connection.execute(_known(some))}
    new = [name for name in runs if name not in here]
    may_have = {*runs, *_parents_here(connection, runs)}
    _insert(connection, RUNS, (_row(runs[name], may_have) for name in new))
    _insert(connection, ENVIRONMENT, ({"run": name, "document": dict(runs[name].environment)} for name in new))
    mine = [name for name in runs if here.get(name, IMPORTED) == IMPORTED]
    before = set(_ids(connection, mine))
    added = {
        (name, ordinal): candidate
        for name in mine
        for ordinal, candidate in runs[name].candidates.items()
        if (name, ordinal) not in before
    }
    _insert(connection, CANDIDATES, (candidate.row for candidate in added.values()))
    ids = _ids(connection, mine)
    _insert(connection, BUILDS, _builds(added, ids))
    _insert(connection, TIMINGS, ({"candidate": ids[key], **one} for key, c in added.items() for one in c.timings))
    return Imported(len(new), len(added), len(here))


def _builds(added: Mapping[tuple[str, int], Candidate], ids: Mapping[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    """The figures of the machine code are a build's."""
    for key, candidate in added.items():
        if candidate.isa:
            yield {"candidate": ids[key], **_NOT_BUILT_HERE, "isa": dict(candidate.isa)}


def _row(run: Run, known: set[str]) -> dict[str, Any]:
    """A part whose whole is nowhere is a run of its own: else no list of runs would have it."""
    parent, result = run.row["parent"], run.row["result"]
    steps = dict.fromkeys(("asked", "built", "checked", "timed"), len(run.candidates))
    rest: dict[str, Any] = {"space": run.row["space_size"] or 0, "cached": 0, "duplicate": 0, "failed": {}}
    told = result and {**result, "counts": {**steps, **rest}, "environment": dict(run.environment)}
    return {**run.row, "parent": parent if parent in known else None, "result": told}


def _parents_here(connection: Connection, runs: Mapping[str, Run]) -> set[str]:
    parents = [run.row["parent"] for run in runs.values() if run.row["parent"]]
    return {row.id for some in _few(parents) for row in connection.execute(_known(some))}


def _known(names: Sequence[str]) -> Any:
    return select(RUNS.c.id, RUNS.c.key).where(RUNS.c.id.in_(names))


def _ids(connection: Connection, runs: Sequence[str]) -> dict[tuple[str, int], int]:
    """The candidates of these runs."""
    query = select(CANDIDATES.c.run, CANDIDATES.c.ordinal, CANDIDATES.c.id)
    rows = (row for some in _few(runs) for row in connection.execute(query.where(CANDIDATES.c.run.in_(some))))
    return {(row.run, row.ordinal): row.id for row in rows}


def _insert(connection: Connection, table: Table, rows: Iterator[Mapping[str, Any]]) -> None:
    while batch := [dict(row) for row in islice(rows, _AT_ONCE)]:
        connection.execute(insert(table), batch)


def _few(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]
