"""Imports exports of another store: reads and checks them, then writes all or nothing.

Anyone may have written such a file. It can give nothing but rows: no path of it is kept, nothing of it is run, no run
that was measured here is changed, and what it brings is neither continued by --resume nor learned from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import Connection, insert, select

from autotuner.devices.conditions import DeviceState
from autotuner.errors import UsageError
from autotuner.iree.figures import Isa
from autotuner.space.table import Config
from autotuner.store.figures import TOLD
from autotuner.store.rows import BUILDS, CANDIDATES, ENVIRONMENT, IMPORTED, RUNS, TIMINGS, Kind, Phase, RunKind, Status
from autotuner.store.store import Store
from autotuner.system.text import printable, short
from autotuner.system.workspace import refuse_endless

MAKE_ONE = "Make one with `autotune export --json`."
_LARGEST = 2**31 - 1
"""The largest whole number that every database's columns take."""
_SPEEDUP = ("median", "low", "high", "confidence")
_NOT_BUILT_HERE = {"seconds": 0.0, "cached": True, "binary": "", "applied": 0, "command": [], "vmfb": ""}

Record = Mapping[str, Any]


class Refused(ValueError):
    """A record is invalid."""


# --- what a record may say -------------------------------------------------------------------------------------------


def _text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _time(value: Any) -> bool:
    return _number(value) and value > 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _number(value) or _text(value)


def _moment(value: Any) -> bool:
    try:
        return _text(value) and bool(_utc(value))
    except (ValueError, OverflowError):
        return False


_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_SAMPLE = {"*": _number}
_TIMING = {
    "phase": get_args(Phase),
    "block": _whole,
    "us": [_time],
    "time": _moment,
    "conditions?": {"state": get_args(DeviceState), "cache": ("warm", "cold"), "before?": _SAMPLE, "after?": _SAMPLE},
}
_FACTS = {
    "kind?": get_args(RunKind),
    "status?": get_args(Status),
    "state?": get_args(DeviceState),
    "ended?": _moment,
    **{f"{name}?": _whole for name in ("seed", "space_size")},
    **{f"{name}?": _number for name in ("flops", "bytes")},
    "verdict?": re.compile(r"[a-z]+(-[a-z]+)*"),  # jobs to come have verdicts of their own
    **{f"{name}?": _time for name in ("baseline_us", "best_us", *(f"speedup_{one}" for one in _SPEEDUP))},
}
_RECORD = {
    "run": _RUN,
    "parent?": _RUN,
    "started": _moment,
    **dict.fromkeys(("problem", "op", "target", "device"), _text),
    "ordinal": _whole,
    "kind": get_args(Kind),
    **{f"{name}?": _text for name in ("route", "failure")},
    "config?": {"*": _scalar},
    "us": _time,
    "error?": _number,
    "isa?": {"*": _number},
    "best?": (True, False),
    "environment?": {"*": _scalar},
    "run_facts?": _FACTS,
    "timings?": [_TIMING],
}
"""The fields that are read: a test, a pattern, words, a list, or a table (`*`: any name). With ? it may be missing."""


def checked(value: Any, wanted: Any = _RECORD, what: str = "it") -> Any:
    """The checked fields of a record."""
    if isinstance(wanted, dict):
        return _table(value, wanted, what)
    if isinstance(wanted, list):
        if not isinstance(value, list):
            raise Refused(f"{what} {short(value)} is not a list")
        return [checked(one, wanted[0], what) for one in value]
    if isinstance(wanted, re.Pattern):
        good = isinstance(value, str) and bool(wanted.fullmatch(value))
    else:
        good = value in wanted if isinstance(wanted, tuple) else wanted(value)
    if not good:
        raise Refused(f"{what} {short(value)} cannot be")
    return value


def _table(value: Any, wanted: Record, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"{what} {short(value)} is not a table")
    if "*" in wanted:
        return {checked(name, _text, what): checked(one, wanted["*"], f"{what}.{name}") for name, one in value.items()}
    found = {}
    for name, one in wanted.items():
        plain = name.removesuffix("?")
        if value.get(plain) is not None:
            found[plain] = checked(value[plain], one, plain)
        elif plain == name:
            raise Refused(f"{what} has no {plain!r}")
    return found


def _utc(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="microseconds")


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
            told = checked(record)
        except Refused as error:
            remedy = f"Nothing was imported. {MAKE_ONE}"
            raise UsageError(f"{path}, record {number}: {printable(str(error))}.", remedy=remedy) from error
        runs.setdefault(told["run"], {}).setdefault(told["ordinal"], told)
    if not runs:
        raise UsageError(f"{path} holds no timed candidate.", remedy=MAKE_ONE)
    return store.write(lambda connection: _write(connection, runs, source=printable(path.name)))


