"""Every timed candidate for other programs: as records, JSON, CSV and a DataFrame."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotuner.store.fields import FACTS, FIELDS, Told, tell
from autotuner.store.figures import RunFigures
from autotuner.store.reader import Reader
from autotuner.store.rows import TimedRow
from autotuner.system.files import begins
from autotuner.system.text import cells

if TYPE_CHECKING:
    import pandas as pd

NESTED = ("config", "isa", "device_state", "environment", "run_facts", "figures")
"""What is a table in a record. In a flat one each of its fields is a column of its own, `config.tile`."""
WRITTEN = "timings"
"""What is a list in a record. In a flat one it is a column of JSON text."""
_TABLES = frozenset({*NESTED, WRITTEN})
_NUMBERS = ("us", "speedup", "error", "cold_us")
_CSV = rb"run,parent,started,problem,op,target,device,ordinal,kind,route,us,speedup,error,failure,"
_JSON = rb'\[\]\n\Z|\[\n\{"run": "[^"\n]*", "parent": (null|"[^"\n]*"), "started": "'
our_export = begins(b"|".join((_CSV, _JSON)))
"""Is a file one that `autotune export` wrote? By how its text begins."""

Record = dict[str, Any]


def export_records(store: Reader, run: str | None = None) -> list[Record]:
    """One object per timed candidate, of one run with its parts or of all."""
    rows = store.timed(run)
    environments = store.environments({row.run.id for row in rows})
    records: list[Record] = []
    for name, group in groupby(rows, key=lambda row: row.run.id):
        records += _of_run(list(group), environments.get(name, {}))
    return records


def _of_run(rows: Sequence[TimedRow], environment: Mapping[str, Any]) -> list[Record]:
    run, timings = rows[0].run, {row.candidate.id: row.timings for row in rows}
    right = tuple(row.candidate for row in rows if row.candidate.state != "failed")
    figures = RunFigures(run, environment, right, lambda candidate: timings[candidate])
    best = figures.best
    facts = {name: value for name, value in tell(FACTS, run).items() if value is not None}
    return [tell(FIELDS, Told(row, figures, best is not None and best.id == row.candidate.id, facts)) for row in rows]


def _flat(record: Record) -> Record:
    """The same with a column for each field of a table."""
    flat = {name: value for name, value in record.items() if name not in _TABLES}
    for part in NESTED:
        table = _places(record[part]) if part == "figures" else record[part]
        flat.update(zip(_columns(part, tuple(table)), table.values(), strict=True))
    return {**flat, WRITTEN: json.dumps(record[WRITTEN])}


@lru_cache(maxsize=1024)
def _columns(part: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Thousands of records have the same."""
    return tuple(f"{part}.{name}" for name in names)


def _places(figures: Mapping[str, Record]) -> Record:
    return {f"{place}.{name}": value for place, timed in figures.items() for name, value in timed.items()}


def _columns_of(flat: Sequence[Record]) -> list[str]:
    """The columns that any record has, in the order in which they come; without records those that all have."""
    always = (*(field.name for field in FIELDS if field.name not in _TABLES), WRITTEN)
    kinds = dict.fromkeys(tuple(record) for record in flat)
    return list(dict.fromkeys(name for names in kinds for name in names)) or list(always)


def export_csv(records: Iterable[Record]) -> str:
    """A row a record, with a column for each field of a table."""
    flat = [_flat(record) for record in records]
    text, columns = io.StringIO(), _columns_of(flat)
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(cells(record.get(name, "") for name in columns) for record in flat)
    return text.getvalue()


def export_json(records: Iterable[Record]) -> str:
    """The records as a JSON list, a line each: json takes many times as long to indent them."""
    lines = ",\n".join(map(json.dumps, records))
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def frame(store: Reader, run: str | None = None) -> pd.DataFrame:
    """The records as a table, with the columns of a CSV but for the raw timings."""
    import pandas as pd  # imported where it is used: it takes 0.4 s

    flat = [_flat(record) for record in export_records(store, run)]
    columns: Record = {name: [one.get(name) for one in flat] for name in _columns_of(flat) if name != WRITTEN}
    for name, values in columns.items():
        if "." in name:  # pd.array keeps whole numbers whole where another run does not have the knob
            columns[name] = pd.array(values)
        elif name in _NUMBERS:
            columns[name] = pd.Series(values, dtype=float)
    return pd.DataFrame(columns | {"started": pd.to_datetime(columns["started"], utc=True)})


def load_results(workspace: str | Path = ".", *, storage: str | None = None, run: str | None = None) -> pd.DataFrame:
    """Every timed candidate of a workspace (or of one run), one a row; knobs are columns `config.…`."""
    with Reader.open(storage, workspace=Path(workspace), create=False) as store, store.intact():
        return frame(store, run)
