"""`autotune doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.text import Text

from autotuner.cli.console import make_console, show
from autotuner.report.doctor import Finding, examine
from autotuner.system.listing import Column, Listing


def doctor(*, iree_tools: Path | None, as_json: bool, no_color: bool) -> None:
    """Say what is installed, which targets compile, which devices answer, and what to do about the rest."""
    console = make_console(stderr=True, no_color=no_color)
    with console.status("asking the compiler and the devices") if console.is_terminal else console:
        findings = examine(iree_tools)
    if as_json:
        print(json.dumps([f.to_json() for f in findings], indent=2))
    else:
        show(make_console(no_color=no_color), _table(findings))
    if any(f.state == "broken" and f.essential for f in findings):
        raise typer.Exit(5)


def _table(findings: list[Finding]) -> Listing:
    marks = {
        "ok": Text("ok", "green"),
        "warning": Text("note", "yellow"),
        "absent": Text("–", "yellow"),
        "broken": Text("broken", "red"),
    }
    rows = [(marks[finding.state], finding.what, finding.found, finding.remedy) for finding in findings]
    return Listing.of([Column("", head=True), Column("what", head=True), "found", "what to do"], rows)