def _write(connection: Connection, runs: Mapping[str, Mapping[int, Record]], *, source: str) -> Imported:
    here = {row.id for row in connection.execute(select(RUNS.c.id))}
    new = {name: [*candidates.values()] for name, candidates in runs.items() if name not in here}
    for name, candidates in new.items():
        # A part whose whole is nowhere is a run of its own: else no list of runs would have it.
        parent = candidates[0].get("parent")
        whole = parent if parent in here or parent in runs else None
        connection.execute(insert(RUNS).values(**_run(candidates, source=source), parent=whole))
        environment = {key: value for key, value in candidates[0].get("environment", {}).items() if key in TOLD}
        connection.execute(insert(ENVIRONMENT).values(run=name, document=environment))
        for told in candidates:
            _write_candidate(connection, told)
    return Imported(len(new), sum(map(len, new.values())), len(runs) - len(new))


def _write_candidate(connection: Connection, told: Record) -> None:
    """Writes a candidate with its build's figures and its measurements."""
    config, failure = Config.of(told.get("config", {})), told.get("failure", "")
    row = {
        **{name: told[name] for name in ("run", "ordinal", "kind", "us")},
        "config_key": config.key,
        "config": config.as_dict(),
        "route": told.get("route", ""),
        "state": "failed" if failure else "timed",
        "failure": failure,
        "error": told.get("error"),
        "stderr": "",
        "spec": "",
    }
    key = connection.execute(insert(CANDIDATES).values(**row)).inserted_primary_key
    assert key is not None
    if isa := Isa.from_json(told.get("isa")).to_json():
        connection.execute(insert(BUILDS).values(candidate=key[0], **_NOT_BUILT_HERE, isa=isa))
    for one in told.get("timings", ()):
        plain = {"phase": one["phase"], "block": one["block"], "conditions": one.get("conditions")}
        values = {**plain, "repetitions_us": one["us"], "time": _utc(one["time"])}
        connection.execute(insert(TIMINGS).values(candidate=key[0], **values))


def _run(candidates: list[Record], *, source: str) -> dict[str, Any]:
    told = candidates[0]
    facts = told.get("run_facts", {})
    sizes = {name: facts[name] for name in ("flops", "bytes") if name in facts}
    status = facts.get("status", "finished")
    row = {
        "id": told["run"],
        "kind": facts.get("kind", "single"),
        "key": IMPORTED,
        "workspace": "",
        "command": ["autotune", "import", source],
        "problem": {"op": told["op"], "name": told["problem"], **sizes},
        "target": told["target"],
        "device": told["device"],
        "seed": facts.get("seed", 0),
        "status": "interrupted" if status == "running" else status,
        "started": _utc(told["started"]),
        "ended": _utc(facts["ended"]) if "ended" in facts else None,
        "space_size": facts.get("space_size"),
    }
    return {**row, "result": _result(row, facts, candidates, source=source)}


def _result(row: Record, facts: Record, candidates: list[Record], *, source: str) -> dict[str, Any] | None:
    """The result document as far as an export has it, without files."""
    if "verdict" not in facts:
        return None
    speedup = {one: facts.get(f"speedup_{one}") for one in _SPEEDUP}
    best: dict[str, Any] = {"us": facts.get("best_us"), "flags": [], "config": {}, "kind": "codegen"}
    for one in candidates:
        if one.get("best"):
            best |= _named(one)
    return {
        "schema": 1,
        "run": row["id"],
        **{name: row[name] for name in ("problem", "target", "device")},
        "verdict": facts["verdict"],
        "reason": f"imported from {source}",
        "baseline": {"us": facts.get("baseline_us"), "flags": []},
        "stock": {"us": None, "flags": []},
        "best": best if "best_us" in facts else None,
        "speedup": speedup if all(speedup.values()) else None,
        **dict.fromkeys(("speedup_over_stock", "warm", "cold", "spec", "flagfile", "carrier")),
        "timing": {"state": facts["state"]} if "state" in facts else None,
        "seconds": {},
        "notes": [],
    }


def _named(told: Record) -> dict[str, Any]:
    """The best, as in a result document."""
    kind = told["kind"] if told["kind"] == "microkernel" else "codegen"
    name = "baseline" if told["kind"] == "baseline" else f"c{told['ordinal']:04d}"
    return {"config": told.get("config", {}), "kind": kind, "route": told.get("route", ""), "candidate": name}


def read_export(path: Path) -> list[Any]:
    """Reads the records of an export, unchecked."""
    if path.suffix.lower() != ".json":
        raise UsageError(f"{path} is not a .json file.", remedy=MAKE_ONE)
    try:
        refuse_endless(path)
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Name a file that is there.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no export of autotune ({short(str(error))}).", remedy=MAKE_ONE) from error
    if not isinstance(found, list):
        raise UsageError(f"{path} is no export of autotune (it is not a list).", remedy=MAKE_ONE)
    return found
