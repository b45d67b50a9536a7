"""What `compare` takes: a run, a workspace, a database or an export."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autotuner.errors import UsageError
from autotuner.report.compare import ResultSet
from autotuner.store.figures import (
    BEST,
    DEFAULT,
    MEASURED,
    Figure,
    Measurements,
    device_of,
    measurements,
)
from autotuner.store.imports import MAKE_ONE, read_export
from autotuner.store.store import Store
from autotuner.system.text import printable, short
from autotuner.system.workspace import refuse_endless

FORMS = "Name a run, a workspace, a database (FILE.db or a URL) or an export (.json)."
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_SQLITE = b"SQLite format 3\0"
_WHY = 200
"""Characters of what is wrong with an export."""


def open_set(word: str, *, workspace: Path = Path(), storage: str | None = None) -> ResultSet:
    """What a word on the command line means. Runs are those of `workspace` or `storage`."""
    path = Path(word)
    if "://" in word:
        return _of_database(word, word)
    if _RUN.fullmatch(word) and not path.exists():
        with Store.open(storage, workspace=workspace, create=False) as store:
            return ResultSet(f"run {word}", measurements(store, word))
    refuse_endless(path)
    if path.is_dir():
        with Store.open(None, workspace=path, create=False) as store:
            return ResultSet(word, measurements(store))
    if not path.is_file():
        raise UsageError(f"there is no run, folder or file {short(word)}.", remedy=FORMS)
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            return _of_database(word, f"sqlite:///{path.absolute()}")
    return _of_export(path)


def _of_database(name: str, url: str) -> ResultSet:
    with Store.open(url, workspace=Path(), create=False) as store:
        return ResultSet(store.name if "://" in name else name, measurements(store))


# --- exports ---------------------------------------------------------------------------------------------------------


def _of_export(path: Path) -> ResultSet:
    records = read_export(path)
    try:
        models = {one["run"] for one in records if one.get("op") == "model"}
        whole = [one for one in records if one.get("parent") not in models]
        figures = tuple(figure for one in whole for figure in _figures(one))
        known = {json.dumps(one["environment"], sort_keys=True): one["environment"] for one in records}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        why = f"a row has no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} is not an export that can be compared: {printable(why)[:_WHY].rstrip('.')}.", remedy=MAKE_ONE
        ) from None
    return ResultSet(str(path), Measurements(figures, (), tuple(known.values())))


def _figures(record: Mapping[str, Any]) -> Iterator[Figure]:
    """A candidate's figures, for each kernel that it stands for."""
    kernel, kind = str(record["kernel"]), record["kind"]
    problem = str(record["config"]["problem"] if kind == "default" else record["problem"])  # of a suite's own row
    arm = kernel == record.get("route")
    named = arm or kernel == DEFAULT
    best = record["best"] is True
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
