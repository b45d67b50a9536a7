"""`autotune history`, `export` and `cache`: what is stored."""

from __future__ import annotations

import json
from pathlib import Path

from autotuner.cli.console import emit, make_console, show
from autotuner.errors import UsageError
from autotuner.report.tables import export_csv, export_records, history_records, history_table, run_tables
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir

MOST_RUNS = 2**31 - 1
"""More than a database can be asked for means all."""


def history(
    run: str | None, *, limit: int, workspace: Path, storage: str | None, as_json: bool, no_color: bool
) -> None:
    """List the runs of this workspace, or one run's candidates and parts."""
    if limit < 1:
        raise UsageError(f"--limit {limit} is not positive.", remedy="Give --limit 1 or more.")
    limit = min(limit, MOST_RUNS)
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        if as_json:
            records = history_records(store, limit) if run is None else export_records(store, run)
            print(json.dumps(records, indent=2))
        else:
            console = make_console(no_color=no_color)
            for table in [history_table(store, limit)] if run is None else run_tables(store, run):
                show(console, table)


def export(run: str | None, *, as_csv: bool, as_json: bool, workspace: Path, storage: str | None) -> None:
    """Print every timed candidate: --json (a list of objects) or --csv."""
    if as_csv == as_json:
        raise UsageError("export needs one of --csv and --json.", remedy="Choose one.")
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        if as_csv:
            emit(export_csv(store, run), end="")
        else:
            print(json.dumps(export_records(store, run), indent=2))


def cache(*, clear: bool, as_json: bool) -> None:
    """Show the build cache, or empty it."""
    store = Cache(cache_dir())
    if clear:
        store.clear()
    entries, size = store.size()
    if as_json:
        print(json.dumps({"path": str(store.root), "builds": entries, "bytes": size}))
    else:
        emit(f"{store.root}: {entries} builds, {size / 2**20:.1f} MiB")
