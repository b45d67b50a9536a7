"""The records of an export as rows, each field checked: what is not in the list of fields is left out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args

from autotuner.devices.conditions import Conditions, DeviceState, Sample
from autotuner.iree.figures import Isa
from autotuner.space.table import Config
from autotuner.store.figures import TOLD
from autotuner.store.rows import IMPORTED, Kind, Phase, RunKind, Status
from autotuner.system.text import short

_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_LONGEST = 1000
"""Characters of a text."""
_MOST_FIELDS = 200
_MOST_TIMINGS = 10_000
_MOST = 2**31 - 1
"""The largest whole number that every database's columns take."""
_MOST_US = 1e12
_WORD = re.compile(r"[a-z]+(-[a-z]+){0,3}")
_SPEEDUP = ("median", "low", "high", "confidence")

Record = Mapping[str, Any]
T = TypeVar("T")


class Refused(ValueError):
    """A field that cannot be what it says."""


@dataclass(frozen=True)
class Candidate:
    """A timed candidate: its row, the figures of its machine code, its measurements."""

    row: Mapping[str, Any]
    isa: Mapping[str, Any]
    timings: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Run:
    """A run as it goes into the store, and its candidates by ordinal."""

    row: Mapping[str, Any]
    environment: Mapping[str, Any]
    candidates: dict[int, Candidate] = field(default_factory=dict)


def take(runs: dict[str, Run], record: Record, *, source: str) -> None:
    """Adds a record to its run, which the first record of it makes."""
    name = _id(record["run"], "run")
    if name not in runs:
        environment = _scalars(record.get("environment") or {}, "environment", only=TOLD)
        runs[name] = Run(_run(name, record, source=source), environment)
    run, candidate = runs[name], _candidate(name, record)
    run.candidates.setdefault(candidate.row["ordinal"], candidate)
    if record.get("best") is True and run.row["result"] and run.row["result"]["best"]:
        run.row["result"]["best"] |= _named(candidate.row)


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The best as a result tells it."""
    kind = row["kind"] if row["kind"] == "microkernel" else "codegen"
    name = "baseline" if row["kind"] == "baseline" else f"c{row['ordinal']:04d}"
    return {"config": row["config"], "kind": kind, "route": row["route"], "candidate": name}


def _run(name: str, record: Record, *, source: str) -> dict[str, Any]:
    facts: Mapping[str, Any] = _table(record.get("run_facts") or {}, "run_facts")
    parent = _maybe(_id, record.get("parent"), "parent")
    if parent == name:
        raise Refused(f"run {name} is a part of itself")
    status: Status = _one_of(facts.get("status", "finished"), get_args(Status), "status")
    numbers = {one: _maybe(_whole, facts.get(one), one) for one in ("flops", "bytes")}
    problem = {"op": _text(record["op"], "op"), "name": _text(record["problem"], "problem")}
    row = {
        "id": name,
        "kind": _one_of(facts.get("kind", "single"), get_args(RunKind), "kind"),
        "parent": parent,
        "key": IMPORTED,
        "workspace": "",
        "command": ["autotune", "import", source],
        "problem": {**problem, **{one: value for one, value in numbers.items() if value is not None}},
        "target": _text(record["target"], "target"),
        "device": _text(record["device"], "device"),
        "seed": _small(facts.get("seed", 0), "seed"),
        "status": "interrupted" if status == "running" else status,
        "started": _when(record["started"], "started"),
        "ended": _maybe(_when, facts.get("ended"), "ended"),
        "space_size": _maybe(_small, facts.get("space_size"), "space_size"),
    }
    return {**row, "result": _result(row, facts, source=source)}


def _result(row: Mapping[str, Any], facts: Mapping[str, Any], *, source: str) -> dict[str, Any] | None:
    """The contract's document as far as an export tells it. Files are not: they are elsewhere."""
    if facts.get("verdict") is None:
        return None
    best = _maybe(_us, facts.get("best_us"), "best_us")
    speedup = {one: _maybe(_us, facts.get(f"speedup_{one}"), f"speedup_{one}") for one in _SPEEDUP}
    return {
        "schema": 1,
        "run": row["id"],
        "problem": row["problem"],
        "target": row["target"],
        "device": row["device"],
        "verdict": _word(facts["verdict"], "verdict"),
        "reason": f"imported from {source}",
        "baseline": {"us": _maybe(_us, facts.get("baseline_us"), "baseline_us"), "flags": []},
        "stock": {"us": None, "flags": []},
        "best": None if best is None else {"us": best, "flags": [], "config": {}, "kind": "codegen"},
        "speedup": speedup if all(speedup.values()) else None,
        **dict.fromkeys(("speedup_over_stock", "timing", "warm", "cold", "spec", "flagfile", "carrier")),
        "seconds": {},
        "notes": [],
    }


