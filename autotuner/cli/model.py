"""`autotune model`: make a whole model faster, and give the file."""

from __future__ import annotations

from dataclasses import replace

from rich.table import Table
from rich.text import Text

from autotuner.cli.console import microseconds
from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.printer import Printer
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, print_rehearsal, watched
from autotuner.errors import UsageError
from autotuner.jobs.model.context import Model
from autotuner.jobs.model.rehearse import rehearse_model
from autotuner.jobs.model.result import ModelDetails, ModelResult
from autotuner.jobs.model.tuner import tune_model
from autotuner.problems.accuracy import known_precision


def run_model(wanted: Model, request: Request) -> None:
    """Tunes a model and ends the process with the contract's exit code."""
    wanted = replace(wanted, allow=known_precision(request.allow_precision))
    target = request.chip()
    options = request.options()
    request.refuse_untimed("allow_precision", "tolerance", "parameters")
    if not request.timed and len(wanted.routes) > 1:
        raise UsageError("without a device no route is faster than another.", remedy="Give --route once.")
    if "top" in request.given:
        request.given.refuse(["min_share"], "is for a model without --top", remedy="Give one of them.")
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    if request.dry_run:
        print_rehearsal(rehearse_model(wanted, target, options=options), request)
        return
    with watched(request) as watch:
        result = tune_model(wanted, target, options=options, **watch)
    conclude(result, request, print_model)


def print_model(result: ModelResult, printer: Printer) -> None:
    """The verdict, the ranking, and what to do with it."""
    details, stock, line = result.details, result.stock, printer.line
    printer.verdict(result, what="model")
    if result.baseline.us is not None:
        line("default", microseconds(result.baseline.us))
    if stock.us is not None and stock.flags:
        line("route", f"{microseconds(stock.us)}  {stock.route}: {' '.join(stock.flags)}")
    if result.best is not None and result.best.us is not None:
        tried = sum(row.state in ("tuned", "ahead") and row.applied > 0 for row in details.rows)
        what = f"{len(details.entries)} entries" if result.flagfile else f"{tried} entries, nothing shipped"
        what += f", {len(details.shipped_kernels)} microkernels" if details.shipped_kernels else ""
        line("best", f"{microseconds(result.best.us)}  route {result.best.measured.route}, {what}")
    printer.speedup(result)
    printer.caches(result)
    if details.entries:
        printer.over_stock(result, what="route")
    if details.error is not None:
        line("outputs", f"relative error {details.error:.1e} against the untuned model")
    if details.rows:
        printer.table(_table(details))
        line("ranked", f"by {details.ranked_by}, on route {details.ranked_route}")
    if details.time:
        line("time", f"{details.time.short()} ({'best' if details.time.after else 'default'}, by {details.time.how})")
    if details.kernels:
        printer.table(_kernel_table(details))
    if details.executables is not None:
        line("executable", f"{details.executables} (they fit this very model only)")
    if details.kernel_spec is not None:
        line("kernels", f"{details.kernel_spec}, objects in {details.objects}")
    if details.report is not None:
        line("report", str(details.report))
    printer.files(result, note=f" ({details.applied} of {len(details.entries)} entries applied)")


def _kernel_table(details: ModelDetails) -> Table:
    """The operations that microkernels compute."""
    table = Table("operation", "calls", "share", "kernel", "alone", "codegen", "state", box=None, pad_edge=False)
    for row in details.kernels:
        alone, codegen = (microseconds(us) if us is not None else "" for us in (row.us, row.codegen_us))
        words = (row.place.problem.name, str(row.place.calls), f"{row.place.share:.1%}", row.kernel, alone, codegen)
        table.add_row(*map(Text, (*words, row.state)))
    return table


def _table(details: ModelDetails) -> Table:
    """The dispatches by their share."""
    titles = ("dispatch", "calls", "share", "state", "alone", "applied", "code")
    table = Table(*titles, box=None, pad_edge=False)
    for row in details.rows:
        gain = row.result.speedup if row.result else None
        words = (
            row.label,
            str(row.group.calls),
            f"{row.share:.1%}",
            row.state,
            f"{gain.median:.2f}x" if gain else "",
            f"{row.applied} of {len(row.group.symbols)}" if row.applied else "",
            details.code(row),
        )
        table.add_row(*map(Text, words))
    if details.others:
        table.add_row("all others", "", f"{details.others:.1%}", "nothing to tune", "", "", "default")
    return table
