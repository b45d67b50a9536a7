"""Files that `autotune export` wrote, read as records: JSON, CSV or Parquet. Anyone may have written them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.system.text import short
from autotuner.system.workspace import refuse_endless

MOST_BYTES = 1 << 30
MAKE_ONE = "Make one with `autotune export`: --json, --csv or --parquet."
_NESTED = ("config", "isa", "environment", "run_facts", "figures")
_WHOLE = re.compile(r"-?\d{1,18}")
_NUMBERS = frozenset({"us", "error", "speedup", "cold_us", "call_us"})

Record = Mapping[str, Any]


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
    if isinstance(found, dict) and "schema_version" in found:
        raise NotAnExport("a T4 document does not say which run it is of")
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
    return cell


def _from_parquet(data: bytes) -> list[Record]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        remedy = 'Install it with `pip install "autotune-iree[parquet]"`.'
        raise EnvironmentFailure("Parquet needs the pyarrow package.", remedy=remedy) from error
    try:
        rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        raise NotAnExport(str(error).partition("\n")[0]) from error
    return [_nested({name: value for name, value in row.items() if value is not None}) for row in rows]


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
    ".parquet": _from_parquet,
}
