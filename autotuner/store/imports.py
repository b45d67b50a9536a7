"""Imports exports of another store: reads and checks them, then writes all or nothing.

Anyone may have written such a file. It can give nothing but rows: no path of it is kept, nothing of it is run, no run
that was measured here is changed, and what it brings is neither continued by --resume nor learned from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from sqlalchemy import Connection, insert, select

from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.errors import UsageError
from autotuner.iree.figures import Isa
from autotuner.space.table import Config
from autotuner.store.figures import TOLD
from autotuner.store.rows import BUILDS, CANDIDATES, ENVIRONMENT, IMPORTED, RUNS, TIMINGS, Kind, Phase, RunKind, Status
from autotuner.store.store import Store
from autotuner.system.fields import Limits, read
from autotuner.system.text import printable, short
from autotuner.system.workspace import refuse_endless

MAKE_ONE = "Make one with `autotune export --json`."
_LARGEST = 2**31 - 1
"""The largest whole number that every database's columns take."""
_NOT_BUILT_HERE = {"seconds": 0.0, "cached": True, "binary": "", "applied": 0, "command": [], "vmfb": ""}
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_VERDICT = re.compile(r"[a-z]+(-[a-z]+)*")  # jobs to come have verdicts of their own

Time = Annotated[float, Limits(least=1e-9)]
Whole = Annotated[int, Limits(_LARGEST)]
Scalar = str | int | float | bool | None


# --- what a record may say; all else of it is not read ---------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """One measurement."""

    phase: Phase
    block: Whole
    us: tuple[Time, ...]
    time: str
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        _utc(self.time)


@dataclass(frozen=True)
class RunFacts:
    """A run's facts, the same in each of its records."""

    kind: RunKind | None = None
    status: Status | None = None
    state: DeviceState | None = None
    ended: str | None = None
    seed: Whole | None = None
    space_size: Whole | None = None
    flops: Annotated[int, Limits(1e30)] | None = None
    bytes: Annotated[int, Limits(1e30)] | None = None
    verdict: str | None = None
    baseline_us: Time | None = None
    best_us: Time | None = None
    speedup_median: Time | None = None
    speedup_low: Time | None = None
    speedup_high: Time | None = None
    speedup_confidence: Time | None = None

    def __post_init__(self) -> None:
        if self.verdict is not None and not _VERDICT.fullmatch(self.verdict):
            raise ValueError("a run with a verdict in a word")
        if self.ended is not None:
            _utc(self.ended)


@dataclass(frozen=True)
class Record:
    """A timed candidate."""

    run: str
    started: str
    problem: str
    op: str
    target: str
    device: str
    ordinal: Whole
    kind: Kind
    us: Time
    parent: str | None = None
    route: str | None = None
    failure: str | None = None
    config: Mapping[str, str | int | bool] = field(default_factory=dict)
    error: float | None = None
    isa: Mapping[str, float] = field(default_factory=dict)
    best: bool | None = None
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    run_facts: RunFacts = field(default_factory=RunFacts)
    timings: tuple[Timed, ...] = ()

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run) or not _RUN.fullmatch(self.parent or self.run):
            raise ValueError("a record with the name of a run")
        _utc(self.started)


