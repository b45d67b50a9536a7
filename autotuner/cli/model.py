"""`autotune model`: make a whole model faster, and give the file."""

from __future__ import annotations

import json
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotuner.carriers.flagfile import use_line
from autotuner.cli.console import emit, make_console, make_reporter, microseconds
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, ctrl_c
from autotuner.errors import UsageError
from autotuner.jobs.model.context import Model
from autotuner.jobs.model.rehearse import rehearse_model
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.tuner import tune_model
from autotuner.problems.accuracy import known_precision
from autotuner.system.progress import Stop


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
    if options.microkernels:
        raise UsageError(
            "a model is tuned without microkernels.", remedy="`autotune ab MICROKERNEL --model MODEL` tries one in it."
        )
    if request.dry_run:
        rehearsal = rehearse_model(wanted, target, options=options)
        emit(json.dumps(rehearsal.to_json(), indent=2) if request.as_json else rehearsal.text())
        return
    stderr = make_console(stderr=True, no_color=request.no_color)
    stop = Stop()
    with make_reporter(stderr, quiet=request.quiet) as reporter, ctrl_c(stop, stderr):
        result = tune_model(wanted, target, options=options, reporter=reporter, stop=stop)
    conclude(result, request, print_model)


def print_model(result: ModelResult, console: Console) -> None:
    """The verdict, the ranking, and what to do with it."""
    colour = {"win": "bold green", "no-winner": "bold yellow"}.get(result.verdict, "bold")

    def line(name: str, text: str, *, style: str = "") -> None:
        console.print(f"{name:<11}{text}", style=style, highlight=False, markup=False, soft_wrap=True)

    line("verdict", f"{result.verdict}: {result.reason}", style=colour)
    line("model", f"{result.problem['name']} on {result.target} ({result.device})")
    if result.baseline["us"] is not None:
        line("default", microseconds(result.baseline["us"]))
    if result.stock["us"] is not None and result.stock["flags"]:
        line("route", f"{microseconds(result.stock['us'])}  {result.stock['route']}: {' '.join(result.stock['flags'])}")
    if result.best is not None and result.best["us"] is not None:
        tried = sum(row.state in ("tuned", "ahead") and row.applied > 0 for row in result.rows)
        what = f"{len(result.entries)} entries" if result.flagfile else f"{tried} entries, nothing shipped"
        line("best", f"{microseconds(result.best['us'])}  route {result.best['route']}, {what}")
    speedup, over = result.speedup, result.speedup_over_stock
    if speedup is not None:
        line("speedup", f"{speedup.median:.3f}x over default, 95 % interval {speedup.low:.3f} to {speedup.high:.3f}")
    if over is not None and result.entries:
        line("", f"{over.median:.3f}x over the best route, {over.low:.3f} to {over.high:.3f}")
    if allowed := result.problem.get("allow_precision"):
        line("precision", f"results of {allowed} accuracy were accepted (--allow-precision)")
    if result.error is not None:
        line("outputs", f"relative error {result.error:.1e} against the untuned model")
    if result.rows:
        table = Table("dispatch", "calls", "share", "state", "alone", "applied", box=None, pad_edge=False)
        for row in result.rows:
            gain = row.result.speedup if row.result else None
            words = (
                row.label,
                str(row.group.calls),
                f"{row.share:.1%}",
                row.state,
                f"{gain.median:.2f}x" if gain else "",
                f"{row.applied} of {len(row.group.symbols)}" if row.applied else "",
            )
            table.add_row(*map(Text, words))
        if result.others:
            table.add_row("all others", "", f"{result.others:.1%}", "nothing to tune", "", "")
        console.print(table)
        line("ranked", f"by {result.ranked_by}, on route {result.ranked_route}")
    if result.spec is not None:
        line("spec", f"{result.spec} ({result.applied} of {len(result.entries)} entries applied)")
    if result.executables is not None:
        line("executable", f"{result.executables} (they fit this very model only)")
    if result.flagfile is not None:
        line("flags", str(result.flagfile))
        line("report", str(result.report))
        line("use", use_line(result.flagfile))
    elif result.interrupted:
        line("next", "the same command with --resume goes on from here")
