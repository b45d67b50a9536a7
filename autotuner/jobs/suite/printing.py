"""What is said to people of a suite: the problems, what they gain together, and what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from autotuner.carriers.flagfile import use_line
from autotuner.jobs.suite.rows import FINAL, RAW
from autotuner.system.listing import Column, Listing
from autotuner.system.text import count, microseconds
from autotuner.tuning.styles import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotuner.jobs.suite.result import SuiteResult
    from autotuner.jobs.suite.rows import Row
    from autotuner.tuning.printer import Printer

_UNTRIED = ("below-threshold", "left-out", "skipped", "waiting")


def tell_suite(result: SuiteResult, printer: Printer) -> None:
    """The problems that were tried, what they gain together, and what to do with it."""
    line = printer.line
    details = result.details
    uplift = details.uplift
    printer.verdict(result, what="suite", more=f", {count(uplift.problems, 'problem')}")
    tried = [row for row in details.rows if row.verdict not in _UNTRIED]
    if tried:
        printer.table(_table(tried, estimate=details.estimate))
    for verdict in _UNTRIED:
        if rows := [row for row in details.rows if row.verdict == verdict]:
            known = [row.share for row in rows if row.share is not None]
            share = f"{sum(known):.3g} % of the time" if known else "whose share is not known"
            line("", f"{verdict}: {count(len(rows), 'problem')}, {share}")
    if uplift.us_total is not None:
        total, several = uplift.us_total, len(details.groups) > 1
        one = f"{microseconds(total - (details.us_saved or 0.0))} {'by one compile' if several else 'tuned'}"
        line("time", f"{microseconds(total)} by default, {one}")
        if several:
            each = microseconds(total - (uplift.us_saved or 0.0))
            line("", f"{each} if each problem had flags of its own: {len(details.groups)} compiles")
    if uplift.kept and uplift.average is not None:
        line("uplift", f"weighted {uplift.weighted:.2f} %, average {uplift.average:.2f} %")
        line(
            "", f"{uplift.kept} kept: {uplift.coverage:.2f} % of the time, geometric mean {uplift.geometric_mean:.3f}x"
        )
        line("", f"median {uplift.median:.3f}x, {microseconds(uplift.us_saved)} saved")
    line("results", f"{details.folder / RAW}, {FINAL}")
    for group in details.groups:
        flags = " ".join(group.flags) or "no flags of its own"
        winners = count(len(group.problems), "winner")
        line("group", f"{winners}, {microseconds(group.us_saved)} saved, {group.carrier}: {flags}")
        if group.spec is not None:
            line("spec", str(group.spec))
        if group.flagfile is not None:
            line("use", use_line(group.flagfile))
    if result.interrupted or result.verdict != "win":
        printer.next(result)


def _table(rows: Sequence[Row], *, estimate: bool) -> Listing:
    share = "share % (estimate)" if estimate else "share %"
    numbers = [Column(title, right=True) for title in ("calls", share, "default", "tuned", "ratio")]
    found = []
    for row in rows:
        ratio = ""
        if row.ratio is not None:
            ratio = f"{row.ratio:.3f}x ({row.low:.3f} to {row.high:.3f})"
        words = f"{row.verdict}{', kept' if row.kept else ''}{f': {row.reason}' if row.verdict == 'failed' else ''}"
        found.append(
            (
                row.problem,
                str(row.calls),
                "" if row.share is None else f"{row.share:.2f}",
                microseconds(row.reference_us or row.default_us),
                microseconds(row.tuned_us),
                ratio,
                Text(words, VERDICTS.get(row.verdict, "")),
            )
        )
    return Listing.of(["problem", *numbers, "verdict"], found)
