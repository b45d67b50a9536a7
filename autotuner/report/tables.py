"""Runs and candidates as tables, JSON records and CSV. Reads rows of the results database, nothing else."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from autotuner.iree.isa import NO_FIGURES
from autotuner.store.figures import TOLD, RunFigures, kernel_of
from autotuner.store.store import CandidateRow, RunRow, Store, TimedRow
from autotuner.system.listing import Column, Listing
from autotuner.tuning.printer import VERDICTS, knobs

STATES = {"timed": "", "failed": "red", "duplicate": "dim"}


def history_records(store: Store, limit: int | None = 20) -> list[dict[str, Any]]:
    """The latest runs, newest first, each with its parts; a run that was cut short tells how far it came."""
    return [_history_record(store, run) for run in store.runs(limit, top=True)]


def _history_record(store: Store, run: RunRow) -> dict[str, Any]:
    tally = store.tally(run.id)
    result = run.result or {}
    last = store.verdict(run.id)
    baseline, best = result.get("baseline") or {}, result.get("best") or {}
    return {
        "run": run.id,
        "kind": run.kind,
        "parent": run.parent,
        "started": run.started.isoformat(timespec="seconds"),
        "status": run.status,
        "problem": run.problem.get("name", ""),
        "target": run.target,
        "device": run.device,
        "verdict": result.get("verdict") or (last[0] if last else None),
        "baseline_us": baseline.get("us", tally.baseline_us),
        "best_us": best.get("us", tally.best_us),
        "speedup": result.get("speedup"),
        "asked": tally.asked,
        "timed": tally.timed,
        "failed": tally.failed,
        "spec": result.get("spec"),
        "command": list(run.command),
        "runs": [_history_record(store, part) for part in store.parts(run.id)],
    }


def history_table(store: Store, limit: int | None = 20) -> Listing:
    """Newest run first; the parts of a run are counted, and listed by `autotune history RUN`."""
    return _runs_table(history_records(store, limit))


def _runs_table(records: Sequence[dict[str, Any]]) -> Listing:
    """A run a row."""
    rows = []
    for record in records:
        verdict = record["verdict"] or record["status"]
        when = datetime.fromisoformat(record["started"]).astimezone()
        counts = [str(sum(r[what] for r in (record, *record["runs"]))) for what in ("timed", "failed")]
        rows.append(
            (
                record["run"],
                f"{when:%Y-%m-%d %H:%M}",
                record["problem"],
                f"{record['target']}, {record['device']}",
                Text(verdict, VERDICTS.get(verdict, "")),
                _interval(record["speedup"]),
                _us(record["baseline_us"]),
                _us(record["best_us"]),
                *counts,
                _parts(record),
                record["spec"] or "",
            )
        )
    numbers = [Column(title, right=True) for title in ("default µs", "best µs", "timed", "failed")]
    heads = [Column(title, head=True) for title in ("run", "when", "problem")]
    return Listing.of([*heads, "target, device", "verdict", "speedup", *numbers, "parts", "spec"], rows)


def _parts(record: dict[str, Any]) -> str:
    """`suite of 12 runs: 11 finished, 1 interrupted`; nothing for a run of one problem."""
    states = Counter(part["status"] for part in record["runs"])
    if record["kind"] == "single" and not states:
        return ""
    count = f" of {states.total()} runs: " if states else ""
    return f"{record['kind']}{count}{', '.join(f'{n} {state}' for state, n in states.items())}"


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


def run_tables(store: Store, run: str) -> list[Listing]:
    """A run's own candidates, where it has some, and the runs that are its parts."""
    parts = [_history_record(store, part) for part in store.parts(run)]
    return [
        *([run_table(store, run)] if not parts or store.candidates(run) else []),
        *([_runs_table(parts)] if parts else []),
    ]


def run_table(store: Store, run: str) -> Listing:
    """A run's candidates, fastest first, and after them those that were not timed, with the reason."""
    owner = store.run(run)
    timed = {row.candidate.id: row for row in store.timed(run)}
    isa = store.isa(run)

    def fastest_first(candidate: CandidateRow) -> tuple[bool, float, int]:
        return candidate.us is None, candidate.us or 0.0, candidate.ordinal

    rows = []
    for candidate in sorted(store.candidates(run), key=fastest_first):
        row = timed.get(candidate.id)
        rows.append(
            (
                str(candidate.ordinal),
                candidate.kind,
                candidate.route,
                knobs(candidate.config.as_dict()),
                *((isa.get(candidate.id, NO_FIGURES).summary,) if isa else ()),
                _us(candidate.us),
                f"{row.speedup:.3f}x" if row and row.speedup else "",
                Text(candidate.failure or candidate.state, STATES.get(candidate.state, "")),
            )
        )
    heads = [Column("#", right=True, head=True), *(Column(title, head=True) for title in ("kind", "route"))]
    figures = [Column(title, right=True) for title in ("µs", "speedup")]
    return Listing.of(
        [*heads, "configuration", *(["isa"] if isa else []), *figures, "state"],
        rows,
        title=f"{owner.problem.get('name', '')} on {owner.target} ({run})",
    )


def _finite(value: float | None) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None


def _us(value: float | None) -> str:
    """Four digits: more is noise."""
    if value is None:
        return ""
    return f"{value:.1f}" if value >= 1000 else f"{value:.4g}"


def _interval(speedup: dict[str, Any] | None) -> str:
    """The speedup and, where it is known, its interval."""
    if not speedup or speedup.get("median") is None:
        return ""
    low, high = speedup.get("low"), speedup.get("high")
    interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
    return f"{speedup['median']:.3f}x{interval}"
