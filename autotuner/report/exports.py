"""Every timed candidate for other programs: as records, JSON, CSV and a DataFrame. Reads rows of the results database,
nothing else."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotuner.store.figures import TOLD, RunFigures, kernel_of
from autotuner.store.rows import RunRow, TimedRow, TimingRow
from autotuner.store.store import Store
from autotuner.system.files import begins
from autotuner.system.text import cells

if TYPE_CHECKING:
    import pandas as pd

NESTED = ("config", "isa", "device_state", "environment", "run_facts", "figures")
"""What is a table in a record. In a flat one each of its fields is a column of its own, `config.tile`."""
WRITTEN = "timings"
"""What is a list in a record. In a flat one it is a column of JSON text."""

_TABLES = frozenset({*NESTED, WRITTEN})
ALWAYS = (
    *("run", "parent", "started", "problem", "op", "target", "device", "ordinal", "kind", "route", "us", "speedup"),
    *("error", "failure", "spec", "cold_us", "kernel", "best", WRITTEN),
)
"""The columns that do not depend on what was timed: all that a table of nothing has."""

_CSV = rb"run,parent,started,problem,op,target,device,ordinal,kind,route,us,speedup,error,failure,"
_JSON = rb'\[\]\n\Z|\[\n\{"run": "[^"\n]*", "parent": (null|"[^"\n]*"), "started": "'
our_export = begins(b"|".join((_CSV, _JSON)))
"""Is a file one that `autotune export` wrote? By how its text begins."""

Record = dict[str, Any]


def export_records(store: Store, run: str | None = None) -> list[Record]:
    """One object per timed candidate, of one run with its parts or of all."""
    rows = store.timed(run)
    environments = store.environments({row.run.id for row in rows})
    records: list[Record] = []
    for name, group in groupby(rows, key=lambda row: row.run.id):
        records += _of_run(list(group), environments.get(name, {}))
    return records


def _of_run(rows: list[TimedRow], environment: Mapping[str, Any]) -> Iterator[Record]:
    run = rows[0].run
    right = tuple(row.candidate for row in rows if row.candidate.state != "failed")
    figures = RunFigures(run, environment, right, {row.candidate.id: row.timings for row in rows})
    best, facts, started = figures.best, _facts(run), run.started.isoformat(timespec="seconds")
    told = {name: environment[name] for name in TOLD if name in environment}
    for row in rows:
        candidate = row.candidate
        yield {
            "run": run.id,
            "parent": run.parent,
            "started": started,
            "problem": run.problem.get("name", ""),
            "op": run.problem.get("op", ""),
            "target": run.target,
            "device": run.device,
            "ordinal": candidate.ordinal,
            "kind": candidate.kind,
            "route": candidate.route,
            "config": candidate.config.as_dict(),
            "us": _finite(row.us),
            "speedup": _finite(row.speedup),
            "error": _finite(candidate.error),
            "failure": candidate.failure,
            "spec": candidate.spec,
            "isa": row.isa.to_json(),
            "cold_us": _finite(row.cold_us),
            "device_state": row.sample.to_json(),
            "kernel": kernel_of(run, candidate),
            "best": best is not None and best.id == candidate.id,
            "figures": {figure.place: figure.timed() for figure in figures.of(candidate)},
            "environment": told,
            "run_facts": facts,
            "timings": [_timing(timing) for timing in row.timings],
        }


def _facts(run: RunRow) -> Record:
    """What a run is and came to, the same in each of its records: it makes the run again when it is imported."""
    result = run.result or {}
    speedup = result.get("speedup") or {}
    facts = {
        "kind": run.kind,
        "status": run.status,
        "seed": run.seed,
        "ended": run.ended.isoformat(timespec="seconds") if run.ended else None,
        "space_size": run.space_size,
        "flops": run.problem.get("flops"),
        "bytes": run.problem.get("bytes"),
        "verdict": result.get("verdict"),
        "baseline_us": (result.get("baseline") or {}).get("us"),
        "best_us": (result.get("best") or {}).get("us"),
        **{f"speedup_{name}": speedup.get(name) for name in ("median", "low", "high", "confidence")},
    }
    return {name: value for name, value in facts.items() if value is not None}


def _timing(timing: TimingRow) -> Record:
    return {
        "phase": timing.phase,
        "block": timing.block,
        "us": list(timing.repetitions_us),
        "time": timing.time.isoformat(timespec="microseconds"),
        **({"conditions": timing.conditions.to_json()} if timing.conditions else {}),
    }


def flat_records(records: Iterable[Record]) -> list[Record]:
    """The same with a column for each field of a table."""
    return [_flat(record) for record in records]


def _flat(record: Record) -> Record:
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


def export_csv(records: Iterable[Record]) -> str:
    """The flat records as CSV."""
    flat = flat_records(records)
    text = io.StringIO()
    columns = columns_of(flat)
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(cells(record.get(name, "") for name in columns) for record in flat)
    return text.getvalue()


def export_json(records: Iterable[Record]) -> str:
    """The records as a JSON list, a line each: json takes many times as long to indent them."""
    lines = ",\n".join(map(json.dumps, records))
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def columns_of(records: list[Record]) -> list[str]:
    """The columns that any record has, in the order in which they come; without records those that all have."""
    kinds = dict.fromkeys(tuple(record) for record in records)
    return list(dict.fromkeys(name for names in kinds for name in names)) or list(ALWAYS)


def _finite(value: float | None) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None


def load_results(workspace: str | Path = ".", *, storage: str | None = None, run: str | None = None) -> pd.DataFrame:
    """Every timed candidate of a workspace (or of one run), one a row; knobs are columns `config.…`."""
    with Store.open(storage, workspace=Path(workspace), create=False) as store, store.intact():
        return store.frame(run)