def _utc(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError as error:
        raise ValueError(f"a date: {error}") from error


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    runs: int
    candidates: int
    known: int
    """Runs that were here already."""


def import_file(store: Store, path: Path) -> Imported:
    """Writes the runs that the store does not have."""
    runs: dict[str, dict[int, Record]] = {}
    for number, record in enumerate(read_export(path), start=1):
        try:
            told = read(Record, record, f"{path}, record {number}")
        except UsageError as error:
            raise UsageError(error.message, remedy=f"Nothing was imported. {MAKE_ONE}") from error
        runs.setdefault(told.run, {}).setdefault(told.ordinal, told)
    if not runs:
        raise UsageError(f"{path} holds no timed candidate.", remedy=MAKE_ONE)
    return store.write(lambda connection: _write(connection, runs, source=printable(path.name)))


def _write(connection: Connection, runs: Mapping[str, Mapping[int, Record]], *, source: str) -> Imported:
    here = {row.id for row in connection.execute(select(RUNS.c.id))}
    new = {name: [*candidates.values()] for name, candidates in runs.items() if name not in here}
    for name, candidates in new.items():
        first = candidates[0]
        # A part whose whole is nowhere is a run of its own: else no list of runs would have it.
        whole = first.parent if first.parent in here or first.parent in runs else None
        connection.execute(insert(RUNS).values(**_run(candidates, source=source), parent=whole))
        environment = {key: value for key, value in first.environment.items() if key in TOLD}
        connection.execute(insert(ENVIRONMENT).values(run=name, document=environment))
        for told in candidates:
            _write_candidate(connection, told)
    return Imported(len(new), sum(map(len, new.values())), len(runs) - len(new))


def _write_candidate(connection: Connection, told: Record) -> None:
    """Writes a candidate with its build's figures and its measurements."""
    config, failure = Config.of(told.config), told.failure or ""
    row = {
        **{name: getattr(told, name) for name in ("run", "ordinal", "kind", "us", "error")},
        "config_key": config.key,
        "config": config.as_dict(),
        "route": told.route or "",
        "state": "failed" if failure else "timed",
        "failure": failure,
        "stderr": "",
    }
    key = connection.execute(insert(CANDIDATES).values(**row)).inserted_primary_key
    assert key is not None
    if isa := Isa.from_json(told.isa).to_json():
        connection.execute(insert(BUILDS).values(candidate=key[0], **_NOT_BUILT_HERE, isa=isa))
    for one in told.timings:
        conditions = one.conditions.to_json() if one.conditions else None
        plain = {"phase": one.phase, "block": one.block, "conditions": conditions}
        values = {**plain, "repetitions_us": list(one.us), "time": _utc(one.time)}
        connection.execute(insert(TIMINGS).values(candidate=key[0], **values))


def _run(candidates: list[Record], *, source: str) -> dict[str, Any]:
    told = candidates[0]
    facts = told.run_facts
    sizes = {name: size for name, size in (("flops", facts.flops), ("bytes", facts.bytes)) if size is not None}
    status = facts.status or "finished"
    row = {
        "id": told.run,
        "kind": facts.kind or "single",
        "key": IMPORTED,
        "workspace": "",
        "command": ["autotune", "import", source],
        "problem": {"op": told.op, "name": told.problem, **sizes},
        "target": told.target,
        "device": told.device,
        "seed": facts.seed or 0,
        "status": "interrupted" if status == "running" else status,
        "started": _utc(told.started),
        "ended": _utc(facts.ended) if facts.ended is not None else None,
        "space_size": facts.space_size,
    }
    return {**row, "result": _result(row, facts, candidates, source=source)}


def _result(row: Mapping[str, Any], facts: RunFacts, candidates: list[Record], *, source: str) -> dict[str, Any] | None:
    """The result document as far as an export has it, without files."""
    if facts.verdict is None:
        return None
    speedup = {one: getattr(facts, f"speedup_{one}") for one in ("median", "low", "high", "confidence")}
    best: dict[str, Any] = {"us": facts.best_us, "flags": [], "config": {}, "kind": "codegen"}
    for one in candidates:
        if one.best:
            best |= _named(one)
    return {
        "schema": 1,
        "run": row["id"],
        **{name: row[name] for name in ("problem", "target", "device")},
        "verdict": facts.verdict,
        "reason": f"imported from {source}",
        "baseline": {"us": facts.baseline_us, "flags": []},
        "stock": {"us": None, "flags": []},
        "best": best if facts.best_us is not None else None,
        "speedup": speedup if all(speedup.values()) else None,
        **dict.fromkeys(("speedup_over_stock", "warm", "cold", "spec", "flagfile", "carrier")),
        "timing": {"state": facts.state} if facts.state is not None else None,
        "seconds": {},
        "notes": [],
    }


def _named(told: Record) -> dict[str, Any]:
    """The best, as in a result document."""
    kind = told.kind if told.kind == "microkernel" else "codegen"
    name = "baseline" if told.kind == "baseline" else f"c{told.ordinal:04d}"
    return {"config": dict(told.config), "kind": kind, "route": told.route or "", "candidate": name}


def read_export(path: Path) -> list[Any]:
    """Reads the records of an export, unchecked."""
    if path.suffix.lower() != ".json":
        raise UsageError(f"{path} is not a .json file.", remedy=MAKE_ONE)
    try:
        refuse_endless(path, "export")
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Name a file that is there.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no export of autotune ({short(str(error))}).", remedy=MAKE_ONE) from error
    if not isinstance(found, list):
        raise UsageError(f"{path} is no export of autotune (it is not a list).", remedy=MAKE_ONE)
    return found
