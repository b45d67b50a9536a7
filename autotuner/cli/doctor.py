"""`autotune doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from autotuner.cli.console import make_console
from autotuner.report.doctor import Finding, examine


def doctor(*, iree_tools: Path | None, as_json: bool, no_color: bool) -> None:
    """Say what is installed, which targets compile, which devices answer, and what to do about the rest."""
    console = make_console(stderr=True, no_color=no_color)
    with console.status("asking the compiler and the devices") if console.is_terminal else console:
        findings = examine(iree_tools)
    if as_json:
        print(json.dumps([f.to_json() for f in findings], indent=2))
    else:
        make_console(no_color=no_color).print(_table(findings))
    if any(f.state == "broken" and f.essential for f in findings):
        raise typer.Exit(5)


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("", "what", "found", "what to do"):
        table.add_column(title, overflow="fold")  # paths are long, and must be readable
    marks = {
        "ok": Text("ok", "green"),
        "warning": Text("note", "yellow"),
        "absent": Text("–", "yellow"),
        "broken": Text("broken", "red"),
    }
    for finding in findings:
        table.add_row(marks[finding.state], finding.what, finding.found, finding.remedy)
    return table
