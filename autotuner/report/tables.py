"""Runs and candidates as tables, JSON records and CSV. Reads rows of the results database, nothing else."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from autotuner.iree.isa import NO_FIGURES
from autotuner.store.store import CandidateRow, RunRow, Store, TimedRow
from autotuner.system.text import printable

STATES = {"timed": "", "failed": "red", "duplicate": "dim"}
VERDICTS = {
    "win": "bold green",
    "no-winner": "bold yellow",
    "inconclusive": "yellow",
    "failed": "red",
    "interrupted": "yellow",
}


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


def history_table(store: Store, limit: int | None = 20) -> Table:
    """Newest run first; the parts of a run are counted, and listed by `autotune history RUN`."""
    return _runs_table(history_records(store, limit))


def _runs_table(records: Sequence[dict[str, Any]]) -> Table:
    """Facts share a cell, one above the other, so that a run fits 80 columns."""
    table = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("run\nwhen", no_wrap=True)
    table.add_column("problem\ntarget, device\nspec", overflow="fold")
    table.add_column("verdict\nspeedup\ninterval", no_wrap=True)
    table.add_column("baseline\nbest µs", no_wrap=True, justify="right")
    table.add_column("timed\nfailed", no_wrap=True, justify="right")
    for record in records:
        verdict = record["verdict"] or record["status"]
        when = datetime.fromisoformat(record["started"]).astimezone()
        where = f"{record['target']}, {record['device']}"
        parts = record["runs"]
        table.add_row(
            _lines(record["run"], f"{when:%Y-%m-%d %H:%M}"),
            _lines(record["problem"], where, *_parts(record), *([record["spec"]] if record["spec"] else [])),
            _lines(verdict, *_interval(record["speedup"]), style=VERDICTS.get(verdict, "")),
            _lines(_us(record["baseline_us"]), _us(record["best_us"])),
            _lines(*(str(sum(r[what] for r in (record, *parts))) for what in ("timed", "failed"))),
        )
    return table


def _parts(record: dict[str, Any]) -> list[str]:
    """`suite of 12 runs: 11 finished, 1 interrupted`; nothing for a run of one problem."""
    states = Counter(part["status"] for part in record["runs"])
    if record["kind"] == "single" and not states:
        return []
    count = f" of {states.total()} runs: " if states else ""
    return [f"{record['kind']}{count}{', '.join(f'{n} {state}' for state, n in states.items())}"]


def _lines(first: str, *others: str, style: str = "") -> Text:
    """A cell whose first line stands out. Text, not markup: names may hold brackets, and line ends of their own."""
    return Text.assemble((printable(first), style), *(f"\n{printable(other)}" for other in others))


def export_records(store: Store, run: str | None = None) -> list[dict[str, Any]]:
    """One object per timed candidate, of one run or of all."""
    return [_export_record(row) for row in store.timed(run)]


def _export_record(row: TimedRow) -> dict[str, Any]:
    run, candidate = row.run, row.candidate
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
    }


def export_csv(store: Store, run: str | None = None) -> str:
    """The same as CSV; what is a table there are columns that begin with its name, `config.` and the like."""
    records = []
    for record in export_records(store, run):
        parts = {part: record.pop(part) for part in ("config", "isa", "device_state")}
        flat = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        records.append(record | flat)
    text = io.StringIO()
    columns = list(dict.fromkeys(name for record in records for name in record))
    table = csv.DictWriter(text, columns, lineterminator="\n")
    if columns:
        table.writeheader()
    table.writerows(records)
    return text.getvalue()


def run_tables(store: Store, run: str) -> list[Table]:
    """A run's own candidates, where it has some, and the runs that are its parts."""
    parts = [_history_record(store, part) for part in store.parts(run)]
    return [
        *([run_table(store, run)] if not parts or store.candidates(run) else []),
        *([_runs_table(parts)] if parts else []),
    ]


def run_table(store: Store, run: str) -> Table:
    """A run's candidates, fastest first, and after them those that were not timed, with the reason."""
    owner = store.run(run)
    timed = {row.candidate.id: row for row in store.timed(run)}
    isa = store.isa(run)
    title = f"{owner.problem.get('name', '')} on {owner.target} ({run})"
    table = Table(box=None, header_style="bold", pad_edge=False, title=Text(printable(title)), title_justify="left")
    table.add_column("#", justify="right")
    for name in ("kind", "route", "configuration"):
        table.add_column(name, overflow="fold")
    if isa:
        table.add_column("isa", overflow="fold")
    table.add_column("µs", justify="right")
    table.add_column("speedup", justify="right")
    table.add_column("state", overflow="fold")

    def fastest_first(candidate: CandidateRow) -> tuple[bool, float, int]:
        return candidate.us is None, candidate.us or 0.0, candidate.ordinal

    for candidate in sorted(store.candidates(run), key=fastest_first):
        row = timed.get(candidate.id)
        config = ", ".join(f"{knob}={value}" for knob, value in candidate.config.items)
        table.add_row(
            str(candidate.ordinal),
            Text(printable(candidate.kind)),
            Text(printable(candidate.route)),
            Text(printable(config)),
            *((isa.get(candidate.id, NO_FIGURES).summary,) if isa else ()),
            _us(candidate.us),
            f"{row.speedup:.3f}x" if row and row.speedup else "",
            Text(printable(candidate.failure or candidate.state), style=STATES.get(candidate.state, "")),
        )
    return table


def _finite(value: float | None) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return value if value is not None and math.isfinite(value) else None


def _us(value: float | None) -> str:
    """Four digits: more is noise."""
    if value is None:
        return ""
    return f"{value:.1f}" if value >= 1000 else f"{value:.4g}"


def _interval(speedup: dict[str, Any] | None) -> list[str]:
    """The speedup and, where it is known, its interval."""
    if not speedup or speedup.get("median") is None:
        return []
    low, high = speedup.get("low"), speedup.get("high")
    interval = [] if low is None or high is None else [f"[{low:.3f}, {high:.3f}]"]
    return [f"{speedup['median']:.3f}x", *interval]
