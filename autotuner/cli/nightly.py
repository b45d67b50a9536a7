"""`autotune nightly`: a night's run, its page, and the exit code that a timer or a build server reads."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.errors import UsageError

if TYPE_CHECKING:
    from autotuner.jobs.nightly.plan import Plan
    from autotuner.report.nightly import Night


def nightly(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Which suites and models, how long, how judged.")],
    dry_run: Annotated[bool, option("--dry-run", "Say what is due, with its command; run nothing.")] = False,
    force: o.Force = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Run the suites that are due, compare, and write a page. It compares with the golden set and earlier nights."""
    from autotuner.cli.console import emit_json, make_console, make_reporter
    from autotuner.jobs.nightly.plan import read_plan
    from autotuner.jobs.nightly.run import run_night
    from autotuner.report.compare import limit_of
    from autotuner.report.page import OUR_PAGE
    from autotuner.system.files import claim
    from autotuner.system.locks import file_lock
    from autotuner.system.workspace import Workspace

    plan = read_plan(file)
    try:
        limit_of(plan.threshold)
    except UsageError as error:
        raise UsageError(f"{file}: [compare]: {error.message}", remedy=error.remedy) from error
    if dry_run:
        _list(plan, as_json=as_json)
        return
    Workspace.open(plan.workspace)
    claim(plan.page, OUR_PAGE, force=force)
    with file_lock(plan.history.with_suffix(".lock"), what=f"the nightly file {file}", remedy="wait for it."):
        with make_reporter(make_console(stderr=True), quiet=quiet) as reporter:
            run_night(plan, reporter=reporter, after_part=lambda: _write(plan, force=force))
        night = _write(plan, force=force)
    if as_json:
        emit_json(night.to_json())
    else:
        _print(night)
    raise typer.Exit(night.exit_code)


def _write(plan: "Plan", *, force: bool) -> "Night":
    """The page is written after every part, so it always shows how far the night is."""
    from autotuner.jobs.nightly.run import read
    from autotuner.report.nightly import look_at, page
    from autotuner.report.page import OUR_PAGE
    from autotuner.system.files import write_whole

    night = look_at(plan, read(plan.history))
    write_whole(plan.page, page(night), OUR_PAGE, force=force)
    return night


def _print(night: "Night") -> None:
    from autotuner.cli.console import emit

    emit(f"verdict  {night.verdict}")
    emit(f"night    {night.night or 'none yet'}, {len(night.nights)} in all")
    for alarm in night.alarms:
        emit(f"alarm    {alarm}")
    for part in night.parts:
        emit(f"part     {part.part}: {part.status}{f', {part.reason}' if part.reason else ''}")
    for note in night.notes:
        emit(f"note     {note}")
    emit(f"page     {night.plan.page}")


def _list(plan: "Plan", *, as_json: bool) -> None:
    from autotuner.cli.console import emit_json, show
    from autotuner.jobs.nightly.run import command_line, due, read, tonight
    from autotuner.system.listing import Column, Listing

    entries = read(plan.history)
    waiting = due(plan, entries, tonight())
    last = {entry.part: entry.night for entry in entries if entry.status == "finished"}
    lines = [(part.name, part in waiting, last.get(part.name), command_line(plan, part)) for part in plan.parts]
    if as_json:
        emit_json([dict(zip(("part", "due", "last", "command"), line, strict=True)) for line in lines])
        return
    rows = [(name, "due" if now else "", night or "never", shlex.join(words)) for name, now, night, words in lines]
    show(Listing.of([Column("part", head=True), "due", "last", "command"], rows))
