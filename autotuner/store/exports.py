"""Every timed candidate for other programs: as records, JSON, CSV and a DataFrame."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from autotuner.devices.conditions import Sample
from autotuner.iree.figures import NO_FIGURES
from autotuner.store.figures import RunFigures, kernel_of
from autotuner.store.listing import owners_of, timings_by_candidate
from autotuner.store.reader import Reader
from autotuner.store.rows import CandidateRow, RunRow, TimingRow
from autotuner.system.text import cells

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("run", "parent", "started", "problem", "op", "target", "device", "ordinal", "kind", "route"),
    *("us", "speedup", "error", "failure"),
)
"""The first columns of every record, also of an empty table."""
_NUMBERS = ("us", "speedup", "error", "cold_us")

Record = dict[str, Any]


def export_records(store: Reader, run: str | None = None) -> list[Record]:
    """One object per timed candidate, of one run with its parts or of all, oldest run first."""
    owners = owners_of(store, run)
    environments = store.environments(owner.id for owner in owners)
    return [record for owner in owners for record in _of_run(store, owner, environments.get(owner.id, {}))]


def _of_run(store: Reader, run: RunRow, environment: Mapping[str, Any]) -> list[Record]:
    rows = [row for row in store.candidates(run.id) if row.us is not None]
    isa, timings = store.isa(run.id), timings_by_candidate(store, run.id)
    right = tuple(row for row in rows if row.state != "failed")
    figures = RunFigures(run, environment, right, lambda candidate: timings.get(candidate, []))
    baseline = min((row.us for row in rows if row.kind == "baseline" and row.us), default=None)
    best, facts = figures.best, _facts(run)
    return [
        {
            **_plain(run, row, baseline),
            "cold_us": _cold(timings.get(row.id, [])),
            "kernel": kernel_of(run, row),
            "best": best is not None and best.id == row.id,
            "config": row.config.as_dict(),
            "isa": isa.get(row.id, NO_FIGURES).to_json(),
            "device_state": _state(timings.get(row.id, [])),
            "environment": figures.told,
            "run_facts": facts,
            "figures": {one.place: one.timed() for one in figures.of(row)},
            "timings": [_timing(one) for one in timings.get(row.id, [])],
        }
        for row in rows
    ]


def _plain(run: RunRow, row: CandidateRow, baseline: float | None) -> Record:
    told = (
        *(run.id, run.parent, run.started.isoformat(timespec="seconds")),
        *(run.problem.get("name", ""), run.problem.get("op", ""), run.target, run.device),
        *(row.ordinal, row.kind, row.route, _finite(row.us)),
        *(baseline / row.us if baseline and row.us else None, _finite(row.error), row.failure),
    )
    return dict(zip(COLUMNS, told, strict=True))


def _finite(value: float | None) -> float | None:
    """The number, or None for NaN and infinity, which JSON lacks."""
    return value if value is not None and math.isfinite(value) else None


def _cold(timings: Sequence[TimingRow]) -> float | None:
    """The median µs with a cold cache; None: not timed so."""
    found = [median(timing.repetitions_us) for timing in timings if timing.phase == "cold"]
    return median(found) if found else None


def _state(timings: Sequence[TimingRow]) -> Record:
    """The median state of the device after its timings."""
    return Sample.middle(timing.conditions.after for timing in timings if timing.conditions is not None).to_json()


def _facts(run: RunRow) -> Record:
    """The facts of a run, repeated in each record: an import restores the run from them."""
    result = run.result or {}
    speedup = result.get("speedup") or {}
    found = {
        **{name: getattr(run, name) for name in ("kind", "status", "seed", "space_size")},
        "ended": run.ended and run.ended.isoformat(timespec="seconds"),
        **{name: run.problem.get(name) for name in ("flops", "bytes")},
        "verdict": result.get("verdict"),
        "state": (result.get("timing") or {}).get("state"),
        **{f"{side}_us": (result.get(side) or {}).get("us") for side in ("baseline", "best")},
        **{f"speedup_{name}": speedup.get(name) for name in ("median", "low", "high", "confidence")},
    }
    return {name: value for name, value in found.items() if value is not None}


def _timing(timing: TimingRow) -> Record:
    """One measurement."""
    plain = {"phase": timing.phase, "block": timing.block, "us": list(timing.repetitions_us)}
    known = {"conditions": timing.conditions.to_json()} if timing.conditions is not None else {}
    return {**plain, "time": timing.time.isoformat(timespec="microseconds"), **known}


def _flat(record: Mapping[str, Any]) -> Record:
    """A record with a column for each field of a table (`config.tile`), and lists as JSON."""
    flat: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{field}": one for field, one in _flat(value).items()}
        else:
            flat[name] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _columns_of(flat: Sequence[Record]) -> list[str]:
    """The columns of all records, in order of appearance."""
    kinds = dict.fromkeys(tuple(record) for record in flat)
    return list(dict.fromkeys((*COLUMNS, *(name for names in kinds for name in names))))


def export_csv(records: Iterable[Record]) -> str:
    """CSV with a row for each record, and a column for each field of a table."""
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

    flat = [_flat(record | {"timings": None}) for record in export_records(store, run)]
    columns: Record = {name: [one.get(name) for one in flat] for name in _columns_of(flat) if name != "timings"}
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
