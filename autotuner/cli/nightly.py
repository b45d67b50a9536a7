"""`autotune nightly`: a night's run, its page, and the exit code that a timer or a build server reads."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import typer

from autotuner.cli.console import emit, make_console, make_reporter, show
from autotuner.errors import UsageError
from autotuner.jobs.nightly import history
from autotuner.jobs.nightly.plan import Plan, read_plan
from autotuner.jobs.nightly.run import command_line, due, run_night, tonight
from autotuner.report.compare.rules import find_rule
from autotuner.report.nightly.night import Night, look_at
from autotuner.report.nightly.page import page
from autotuner.system.listing import Column, Listing
from autotuner.system.locks import file_lock
from autotuner.system.workspace import Workspace, write_whole


def run_nightly(
    file: Path, *, everything: bool, only_page: bool, dry_run: bool, as_json: bool, quiet: bool, no_color: bool
) -> None:
    """One night, and the exit code of what it came to."""
    if sum((everything, only_page, dry_run)) > 1 and not (everything and dry_run):
        raise UsageError("--page runs nothing.", remedy="Leave the other option out.")
    plan = read_plan(file)
    try:
        find_rule(plan.limits.rule, percent=plan.limits.threshold)
    except UsageError as error:
        raise UsageError(f"{file}: [compare]: {error.message}", remedy=error.remedy) from error
    if dry_run:
        _list(plan, everything=everything, as_json=as_json, no_color=no_color)
        return
    Workspace.open(plan.workspace)
    lock = plan.history.with_suffix(".lock")
    with file_lock(lock, what=f"the nightly file {file}", remedy="wait for it."):
        if not only_page:
            reporter = make_reporter(make_console(stderr=True, no_color=no_color), quiet=quiet)
            with reporter as told:
                run_night(plan, reporter=told, everything=everything, after_part=lambda: _write(plan))
        night = _write(plan)
    if as_json:
        print(json.dumps(night.to_json(), indent=2))
    else:
        _print(night)
    raise typer.Exit(night.exit_code)


def _write(plan: Plan) -> Night:
    """The page is up to date after every part: whoever looks in the night sees how far it is."""
    night = look_at(plan, history.read(plan.history))
    write_whole(plan.page, page(night))
    return night


def _print(night: Night) -> None:
    emit(f"verdict  {night.verdict}")
    emit(f"night    {night.night or 'none yet'}, {len(night.trends.nights)} in all")
    for one, change in night.alarms:
        emit(f"alarm    {one.name}: {change.words}")
    for part in night.parts:
        emit(f"part     {part.part}: {part.status}{f', {part.reason}' if part.reason else ''}")
    for note in night.notes:
        emit(f"note     {note}")
    emit(f"page     {night.plan.page}")


def _list(plan: Plan, *, everything: bool, as_json: bool, no_color: bool) -> None:
    parts = due(plan, history.read(plan.history), tonight(), everything=everything)
    if as_json:
        lines = [
            {"part": one.part.name, "due": one.due, "last": one.last, "command": command_line(plan, one.part)}
            for one in parts
        ]
        print(json.dumps(lines, indent=2))
        return
    rows = [
        (one.part.name, "due" if one.due else "", one.last or "never", shlex.join(command_line(plan, one.part)))
        for one in parts
    ]
    show(make_console(no_color=no_color), Listing.of([Column("part", head=True), "due", "last", "command"], rows))
