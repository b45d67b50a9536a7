"""Runs as records and tables, and how one problem did over time. Reads rows of the results database, nothing else.

A question for all runs together, never one for each: a store has thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from autotuner.store.filters import ALL_RUNS, RunFilter
from autotuner.store.rows import NO_CANDIDATES, RunRow, Tally
from autotuner.store.store import Store
from autotuner.system.listing import Column, Listing
from autotuner.system.text import count
from autotuner.tuning.styles import VERDICTS

VERDICT_WORDS = ("win", "no-winner", "inconclusive", "compile-only", "measured", "failed", "interrupted", "running")
"""What the column of this name may have: a verdict (a bench only measures), or how a run ended that has none."""
_BAR = 20
"""Characters of the longest bar of a trend."""

Record = dict[str, Any]


def history_records(store: Store, limit: int | None = 20, *, which: RunFilter = ALL_RUNS) -> list[Record]:
    """The latest of these runs, newest first, each with its parts; a run that was cut short tells how far it came.

    Parts of others are listed where a problem is asked for: it is meant wherever it was tuned.
    """
    return run_records(store, store.runs(limit, top=not which.names_problem, which=which))


def listed_records(store: Store, limit: int | None = 20, *, which: RunFilter = ALL_RUNS) -> list[Record]:
    """The same as `runs_table` needs them: of the parts, of which a suite has thousands, only how far they are."""
    return brief_records(store, store.runs(limit, top=not which.names_problem, which=which))


def brief_records(store: Store, runs: Sequence[RunRow]) -> list[Record]:
    """These runs; of their parts how far they are."""
    parts = store.part_states(run.id for run in runs)
    own = {run.id for run in runs}
    tallies = store.tallies(own.union(*parts.values()))
    said = store.verdicts(run.id for run in runs if not (run.result or {}).get("verdict"))

    def part(name: str, status: str) -> Record:
        tally = tallies.get(name, NO_CANDIDATES).own
        return {"status": status, "timed": tally.timed, "failed": tally.failed}

    return [
        {
            **_record(run, tallies.get(run.id, NO_CANDIDATES).own, said.get(run.id)),
            "runs": [part(name, status) for name, status in parts.get(run.id, {}).items() if name != run.id],
        }
        for run in runs
    ]


def run_records(store: Store, runs: Sequence[RunRow]) -> list[Record]:
    """These runs, each with its parts."""
    parts = store.below(run.id for run in runs)
    known = {run.id: run for group in (runs, *parts.values()) for run in group}
    tallies = store.tallies(known)
    said = store.verdicts(name for name, run in known.items() if not (run.result or {}).get("verdict"))

    def record(run: RunRow, *, above: Collection[str] = ()) -> Record:
        own = _record(run, tallies.get(run.id, NO_CANDIDATES).own, said.get(run.id))
        path = {*above, run.id}
        below = [part for part in parts.get(run.id, ()) if part.id not in path]
        return {**own, "runs": [record(part, above=path) for part in below]}

    return [record(run) for run in runs]


def _record(run: RunRow, tally: Tally, said: str | None) -> Record:
    result = run.result or {}
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
        "verdict": result.get("verdict") or said,
        "default_is_right": (result.get("reference") or {}).get("default_is_right"),
        "baseline_us": baseline.get("us", tally.baseline_us),
        "best_us": best.get("us", tally.best_us),
        "speedup": result.get("speedup"),
        "asked": tally.asked,
        "timed": tally.timed,
        "failed": tally.failed,
        "spec": result.get("spec"),
        "command": list(run.command),
    }


def runs_table(records: Sequence[Record]) -> Listing:
    """A run a row, its parts counted; `autotune history RUN` lists them."""
    rows = []
    for record in records:
        counts = [str(sum(r[what] for r in (record, *record["runs"]))) for what in ("timed", "failed")]
        rows.append(
            (
                record["run"],
                _when(record),
                record["problem"],
                f"{record['target']}, {record['device']}",
                _verdict(record),
                _interval(record["speedup"]),
                in_us(record["baseline_us"]),
                in_us(record["best_us"]),
                *counts,
                _parts(record),
                record["spec"] or "",
            )
        )
    numbers = [Column(title, right=True) for title in ("default µs", "best µs", "timed", "failed")]
    heads = [Column(title, head=True) for title in ("run", "when", "problem")]
    return Listing.of([*heads, "target, device", "verdict", "speedup", *numbers, "parts", "spec"], rows)


def _parts(record: Record) -> str:
    """`suite of 12 runs: 11 finished, 1 interrupted`; nothing for a run of one problem."""
    states = Counter(part["status"] for part in record["runs"])
    if record["kind"] == "single" and not states:
        return ""
    of = f" of {count(states.total(), 'run')}: " if states else ""
    return f"{record['kind']}{of}{', '.join(f'{n} {state}' for state, n in states.items())}"


def trend_records(store: Store, limit: int | None, *, which: RunFilter) -> list[Record]:
    """The runs of each problem on each device, oldest first, with what changed from one to the next.

    `change` is the best time over that of the run before it: below 1 is faster.
    """
    runs = store.runs(limit, which=which)[::-1]
    environments = store.environments(run.id for run in runs)
    series: dict[tuple[str, ...], list[Record]] = {}
    for run, record in zip(runs, brief_records(store, runs), strict=True):
        where = environments.get(run.id, {})
        key = (record["problem"], run.target, run.device, str(where.get("device_name") or ""))
        points = series.setdefault(key, [])
        points.append({**_point(record, where), "change": _change(record["best_us"], points)})
    return [
        {**dict(zip(("problem", "target", "device", "device_name"), key, strict=True)), "runs": points}
        for key, points in series.items()
    ]


def _point(record: Record, where: Mapping[str, Any]) -> Record:
    names = ("run", "parent", "started", "verdict", "default_is_right", "status", "baseline_us", "best_us", "speedup")
    return {**{name: record[name] for name in names}, "iree": where.get("iree"), "driver": where.get("driver") or None}


def _change(best: float | None, before: Sequence[Record]) -> float | None:
    last = next((point["best_us"] for point in reversed(before) if point["best_us"]), None)
    return best / last if best and last else None


def trend_table(series: Record) -> Listing:
    """A run a row, oldest first; the bar is the best time, beside the longest of them."""
    longest = max((point["best_us"] or 0.0 for point in series["runs"]), default=0.0)
    rows = [
        (
            _when(point),
            point["run"],
            point["iree"] or "",
            _verdict(point),
            in_us(point["baseline_us"]),
            in_us(point["best_us"]),
            "" if point["change"] is None else f"{(point['change'] - 1) * 100:+.1f} %",
            _interval(point["speedup"]),
            "█" * round(_BAR * (point["best_us"] or 0.0) / longest) if longest else "",
        )
        for point in series["runs"]
    ]
    numbers = [Column(title, right=True) for title in ("default µs", "best µs", "change")]
    heads = [Column(title, head=True) for title in ("when", "run")]
    device = series["device_name"] or series["device"]
    title = f"{series['problem']} on {series['target']} ({device})"
    return Listing.of([*heads, "IREE", "verdict", *numbers, "speedup", "best"], rows, title=title)


def in_us(value: float | None) -> str:
    """Four digits: more is noise."""
    if value is None:
        return ""
    return f"{value:.1f}" if value >= 1000 else f"{value:.4g}"


def _when(record: Record) -> str:
    return f"{datetime.fromisoformat(record['started']).astimezone():%Y-%m-%d %H:%M}"


def _verdict(record: Record) -> Text:
    verdict = record["verdict"] or record["status"]
    found = Text(verdict, VERDICTS.get(verdict, ""))
    return found.append(", default is wrong", "red") if record["default_is_right"] is False else found


def _interval(speedup: Mapping[str, Any] | None) -> str:
    """The speedup and, where it is known, its interval."""
    if not speedup or speedup.get("median") is None:
        return ""
    low, high = speedup.get("low"), speedup.get("high")
    interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
    return f"{speedup['median']:.3f}x{interval}"
