"""Every timed candidate as JSON records and as CSV. Reads rows of the results database, nothing else."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from autotuner.store.figures import TOLD, RunFigures, kernel_of
from autotuner.store.store import Store, TimedRow


def export_records(store: Store, run: str | None = None) -> list[dict[str, Any]]:
    """One object per timed candidate, of one run or of all."""
    known: dict[str, RunFigures] = {}
    records = []
    for row in store.timed(run):
        if row.run.id not in known:
            known[row.run.id] = RunFigures.read(store, row.run)
        records.append(_export_record(row, known[row.run.id]))
    return records


def _export_record(row: TimedRow, figures: RunFigures) -> dict[str, Any]:
    run, candidate, best = row.run, row.candidate, figures.best
    return {
        "run": run.id,
        "parent": run.parent,
        "started": run.started.isoformat(timespec="seconds"),
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
        "environment": {name: figures.environment[name] for name in TOLD if name in figures.environment},
    }


def export_csv(store: Store, run: str | None = None) -> str:
    """The same as CSV; what is a table there are columns that begin with its name, `config.` and the like."""
    records = []
    for record in export_records(store, run):
        parts = {part: record.pop(part) for part in ("config", "isa", "device_state", "environment")}
        figures = record.pop("figures").items()
        parts["figures"] = {f"{place}.{name}": value for place, timed in figures for name, value in timed.items()}
        flat = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        records.append(record | flat)
    text = io.StringIO()
    columns = list(dict.fromkeys(name for record in records for name in record))
    table = csv.DictWriter(text, columns, lineterminator="\n")
    if columns:
        table.writeheader()
    table.writerows(records)
    return text.getvalue()


def _finite(value: float | None) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None
