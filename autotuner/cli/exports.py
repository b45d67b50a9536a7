"""`autotune export`: what is stored, for other programs."""

from __future__ import annotations

import json
from pathlib import Path

from autotuner.cli.console import emit
from autotuner.errors import UsageError
from autotuner.report.exports import export_csv, export_records
from autotuner.store.store import Store


def export(run: str | None, *, as_csv: bool, as_json: bool, workspace: Path, storage: str | None) -> None:
    """Print every timed candidate: --json (a list of objects) or --csv."""
    if as_csv == as_json:
        raise UsageError("export needs one of --csv and --json.", remedy="Choose one.")
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        if as_csv:
            emit(export_csv(store, run), end="")
        else:
            print(json.dumps(export_records(store, run), indent=2))