def _candidate(run: str, record: Record) -> Candidate:
    config = Config.of(_scalars(record.get("config") or {}, "config"))
    row = {
        "run": run,
        "ordinal": _small(record["ordinal"], "ordinal"),
        "config_key": config.key,
        "config": config.as_dict(),
        "kind": _one_of(record["kind"], get_args(Kind), "kind"),
        "route": _text(record.get("route") or "", "route"),
        "state": "failed" if record.get("failure") else "timed",
        "failure": _text(record.get("failure") or "", "failure"),
        "stderr": "",
        "error": _maybe(_number, record.get("error"), "error"),
        "us": _us(record["us"], "us"),
        "spec": "",
    }
    isa = Isa.from_json(_scalars(record.get("isa") or {}, "isa")).to_json()
    timings = record.get("timings") or []
    if not isinstance(timings, list) or len(timings) > _MOST_TIMINGS:
        raise Refused("timings are not a list of them")
    return Candidate(row, isa, [_timing(_table(one, "timings")) for one in timings])


def _timing(record: Mapping[str, Any]) -> dict[str, Any]:
    us = record["us"]
    if not isinstance(us, list) or not 0 < len(us) <= _MOST_TIMINGS:
        raise Refused("a timing's us is not a list of numbers")
    return {
        "phase": _one_of(record["phase"], get_args(Phase), "phase"),
        "block": _small(record["block"], "block"),
        "repetitions_us": [_us(one, "us") for one in us],
        "time": _when(record["time"], "time"),
        "conditions": _conditions(record.get("conditions")),
    }


def _conditions(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    table = _table(value, "conditions")
    before, after = (_sample(_table(table.get(when) or {}, when)) for when in ("before", "after"))
    state = _one_of(table["state"], get_args(DeviceState), "state")
    return Conditions(state, _one_of(table["cache"], ("warm", "cold"), "cache"), before, after).to_json()


def _sample(table: Mapping[str, Any]) -> Sample:
    return Sample(*(_maybe(_number, table.get(one), one) for one in ("mhz", "watts", "celsius")))


# --- one value -------------------------------------------------------------------------------------------------------


def _maybe(check: Callable[[Any, str], T], value: Any, what: str) -> T | None:
    return None if value is None else check(value, what)


def _id(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _RUN.fullmatch(value):
        raise Refused(f"{what} {short(value)} is not the name of a run")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        raise Refused(f"{what} {short(value)} is not a line of text")
    return value


def _word(value: Any, what: str) -> str:
    """Jobs to come have verdicts of their own: any word, but a word."""
    if not isinstance(value, str) or len(value) > _LONGEST or not _WORD.fullmatch(value):
        raise Refused(f"{what} {short(value)} is not a word")
    return value


def _one_of(value: Any, words: Sequence[T], what: str) -> T:
    if not isinstance(value, str) or value not in words:
        raise Refused(f"{what} {short(value)} is unknown")
    return words[words.index(value)]


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Refused(f"{what} {short(value)} is not a number")
    return float(value)


def _us(value: Any, what: str) -> float:
    number = _number(value, what)
    if not 0 < number <= _MOST_US:
        raise Refused(f"{what} {short(value)} is no time")
    return number


def _whole(value: Any, what: str, *, most: int = 2**62) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise Refused(f"{what} {short(value)} is not a whole number")
    return value


def _small(value: Any, what: str) -> int:
    return _whole(value, what, most=_MOST)


def _when(value: Any, what: str) -> str:
    try:
        return datetime.fromisoformat(_text(value, what)).astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        raise Refused(f"{what} {short(value)} is not a date") from None


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or len(value) > _MOST_FIELDS:
        raise Refused(f"{what} {short(value)} is not a table")
    return value


def _scalars(value: Any, what: str, *, only: Sequence[str] | None = None) -> dict[str, Any]:
    """Words and numbers by name."""
    checked = {}
    for name, one in _table(value, what).items():
        if only is not None and name not in only:
            continue
        plain = one is None or isinstance(one, bool)
        checked[_text(name, what)] = one if plain else _scalar(one, f"{what}.{name}")
    return checked


def _scalar(value: Any, what: str) -> Any:
    if isinstance(value, int):
        return value if abs(value) < 2**62 else _whole(value, what)
    return _number(value, what) if isinstance(value, float) else _text(value, what)
