"""Runs and candidates as records and tables. Reads rows of the results database, nothing else.

One query for all runs: a store has thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from autotuner.iree.figures import Isa
from autotuner.report.tables import Field, Table, error, interval, us
from autotuner.store.listing import runs_below, tallies_of
from autotuner.store.reader import ALL_RUNS, Reader, RunFilter
from autotuner.store.rows import NO_CANDIDATES, CandidateRow, RunRow, Tally
from autotuner.system.text import count

MOST = 1000
"""Candidates of a run in a table: the fastest."""

Record = dict[str, Any]


def history_records(store: Reader, limit: int | None = 20, *, which: RunFilter = ALL_RUNS) -> list[Record]:
    """The latest of these runs, newest first, each with its parts.

    With a filter by problem, parts of other runs are listed too.
    """
    return run_records(store, store.runs(limit, top=not which.names_problem, which=which))


def run_records(store: Reader, runs: Sequence[RunRow]) -> list[Record]:
    """These runs, each with its parts."""
    parts = runs_below(store, (run.id for run in runs))
    known = {run.id: run for group in (runs, *parts.values()) for run in group}
    tallies = tallies_of(store, known)

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
    """A column of times."""
    return Field(title, lambda record: "" if record[name] is None else us(float(record[name])), "number")


def _total(what: str) -> Field:
    """Its parts included."""
    return Field(what, lambda record: str(sum(one[what] for one in (record, *record["runs"]))), "number")


_FIELDS = (
    Field("run", "run", link="#run-", head=True),
    Field("when", _when, "brief", head=True),
    Field("problem", "problem", head=True),
    Field("target, device", lambda record: f"{record['target']}, {record['device']}"),
    Field("verdict", _verdict, "badge"),
    Field("speedup", lambda record: interval(record["speedup"], unit="x"), "number"),
    _us("default µs", "baseline_us"),
    _us("best µs", "best_us"),
    _total("timed"),
    _total("failed"),
    Field("parts", lambda record: _parts(record)),
    Field("spec", "spec"),
)


def runs_table(records: Sequence[Record], caption: str = "") -> Table:
    """A run a row, its parts counted; `autotune history RUN` lists them."""
    return Table.of(caption, records, _FIELDS)


def _parts(record: Record) -> str:
    """`suite of 12 runs: 11 finished, 1 interrupted`; nothing for a run of one problem."""
    states = Counter(part["status"] for part in record["runs"])
    if record["kind"] == "single" and not states:
        return ""
    of = f" of {count(states.total(), 'run')}: " if states else ""
    return f"{record['kind']}{of}{', '.join(f'{n} {state}' for state, n in states.items())}"


# --- one run ---------------------------------------------------------------------------------------------------------


def run_tables(store: Reader, run: str) -> list[Table]:
    """A run's own candidates, where it has some, and the runs that are its parts."""
    parts = run_records(store, store.parts(run))
    return [
        *([run_table(store, run)] if not parts or store.candidates(run) else []),
        *([runs_table(parts)] if parts else []),
    ]


def run_table(store: Reader, run: str) -> Table:
    """A run's candidates."""
    return candidates_table(store.run(run), store.candidates(run), store.isa(run))


def candidates_table(
    run: RunRow, candidates: Sequence[CandidateRow], isa: Mapping[int, Isa], *, ratios: bool = True
) -> Table:
    """The fastest first, then what was not timed, with the reason. `ratios`: with the search's speedups."""
    from autotuner.measure.reference import DEFAULT  # imported where they are used: lists of runs need not wait
    from autotuner.tuning.printer import knobs

    ranked = sorted(candidates, key=lambda row: (row.us is None, row.us or 0.0, row.ordinal))
    default = next((row for row in candidates if row.kind == "baseline"), None)

    def speedup(row: CandidateRow) -> str:
        return f"{default.us / row.us:.3f}x" if default and default.us and row.us else ""

    fields = [
        Field("#", lambda row: str(row.ordinal), "number", head=True),
        Field("kind", lambda row: row.kind, head=True),
        Field("route", lambda row: row.route, head=True),
        Field("configuration", lambda row: knobs(row.config.as_dict()), "long"),
        *([Field("isa", lambda row: isa[row.id].summary if row.id in isa else "")] if isa else []),
        Field("µs", lambda row: us(row.us), "number"),
        *([Field("speedup", speedup, "number")] if ratios else []),
        Field("error", lambda row: error(row.error), "number"),
        Field("state", lambda row: row.failure or row.state, "badge"),
    ]
    title = f"{run.problem.get('name', '')} on {run.target} ({run.id})"
    title += f": {DEFAULT} gives wrong results" if default and default.state == "timed" and default.failure else ""
    more = f"; the first {MOST} of {len(ranked)}: `autotune export --csv {run.id}` has all"
    return Table.of(f"{title}{more if len(ranked) > MOST else ''}", ranked[:MOST], fields)
