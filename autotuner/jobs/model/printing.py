"""What is said to people of a tuned model: the verdict, the ranking, and what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotuner.system.listing import Column, Listing
from autotuner.system.text import count, microseconds

if TYPE_CHECKING:
    from autotuner.jobs.model.result import ModelDetails, ModelResult, Row
    from autotuner.tuning.printer import Printer


_CALLS, _SHARE, _ALONE = (Column(title, right=True) for title in ("calls", "share", "alone"))


def tell_model(result: ModelResult, printer: Printer) -> None:
    """The verdict, the ranking, and what to do with it."""
    details, stock, line = result.details, result.stock, printer.line
    printer.verdict(result, what="model")
    if result.baseline.us is not None and not details.default_is_wrong:
        line("default", microseconds(result.baseline.us))
    elif (us := details.routes[0].us if details.routes else None) is not None:
        line("default", f"{microseconds(us)}, with wrong results")
    if stock.us is not None and stock.flags:
        line("route", f"{microseconds(stock.us)}  {stock.route}: {' '.join(stock.flags)}")
    if result.best is not None and result.best.us is not None:
        tried = sum(row.state in ("tuned", "ahead") and row.applied > 0 for row in details.rows)
        shipped = count(len(details.entries), "entry")
        what = shipped if result.flagfile else f"{count(tried, 'entry')}, nothing shipped"
        what += f", {count(len(details.shipped_kernels), 'microkernel')}" if details.shipped_kernels else ""
        line("best", f"{microseconds(result.best.us)}  route {result.best.measured.route}, {what}")
    printer.speedup(result, over=f" over {result.baseline_words}")
    if stock.flags and (details.entries or details.shipped_kernels):
        printer.over_stock(result, what="route")
    printer.caches(result)
    if details.error is not None:
        line("outputs", f"relative error {details.error:.1e} against {details.against}")
    if details.rows:
        printer.table(_table(details))
        _reasons(details, printer)
        line("ranked", f"by {details.ranked_by}, on route {details.ranked_route}")
    if details.time:
        line("time", details.time.short())
    if details.kernels:
        printer.table(_kernel_table(details))
        for place in details.kernels:
            if place.reason:
                line(place.state, f"{place.place.problem.name}: {place.reason}")
    if details.executables is not None:
        line("executable", f"{details.executables} (they fit this very model only)")
    if details.kernel_spec is not None:
        line("kernels", f"{details.kernel_spec}, objects in {details.objects}")
    if details.report is not None:
        line("report", str(details.report))
    if details.candidate is not None:
        line("candidate", f"{details.candidate} (spec.mlir, command.txt); with -o FILE it is written there")
    untimed = ", an estimate, never timed" if result.verdict == "compile-only" else ""
    entries = count(len(details.entries), "entry")
    printer.files(result, note=f" ({details.applied} of {entries} applied{untimed})", program=details.program)


def _reasons(details: ModelDetails, printer: Printer) -> None:
    """Why each dispatch came to its state."""
    for row in details.rows:
        if row.reason:
            printer.line(row.state, f"{row.label}: {row.reason}")


def _kernel_table(details: ModelDetails) -> Listing:
    """The operations that microkernels compute."""
    titles = ("operation", _CALLS, _SHARE, "kernel", _ALONE, Column("codegen", right=True), "state")
    rows = []
    for row in details.kernels:
        alone, codegen = (microseconds(us) if us is not None else "" for us in (row.us, row.codegen_us))
        words = (row.place.problem.name, str(row.place.calls), f"{row.place.share:.1%}", row.kernel, alone, codegen)
        rows.append((*words, row.state))
    return Listing.of(titles, rows)


def _applied(row: Row, details: ModelDetails) -> str:
    """In how many of its dispatches an entry is; what lost as a whole model is in none that ships."""
    if not row.applied:
        return ""
    shipped = any(entry.label == row.label for entry in details.entries)
    return f"{row.applied} of {len(row.group.symbols)}{'' if shipped else ', not shipped'}"


def _table(details: ModelDetails) -> Listing:
    """The dispatches by their share."""
    titles = ("dispatch", _CALLS, _SHARE, "state", _ALONE, "applied", "code")
    rows = []
    for row in details.rows:
        gain = row.result.speedup if row.result else None
        words = (
            row.label,
            str(row.group.calls),
            f"{row.share:.1%}",
            row.state,
            f"{gain.median:.2f}x" if gain else "",
            _applied(row, details),
            details.code(row),
        )
        rows.append(words)
    if details.others:
        rows.append(("all others", "", f"{details.others:.1%}", "nothing to tune", "", "", "default"))
    return Listing.of(titles, rows)
