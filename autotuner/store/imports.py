"""Exports of another store: read, checked, then written at once or not at all.

Anyone may have written such a file. It can give nothing but rows: no path of it is kept, nothing of it is run, no run
that was measured here is changed, and what it brings is neither continued by --resume nor learned from.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from autotuner.errors import UsageError
from autotuner.store.checked import Candidate, Record, Refused, Run, take
from autotuner.store.queries import AT_ONCE, few
from autotuner.store.rows import BUILDS, CANDIDATES, ENVIRONMENT, IMPORTED, RUNS, TIMINGS
from autotuner.store.store import Store
from autotuner.system.text import printable, short, without_apostrophe
from autotuner.system.workspace import refuse_endless

MOST_BYTES = 1 << 30
MAKE_ONE = "Make one with `autotune export`: --json or --csv."
_NESTED = ("config", "isa", "environment", "run_facts", "figures")
_WHOLE = re.compile(r"-?\d{1,18}")
_NUMBERS = frozenset({"us", "error", "speedup", "cold_us", "call_us"})
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
    here = {row.id: row.key for some in few(list(runs)) for row in connection.execute(_known(some))}
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
    return {row.id for some in few(parents) for row in connection.execute(_known(some))}


def _known(names: Sequence[str]) -> Any:
    return select(RUNS.c.id, RUNS.c.key).where(RUNS.c.id.in_(names))


def _ids(connection: Connection, runs: Sequence[str]) -> dict[tuple[str, int], int]:
    """The candidates of these runs."""
    query = select(CANDIDATES.c.run, CANDIDATES.c.ordinal, CANDIDATES.c.id)
    rows = (row for some in few(runs) for row in connection.execute(query.where(CANDIDATES.c.run.in_(some))))
    return {(row.run, row.ordinal): row.id for row in rows}


def _insert(connection: Connection, table: Table, rows: Iterator[Mapping[str, Any]]) -> None:
    while batch := [dict(row) for row in islice(rows, AT_ONCE)]:
        connection.execute(insert(table), batch)


# --- files -----------------------------------------------------------------------------------------------------------


class NotAnExport(ValueError):
    """What is wrong with a file, in a few words."""


def read_export(path: Path) -> list[Record]:
    """The records of an export, nested as --json has them; no value of them is checked yet."""
    if path.suffix.lower() not in _READERS:
        raise UsageError(f"{path} ends in none of {', '.join(_READERS)}.", remedy=MAKE_ONE)
    try:
        refuse_endless(path)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Name a file that is there.") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 30} GiB.", remedy="Export fewer runs at a time.")
    try:
        return _READERS[path.suffix.lower()](data)
    except (ValueError, csv.Error, RecursionError) as error:
        raise UsageError(f"{path} is no export of autotune ({short(str(error))}).", remedy=MAKE_ONE) from error


def _from_json(data: bytes) -> list[Record]:
    found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NotAnExport("it is not a list of objects")
    return found


def _no_number(word: str) -> float:
    raise NotAnExport(f"{word} is not JSON")


def _from_csv(data: bytes) -> list[Record]:
    csv.field_size_limit(1 << 24)  # the timings of a long race are one cell
    lines = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    return [_nested({name: _typed(name, cell) for name, cell in line.items() if cell}) for line in lines]


def _typed(name: str | None, cell: Any) -> Any:
    """A cell as the type that it was written from."""
    if name is None or not isinstance(cell, str):
        raise NotAnExport("a row has more cells than the header has columns")
    if cell in ("True", "False"):
        return cell == "True"
    if _WHOLE.fullmatch(cell) and name not in ("parent", "route"):
        return int(cell)
    if name in _NUMBERS or name.startswith(("run_facts.speedup", "run_facts.best", "run_facts.baseline")):
        return float(cell)
    return without_apostrophe(cell)


def _nested(row: Mapping[str, Any]) -> Record:
    """Columns `config.tile` become a table again, `figures.sustained/warm.us` one of tables, `timings`
    a list. What is none of an export's is left out."""
    record: dict[str, Any] = {part: {} for part in _NESTED}
    for name, value in row.items():
        part, dot, rest = name.partition(".")
        if part == "figures" and dot:
            place, _, field = rest.rpartition(".")
            record[part].setdefault(place, {})[field] = value
        elif dot and part in _NESTED:
            record[part][rest] = value
        elif not dot and name not in _NESTED:
            record[name] = value
    if isinstance(written := record.get("timings"), str):
        record["timings"] = json.loads(written, parse_constant=_no_number)
    return record


_READERS: Mapping[str, Callable[[bytes], list[Record]]] = {
    ".json": _from_json,
    ".csv": _from_csv,
}
