"""`autotune history`, `export`, `import`, `report`, `compare`, `cache`, `doctor`: what is stored, what works here."""

import re
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.cli.request import Given
from autotuner.errors import EXIT_REGRESSION, UsageError
from autotuner.system.text import count

if TYPE_CHECKING:
    from autotuner.report.compare import Comparison

Run = Annotated[str | None, typer.Argument(metavar="RUN", help="A run, as `history` names it. [default: all]")]
_SET = "A run, a workspace, a database (FILE.db or URL) or an export (.json)."
FILTERS = ("limit", "op", "shape", "target", "since")
MOST_RUNS = 2**31 - 1
"""More than a database can be asked for means all."""
_AGO = re.compile(r"(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def history(
    context: typer.Context,
    run: Run = None,
    limit: Annotated[int, option("--limit", "How many runs, newest first.")] = 20,
    op: Annotated[str | None, option("--op", "Of this operation: gemm, conv, model, …")] = None,
    shape: Annotated[str | None, option("--shape", "Of this shape, as the problem's name has it.")] = None,
    target: Annotated[str | None, option("--target", "For this chip.")] = None,
    since: Annotated[str | None, option("--since", "Since 2026-11-01, or so long ago: 12h, 7d.")] = None,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
    as_json: o.Json = False,
) -> None:
    """List the runs of this workspace, or the candidates of one.

    --op and --shape also find the parts of suites and models.
    """
    from autotuner.cli.console import emit, emit_json, show
    from autotuner.report.history import history_records, run_tables, runs_table
    from autotuner.store.reader import ALL_RUNS, RunFilter
    from autotuner.store.store import Store

    if run is not None:
        Given.of(context).refuse(FILTERS, "chooses among runs, and one is named")
    if limit < 1:
        raise UsageError(f"--limit {limit} is not positive.", remedy="Give --limit 1 or more.")
    began = parse_since(since) if since is not None else None
    which = RunFilter(op=op and op.lower(), shape=shape and shape.lower(), target=target, since=began)
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        if run is not None and as_json:
            from autotuner.store.exports import export_json, export_records

            emit(export_json(export_records(store, run)), end="")
            return
        records = history_records(store, min(limit, MOST_RUNS), which=which) if run is None else []
        if as_json:
            emit_json(records)
        elif run is None and not records and which != ALL_RUNS:
            emit("no run is like that; `autotune history` lists them all")
        else:
            for table in run_tables(store, run) if run is not None else [runs_table(records)]:
                show(table.listing())


def parse_since(text: str, *, now: datetime | None = None) -> datetime:
    """`2026-11-01`, `2026-11-01T08:30`, or so long ago: `90m`, `12h`, `7d`, `2w`."""
    now = now or datetime.now().astimezone()
    try:
        if ago := _AGO.fullmatch(text.strip().lower()):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        remedy = "Write 2026-11-01, 2026-11-01T08:30, or how long ago: 12h, 7d, 2w."
        raise UsageError(f"--since {text!r} is not a date.", remedy=remedy) from None


def export(
    run: Run = None,
    as_csv: Annotated[bool, option("--csv", "As CSV.")] = False,
    as_json: Annotated[bool, option("--json", "As a JSON list.")] = False,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
) -> None:
    """Print every timed candidate. Choose a form: --json (a list of objects) or --csv."""
    from autotuner.cli.console import emit, note
    from autotuner.store.exports import export_csv, export_json, export_records
    from autotuner.store.store import Store

    if as_csv == as_json:
        raise UsageError("export needs one of --csv, --json.", remedy="Choose one.")
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        records = export_records(store, run)
    if not records:
        why = f"nothing of run {run} was timed: `autotune history {run}` says why"
        note(why if run else "no run has timed anything")
    emit(export_csv(records) if as_csv else export_json(records), end="")


def import_results(
    files: Annotated[list[Path], typer.Argument(help="Exports: .json.", metavar="FILE")],
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
    as_json: o.Json = False,
) -> None:
    """Take the runs of other stores' exports into this one. A run that is here already is left alone."""
    from autotuner.cli.console import emit, emit_json
    from autotuner.store.imports import Imported, import_file
    from autotuner.store.store import Store

    with Store.open(storage, workspace=workspace) as store:
        found = [import_file(store, file) for file in files]
    total = Imported(*(sum(getattr(one, name) for one in found) for name in ("runs", "candidates", "known")))
    if as_json:
        emit_json(asdict(total))
    else:
        known = f"; {count(total.known, 'run')} known already" if total.known else ""
        emit(f"imported {count(total.runs, 'run')} with {count(total.candidates, 'candidate')}{known}")


