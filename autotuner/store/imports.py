"""Exports of another store: read, checked, then written at once or not at all.

Anyone may have written such a file. It can give nothing but rows: no path of it is kept, nothing of it is run, no run
that was measured here is changed, and what it brings is neither continued by --resume nor learned from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from autotuner.errors import UsageError
from autotuner.space.table import Config
from autotuner.store.fields import FIELDS, Record, Refused, read
from autotuner.store.queries import AT_ONCE, few
from autotuner.store.rows import BUILDS, CANDIDATES, ENVIRONMENT, IMPORTED, RUNS, TIMINGS
from autotuner.store.store import Store
from autotuner.system.text import printable, short
from autotuner.system.workspace import refuse_endless

MOST_BYTES = 1 << 30
MAKE_ONE = "Make one with `autotune export --json`."
_SPEEDUP = ("median", "low", "high", "confidence")
_TIMING = ("phase", "block", "time", "conditions")
_NOT_BUILT_HERE = {"seconds": 0.0, "cached": True, "binary": "", "applied": 0, "command": [], "vmfb": ""}


@dataclass(frozen=True)
class Imported:
    """What a file brought."""

    runs: int
    candidates: int
    known: int
    """Runs of the file that were here already."""


@dataclass(frozen=True)
class Candidate:
    """A timed candidate: its row, the figures of its machine code, its measurements."""

    row: Mapping[str, Any]
    isa: Mapping[str, Any]
    timings: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Run:
    """A run as it goes into the store, and its candidates by ordinal."""

    row: dict[str, Any]
    environment: Mapping[str, Any]
    candidates: dict[int, Candidate] = field(default_factory=dict)


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


def take(runs: dict[str, Run], record: Record, *, source: str) -> None:
    """Adds a record to its run, which the first record of it makes."""
    told = read(FIELDS, record)
    if told["parent"] == told["run"]:
        raise Refused(f"run {told['run']} is a part of itself")
    run = runs.setdefault(told["run"], Run(_run(told, source=source), told["environment"]))
    candidate = _candidate(told)
    run.candidates.setdefault(told["ordinal"], candidate)
    if told["best"] and run.row["result"] and run.row["result"]["best"]:
        run.row["result"]["best"] |= _named(candidate.row)


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The best as a result tells it."""
    kind = row["kind"] if row["kind"] == "microkernel" else "codegen"
    name = "baseline" if row["kind"] == "baseline" else f"c{row['ordinal']:04d}"
    return {"config": row["config"], "kind": kind, "route": row["route"], "candidate": name}


def _run(told: Record, *, source: str) -> dict[str, Any]:
    facts = told["run_facts"]
    sizes = {name: facts[name] for name in ("flops", "bytes") if facts[name] is not None}
    row = {
        "id": told["run"],
        "key": IMPORTED,
        "workspace": "",
        "command": ["autotune", "import", source],
        "problem": {"op": told["op"], "name": told["problem"], **sizes},
        "status": "interrupted" if facts["status"] == "running" else facts["status"],
        **{name: told[name] for name in ("parent", "target", "device", "started")},
        **{name: facts[name] for name in ("kind", "seed", "ended", "space_size")},
    }
    return {**row, "result": _result(row, facts, source=source)}


def _result(row: Mapping[str, Any], facts: Record, *, source: str) -> dict[str, Any] | None:
    """The contract's document as far as an export tells it. Files are not: they are elsewhere."""
    if facts["verdict"] is None:
        return None
    best, speedup = facts["best_us"], {one: facts[f"speedup_{one}"] for one in _SPEEDUP}
    return {
        "schema": 1,
        "run": row["id"],
        **{name: row[name] for name in ("problem", "target", "device")},
        "verdict": facts["verdict"],
        "reason": f"imported from {source}",
        "baseline": {"us": facts["baseline_us"], "flags": []},
        "stock": {"us": None, "flags": []},
        "best": None if best is None else {"us": best, "flags": [], "config": {}, "kind": "codegen"},
        "speedup": speedup if all(speedup.values()) else None,
        **dict.fromkeys(("speedup_over_stock", "timing", "warm", "cold", "spec", "flagfile", "carrier")),
        "seconds": {},
        "notes": [],
    }


def _candidate(told: Record) -> Candidate:
    config = Config.of(told["config"])
    row = {
        "config_key": config.key,
        "config": config.as_dict(),
        "state": "failed" if told["failure"] else "timed",
        "stderr": "",
        "spec": "",
        **{name: told[name] for name in ("run", "ordinal", "kind", "route", "failure", "error", "us")},
    }
    timings = [{"repetitions_us": one["us"], **{n: one[n] for n in _TIMING}} for one in told["timings"]]
    return Candidate(row, told["isa"], timings)


def _write(connection: Connection, runs: Mapping[str, Run]) -> Imported:
    parents = {run.row["parent"] for run in runs.values()} - {None}
    here = {row.id for some in few([*{*runs, *parents}]) for row in connection.execute(_known(some))}
    new = {name: run for name, run in runs.items() if name not in here}
    # A part whose whole is nowhere is a run of its own: else no list of runs would have it.
    wholes = {*runs, *here}
    rows = ({**run.row, "parent": run.row["parent"] if run.row["parent"] in wholes else None} for run in new.values())
    _insert(connection, RUNS, rows)
    _insert(connection, ENVIRONMENT, ({"run": name, "document": run.environment} for name, run in new.items()))
    added = [candidate for run in new.values() for candidate in run.candidates.values()]
    _insert(connection, CANDIDATES, (candidate.row for candidate in added))
    query = select(CANDIDATES.c.run, CANDIDATES.c.ordinal, CANDIDATES.c.id)
    found = (row for some in few([*new]) for row in connection.execute(query.where(CANDIDATES.c.run.in_(some))))
    ids = {(row.run, row.ordinal): row.id for row in found}
    placed = [(ids[one.row["run"], one.row["ordinal"]], one) for one in added]
    # The figures of the machine code are a build's.
    builds = ({"candidate": row, **_NOT_BUILT_HERE, "isa": dict(one.isa)} for row, one in placed if one.isa)
    _insert(connection, BUILDS, builds)
    _insert(connection, TIMINGS, ({"candidate": row, **timing} for row, one in placed for timing in one.timings))
    return Imported(len(new), len(added), len(runs) - len(new))


def _known(names: Sequence[str]) -> Any:
    return select(RUNS.c.id).where(RUNS.c.id.in_(names))


def _insert(connection: Connection, table: Table, rows: Iterator[Mapping[str, Any]]) -> None:
    while batch := [dict(row) for row in islice(rows, AT_ONCE)]:
        connection.execute(insert(table), batch)


# --- files -----------------------------------------------------------------------------------------------------------


class NotAnExport(ValueError):
    """What is wrong with a file, in a few words."""


def read_export(path: Path) -> list[Record]:
    """The records of an export; no value of them is checked yet."""
    if path.suffix.lower() != ".json":
        raise UsageError(f"{path} is not a .json file.", remedy=MAKE_ONE)
    try:
        refuse_endless(path)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Name a file that is there.") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 30} GiB.", remedy="Export fewer runs at a time.")
    try:
        return _from_json(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no export of autotune ({short(str(error))}).", remedy=MAKE_ONE) from error


def _from_json(data: bytes) -> list[Record]:
    found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NotAnExport("it is not a list of objects")
    return found


def _no_number(word: str) -> float:
    raise NotAnExport(f"{word} is not JSON")
