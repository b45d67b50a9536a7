"""Runs as records and tables, and how one problem did over time. Reads rows of the results database, nothing else.

A question for all runs together, never one for each: a store has thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from autotuner.report.tables import Field, Table, interval, us
from autotuner.store.queries import ALL_RUNS, RunFilter
from autotuner.store.rows import NO_CANDIDATES, CandidateRow, RunRow, Tally
from autotuner.store.store import Store
from autotuner.system.text import count

VERDICT_WORDS = ("win", "no-winner", "inconclusive", "compile-only", "measured", "failed", "interrupted", "running")
"""What the column of this name may have: a verdict (a bench only measures), or how a run ended that has none."""
MOST = 1000
"""Candidates of a run in a table: the fastest."""
_BAR = 20
"""Characters of the longest bar of a trend."""

Record = dict[str, Any]


def history_records(store: Store, limit: int | None = 20, *, which: RunFilter = ALL_RUNS) -> list[Record]:
    """The latest of these runs, newest first, each with its parts; a run that was cut short tells how far it came.

    Parts of others are listed where a problem is asked for: it is meant wherever it was tuned.
    """
    return run_records(store, store.runs(limit, top=not which.names_problem, which=which))


def run_records(store: Store, runs: Sequence[RunRow]) -> list[Record]:
    """These runs, each with its parts."""
    parts = store.below(run.id for run in runs)
    known = {run.id: run for group in (runs, *parts.values()) for run in group}
    tallies = store.tallies(known)

    def record(run: RunRow, *, above: Collection[str] = ()) -> Record:
        own = _record(run, tallies.get(run.id, NO_CANDIDATES))
        path = {*above, run.id}
        below = [part for part in parts.get(run.id, ()) if part.id not in path]
        return {**own, "runs": [record(part, above=path) for part in below]}

    return [record(run) for run in runs]


def _record(run: RunRow, tally: Tally) -> Record:
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
        "verdict": result.get("verdict"),
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


def _when(record: Record) -> str:
    return f"{datetime.fromisoformat(record['started']).astimezone():%Y-%m-%d\n%H:%M}"


def _verdict(record: Record) -> str:
    wrong = ", default is wrong" if record["default_is_right"] is False else ""
    return f"{record['verdict'] or record['status']}{wrong}"


def _us(title: str, name: str) -> Field:
    """What is no number there is the database's fault."""
    return Field(title, lambda record: "" if record[name] is None else us(float(record[name])), "number")


def _total(what: str) -> Field:
    """With those of its parts."""
    return Field(what, lambda record: str(sum(one[what] for one in (record, *record["runs"]))), "number")


_RUN = Field("run", "run", link="#run-", head=True)
_WHEN = Field("when", _when, "brief", head=True)
_VERDICT = Field("verdict", _verdict, "badge")
_SPEEDUP = Field("speedup", lambda record: interval(record["speedup"], unit="x"), "number")
_TIMES = (_us("default µs", "baseline_us"), _us("best µs", "best_us"))
_FIELDS = (
    _RUN,
    _WHEN,
    Field("problem", "problem", head=True),
    Field("target, device", lambda record: f"{record['target']}, {record['device']}"),
    _VERDICT,
    _SPEEDUP,
    *_TIMES,
    _total("timed"),
    _total("failed"),
)


def runs_table(records: Sequence[Record]) -> Table:
    """A run a row, its parts counted; `autotune history RUN` lists them."""
    return Table.of("", records, (*_FIELDS, Field("parts", _parts), Field("spec", "spec")))


def overview_table(records: Sequence[Record]) -> Table:
    """The same on a page, which has the rest below."""
    return Table.of("Runs", records, (*_FIELDS, Field("kind", "kind")))


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
    for run, record in zip(runs, run_records(store, runs), strict=True):
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


def trend_table(series: Record) -> Table:
    """A run a row, oldest first; the bar is the best time, beside the longest of them."""
    longest = max((point["best_us"] or 0.0 for point in series["runs"]), default=0.0)

    def change(point: Record) -> str:
        return "" if point["change"] is None else f"{(point['change'] - 1) * 100:+.1f} %"

    def bar(point: Record) -> str:
        return "█" * round(_BAR * (point["best_us"] or 0.0) / longest) if longest else ""

    times = (*_TIMES, Field("change", change, "number"))
    fields = (_WHEN, _RUN, Field("IREE", "iree"), _VERDICT, *times, _SPEEDUP, Field("best", bar))
    title = f"{series['problem']} on {series['target']} ({series['device_name'] or series['device']})"
    return Table.of(title, series["runs"], fields)


# --- one run ---------------------------------------------------------------------------------------------------------


def run_tables(store: Store, run: str) -> list[Table]:
    """A run's own candidates, where it has some, and the runs that are its parts."""
    parts = run_records(store, store.parts(run))
    return [
        *([run_table(store, run)] if not parts or store.candidates(run) else []),
        *([runs_table(parts)] if parts else []),
    ]


def run_table(store: Store, run: str) -> Table:
    """A run's candidates, fastest first, and after them those that were not timed, with the reason."""
    from autotuner.measure.reference import DEFAULT  # imported where they are used: lists of runs need not wait
    from autotuner.tuning.printer import knobs

    owner, tally, isa = store.run(run), store.tally(run), store.isa(run)
    ranked = sorted(store.candidates(run), key=lambda row: (row.us is None, row.us or 0.0, row.ordinal))
    candidates = ranked[:MOST]

    def speedup(row: CandidateRow) -> str:
        return f"{tally.baseline_us / row.us:.3f}x" if tally.baseline_us and row.us else ""

    fields = [
        Field("#", lambda row: str(row.ordinal), "number", head=True),
        Field("kind", lambda row: row.kind, head=True),
        Field("route", lambda row: row.route, head=True),
        Field("configuration", lambda row: knobs(row.config.as_dict())),
        *([Field("isa", lambda row: isa[row.id].summary if row.id in isa else "")] if isa else []),
        Field("µs", lambda row: us(row.us), "number"),
        Field("speedup", speedup, "number"),
        Field("state", lambda row: row.failure or row.state, "badge"),
    ]
    wrong = any(row.kind == "baseline" and row.state == "timed" and row.failure for row in candidates)
    title = f"{owner.problem.get('name', '')} on {owner.target} ({run})"
    title += f": {DEFAULT} gives wrong results" if wrong else ""
    title += f"; the first {MOST} of {len(ranked)}: `autotune export --csv {run}` has all" if len(ranked) > MOST else ""
    return Table.of(title, candidates, fields)