def report(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Runs, as `history` names them. [default: all]")
    ] = None,
    output: Annotated[Path, option("-o --output", "The file of the page.")] = Path("report.html"),
    force: o.Force = False,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
) -> None:
    """Make one page of runs that opens from a file. It has verdicts, charts, proofs, failures, all candidates."""
    from autotuner.cli.console import emit
    from autotuner.report.page import OUR_PAGE
    from autotuner.report.report import report as make_page
    from autotuner.store.store import Store
    from autotuner.system.files import claim, write_whole

    if output.suffix not in (".html", ".htm"):
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o report.html.")
    claim(output, OUR_PAGE, force=force)
    with Store.open(storage, workspace=workspace, create=False) as store, store.intact():
        page = make_page(store, runs or ())
    write_whole(output, page, OUR_PAGE, force=force)
    what = count(len(set(runs)), "run") if runs else "all runs"
    emit(f"{output}: {what}, {len(page.encode()) / 1e6:.1f} MB")


def compare_sets(
    golden: Annotated[str, typer.Argument(metavar="GOLDEN", help=f"What was good. {_SET}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is to be judged by it, in the same forms.")],
    threshold: Annotated[float | None, option("--threshold", "Per cent that count as a change. [default: 1]")] = None,
    as_markdown: Annotated[bool, option("--markdown", "As markdown, for a pull request.")] = False,
    as_json: o.Json = False,
    fail_on_regression: Annotated[
        bool, option("--fail-on-regression", "Exit 6 where something is slower, or fails now.")
    ] = False,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
) -> None:
    """Say which kernels of NEW are slower or faster than in GOLDEN. Each with where it was measured."""
    from autotuner.cli.console import emit, emit_json
    from autotuner.report.compare import compare, limit_of, open_set
    from autotuner.report.compared import document, markdown

    if as_markdown and as_json:
        raise UsageError("--markdown and --json are two forms of one output.", remedy="Choose one.")
    limit = limit_of(threshold)
    first, second = (open_set(one, workspace=workspace, storage=storage) for one in (golden, new))
    found = compare(first, second, limit)
    if not found.rows:
        raise UsageError(f"neither {found.golden} nor {found.new} holds a time.", remedy="Tune something first.")
    if as_json:
        emit_json(document(found))
    elif as_markdown:
        emit(markdown(found), end="")
    else:
        _print_comparison(found)
    if fail_on_regression and found.regressed:
        raise typer.Exit(EXIT_REGRESSION)
    if fail_on_regression and not found.compared:
        remedy = "Name sets that share problems and a device."
        raise UsageError("nothing could be compared, so nothing is known of regressions.", remedy=remedy)


def _print_comparison(found: "Comparison") -> None:
    from autotuner.cli.console import emit, show
    from autotuner.report.compared import environment, kernels

    emit(f"verdict  {found.verdict}")
    emit(f"rule     {found.rule}")
    emit(f"golden   {found.golden}")
    emit(f"new      {found.new}")
    for note in found.notes:
        emit(f"note     {note}")
    emit("")
    show(kernels(found).listing())
    emit("")
    show(environment(found).listing())


def cache(
    clear: Annotated[bool, option("--clear", "Remove all cached builds.")] = False, as_json: o.Json = False
) -> None:
    """Show the build cache, or empty it."""
    from autotuner.cli.console import emit, emit_json
    from autotuner.system.cache import Cache
    from autotuner.system.settings import cache_dir

    store = Cache(cache_dir())
    if clear:
        store.clear()
    entries, size = store.size()
    if as_json:
        emit_json({"path": str(store.root), "builds": entries, "bytes": size})
    else:
        emit(f"{store.root}: {entries} builds, {size / 2**20:.1f} MiB")


def doctor(iree_tools: o.IreeTools = None, as_json: o.Json = False) -> None:
    """Say what works on this machine, and what to do about the rest. Tools, extras, targets and devices are tried."""
    from rich.text import Text

    from autotuner.cli.console import emit_json, make_console, show
    from autotuner.report.doctor import examine
    from autotuner.system.listing import Column, Listing

    console = make_console(stderr=True)
    with console.status("asking the compiler and the devices") if console.is_terminal else console:
        findings = examine(iree_tools)
    marks = {
        "ok": Text("ok", "green"),
        "warning": Text("note", "yellow"),
        "absent": Text("–", "yellow"),
        "broken": Text("broken", "red"),
    }
    if as_json:
        emit_json([f.to_json() for f in findings])
    else:
        rows = [(marks[finding.state], finding.what, finding.found, finding.remedy) for finding in findings]
        heads = [Column("", head=True), Column("what", head=True)]
        show(Listing.of([*heads, "found", "what to do"], rows))
    if any(f.state == "broken" and f.essential for f in findings):
        raise typer.Exit(5)
