"""What `compare` takes: a run, a workspace, a database or an export."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.report.compare.join import ResultSet
from autotuner.store.figures import (
    BEST,
    DEFAULT,
    MEASURED,
    Figure,
    Measurements,
    Which,
    device_of,
    measurements,
)
from autotuner.store.store import Store
from autotuner.system.text import printable, short
from autotuner.system.workspace import refuse_endless

WHICH: tuple[Which, ...] = get_args(Which)
FORMS = "Name a run, a workspace, a database (FILE.db or a URL) or an export (.json, .csv or .parquet)."
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_SQLITE = b"SQLite format 3\0"
_ENCODING = "utf-8-sig"
"""Spreadsheets put a mark before what they save."""
_WHY = 200
"""Characters of what is wrong with an export."""
_MOST_BYTES = 2**30
"""Of an export that is read into memory."""


def open_set(word: str, *, workspace: Path = Path(), storage: str | None = None, which: Which = "named") -> ResultSet:
    """What a word on the command line means. Runs are those of `workspace` or `storage`."""
    path = Path(word)
    if "://" in word:
        return _of_database(word, word, which=which)
    if _RUN.fullmatch(word) and not path.exists():
        with Store.open(storage, workspace=workspace, create=False) as store:
            return ResultSet(f"run {word}", measurements(store, word, which=which))
    refuse_endless(path)
    if path.is_dir():
        with Store.open(None, workspace=path, create=False) as store:
            return ResultSet(word, measurements(store, which=which))
    if not path.is_file():
        raise UsageError(f"there is no run, folder or file {short(word)}.", remedy=FORMS)
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            return _of_database(word, f"sqlite:///{path.absolute()}", which=which)
    return _of_export(path, which=which)


def _of_database(name: str, url: str, *, which: Which) -> ResultSet:
    with Store.open(url, workspace=Path(), create=False) as store:
        return ResultSet(store.name if "://" in name else name, measurements(store, which=which))


# --- exports ---------------------------------------------------------------------------------------------------------


def _of_export(path: Path, *, which: Which) -> ResultSet:
    if path.suffix not in _READERS:
        raise UsageError(f"{path} is neither a database nor an export.", remedy=FORMS)
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"{path} is larger than {_MOST_BYTES >> 30} GiB.", remedy="Compare the databases instead.")
    try:
        records = _READERS[path.suffix](path.read_bytes())
        models = {one["run"] for one in records if one.get("op") == "model"}
        whole = [one for one in records if one.get("parent") not in models]
        figures = tuple(figure for one in whole for figure in _figures(one, which=which))
        known = {json.dumps(one["environment"], sort_keys=True): one["environment"] for one in records}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, csv.Error) as error:
        remedy = "Make one with `autotune export --json`, `--csv` or `--parquet`."
        why = f"a row has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} is not an export that can be compared: {printable(why)[:_WHY].rstrip('.')}.", remedy=remedy
        ) from None
    return ResultSet(str(path), Measurements(figures, (), tuple(known.values())))


def _from_json(content: bytes) -> list[dict[str, Any]]:
    found = json.loads(content.decode(_ENCODING))
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("it is not a list of objects")
    return found


def _from_csv(content: bytes) -> list[dict[str, Any]]:
    """Columns `config.tile` and `figures.sustained/warm.us` become tables again."""
    lines = csv.DictReader(io.StringIO(content.decode(_ENCODING)), strict=True)
    if "problem" not in (lines.fieldnames or ()):
        raise ValueError("it has no column `problem`")
    return [_nested(line) for line in lines]


def _from_parquet(content: bytes) -> list[dict[str, Any]]:
    """The same columns, in types of their own."""
    try:
        from pyarrow import ArrowException, parquet  # takes 0.2 s, and only these files need it
    except ModuleNotFoundError as error:
        remedy = 'Run: pip install "autotune-iree[parquet]"'
        raise EnvironmentFailure("Parquet needs the pyarrow package.", remedy=remedy) from error
    try:
        return [_nested(line) for line in parquet.read_table(io.BytesIO(content)).to_pylist()]
    except ArrowException as error:
        raise ValueError(str(error)) from None


def _nested(line: Mapping[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {"config": {}, "figures": {}, "environment": {}}
    for name, value in line.items():
        first, _, rest = name.partition(".")
        if value in ("", None) or (rest and first not in record):
            continue
        if first == "figures":
            place, _, field = rest.rpartition(".")
            record["figures"].setdefault(place, {})[field] = float(value)
        elif rest:
            record[first][rest] = value
        else:
            record[name] = value
    return record


_READERS: Mapping[str, Callable[[bytes], list[dict[str, Any]]]] = {
    ".json": _from_json,
    ".csv": _from_csv,
    ".parquet": _from_parquet,
}


def _figures(record: Mapping[str, Any], *, which: Which) -> Iterator[Figure]:
    """A candidate's figures, for each kernel that it stands for."""
    kernel, kind = str(record["kernel"]), record["kind"]
    problem = str(record["config"]["problem"] if kind == "default" else record["problem"])  # of a suite's own row
    arm = kernel == record.get("route")
    named = arm or kernel == DEFAULT or which == "all"
    best = str(record["best"]) == "True"
    for place, timed in record["figures"].items():
        state, _, cache = place.partition("/")
        measured = {name: _number(timed.get(name)) for name in MEASURED}
        us, blocks = measured.pop("us"), int(measured.pop("blocks") or 0)
        if us is None or us <= 0:
            raise ValueError(f"the time of {problem} is {timed.get('us')}")
        for name in [*([kernel] if named else []), *([BEST] if best else [])]:
            yield Figure(
                problem=problem,
                target=str(record["target"]),
                kernel=name,
                us=us,
                blocks=blocks,
                state=state,
                cache=cache,
                device=device_of(record["environment"], str(record["device"])),
                run=str(record["run"]),
                started=str(record["started"]),
                **measured,
            )


def _number(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no time")
    return number
