"""`autotune export` and `import`: what is stored, for other programs and from other stores."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.cli.console import emit, make_console
from autotuner.cli.lazy import Lazy
from autotuner.errors import UsageError
from autotuner.report.exports import export_csv, export_json, export_records
from autotuner.store.imports import Imported, import_file
from autotuner.store.store import Store
from autotuner.system.collecting import uncollected
from autotuner.system.text import count
from autotuner.system.workspace import write_whole

if TYPE_CHECKING:
    from autotuner.report import parquet, study, t4
else:
    parquet, study, t4 = (Lazy(f"autotuner.report.{name}") for name in ("parquet", "study", "t4"))

FORMS = ("csv", "json", "parquet", "t4", "optuna")
_BINARY = ("parquet", "optuna")


def export(run: str | None, forms: Sequence[str], *, output: Path | None, workspace: Path, storage: str | None) -> None:
    """Prints every timed candidate in one of the forms, or writes it into a file."""
    if len(forms) != 1:
        words = ", ".join(f"--{form}" for form in FORMS)
        raise UsageError(f"export needs one of {words}.", remedy="Choose one.")
    (form,) = forms
    if form == "t4" and run is None:
        raise UsageError("--t4 is a document of one run.", remedy="Name one: `autotune history` lists them.")
    if form in _BINARY and output is None and sys.stdout.isatty():
        raise UsageError(f"--{form} is not for a terminal.", remedy="Name a file with -o FILE.")
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact(), uncollected():
        made = _made(store, run, form)
    if output is not None:
        write_whole(output, made)
    elif isinstance(made, bytes):
        sys.stdout.buffer.write(made)
    else:
        emit(made, end="")


def _made(store: Store, run: str | None, form: str) -> str | bytes:
    if form == "optuna":
        return study.export_studies(store, run)
    if form == "t4" and run is not None:
        return json.dumps(t4.t4_document(store, run), indent=2) + "\n"
    records = export_records(store, run)
    if not records:
        told = (
            f"nothing of run {run} was timed: `autotune history {run}` says why" if run else "no run has timed anything"
        )
        make_console(stderr=True).print(f"note: {told}", soft_wrap=True)
    if form == "csv":
        return export_csv(records)
    return parquet.export_parquet(records) if form == "parquet" else export_json(records)


def import_files(files: Sequence[Path], *, workspace: Path, storage: str | None, as_json: bool) -> None:
    """Takes the runs of other stores into this one; a run that is here already is left alone."""
    with Store.open(storage, workspace=workspace) as store, uncollected():
        found = [import_file(store, file) for file in files]
    total = Imported(*(sum(getattr(one, name) for one in found) for name in ("runs", "candidates", "known")))
    if as_json:
        print(json.dumps(asdict(total)))
    else:
        known = f"; {count(total.known, 'run')} known already" if total.known else ""
        emit(f"imported {count(total.runs, 'run')} with {count(total.candidates, 'candidate')}{known}")
