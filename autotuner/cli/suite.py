"""`autotune suite`: a named suite, a list of shapes, or a library's log; weighed, tuned, merged."""

from __future__ import annotations

import json
import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotuner.carriers.flagfile import use_line
from autotuner.cli.commands.suite import SuiteWords
from autotuner.cli.console import emit, make_console, microseconds
from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.printer import Printer
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, watched
from autotuner.errors import UsageError
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.result import SuiteResult
from autotuner.jobs.suite.rows import Row
from autotuner.jobs.suite.run import FINAL, RAW, Selection, tune_suite
from autotuner.jobs.suite.suites import SUITES
from autotuner.jobs.suite.workload import Workload
from autotuner.report.tables import VERDICTS
from autotuner.targets import Target
from autotuner.tuning.dry_run import rehearse
from autotuner.tuning.options import Options

SHOWN = 20
"""Skipped lines that are printed; the others are counted."""
_UNTRIED = ("below-threshold", "left-out", "skipped", "waiting")


def run_suite(wanted: SuiteWords, request: Request) -> None:
    """Tunes a workload and ends the process with the contract's exit code."""
    stdout, stderr = (make_console(stderr=where, no_color=request.no_color) for where in (False, True))
    if wanted.workload is None:
        if not wanted.show:
            raise UsageError("suite needs a name or a file.", remedy="`autotune suite --list` names the suites.")
        request.given.only("show", "as_json", where="--list")
        _list_suites(stdout, as_json=request.as_json)
        return
    chip = request.chip()
    options = request.options()
    if wanted.show:
        listed = ("workload", "show", "sample", "seed", "target", "flags", "as_json")
        request.given.only(*listed, where="--list")
    request.refuse_untimed("allow_precision", "output")
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    found = load(wanted.workload).allowing(request.allow_precision)
    if not request.quiet:
        _report_skipped(found, stderr)
    selection = Selection(found, threshold=wanted.threshold, sample=wanted.sample)
    if wanted.show or request.dry_run:
        chosen = found.for_target(chip).sample(wanted.sample, seed=request.seed)
        if request.dry_run:
            _rehearse(chosen, chip, options, stdout, as_json=request.as_json)
        else:
            _list_problems(chosen, stdout, as_json=request.as_json)
        return
    with watched(request) as watch:
        result = tune_suite(selection, chip, options=options, **watch)
    conclude(result, request, print_suite, exit_code=result.details.exit_code)


def _list_suites(console: Console, *, as_json: bool) -> None:
    counts = {name: len(one.problems()) for name, one in SUITES.items()}
    if as_json:
        names = [{"name": name, "problems": counts[name], "about": one.about} for name, one in SUITES.items()]
        print(json.dumps(names, indent=2))
        return
    table = Table("suite", "problems", "what", box=None, pad_edge=False)
    for name, one in SUITES.items():
        table.add_row(Text(name), str(counts[name]), Text(one.about))
    console.print(table)


def _list_problems(workload: Workload, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(workload.to_json(), indent=2))
        return
    table = Table("calls", "problem", "command", box=None, pad_edge=False)
    for entry in workload.entries:
        words = shlex.join(["autotune", *entry.problem.arguments()])
        table.add_row(str(entry.calls), Text(entry.problem.name, overflow="fold"), Text(words, overflow="fold"))
    console.print(table)
    for one in workload.skipped:
        if one.entry is not None:
            console.print(f"skipped: {one}", highlight=False, markup=False, soft_wrap=True)


def _rehearse(workload: Workload, target: Target, options: Options, console: Console, *, as_json: bool) -> None:
    """The problems, and what a run of the largest would do."""
    if not workload.entries:
        raise UsageError(f"{target.name} can tune no problem of {workload.name}.", remedy="Try another --target.")
    largest = max(workload.entries, key=lambda entry: entry.calls * entry.problem.flops)
    rehearsal = rehearse(largest.problem, target, options=options)
    if as_json:
        print(json.dumps({**workload.to_json(), "rehearsal": rehearsal.to_json()}, indent=2))
        return
    _list_problems(workload, console, as_json=False)
    console.print(f"\nthe largest, {largest.problem.name}:", highlight=False, markup=False)
    emit(rehearsal.text())


def _report_skipped(workload: Workload, console: Console) -> None:
    for one in workload.skipped[:SHOWN]:
        console.print(f"skipped: {one}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    if (more := len(workload.skipped) - SHOWN) > 0:
        console.print(f"skipped: {more} more", style="yellow", highlight=False, markup=False)


def print_suite(result: SuiteResult, printer: Printer) -> None:
    """The problems that were tried, what they gain together, and what to do with it."""
    line = printer.line
    details = result.details
    tried = [row for row in details.rows if row.verdict not in _UNTRIED]
    if tried:
        printer.table(_table(tried, estimate=details.estimate))
    for verdict in _UNTRIED:
        if rows := [row for row in details.rows if row.verdict == verdict]:
            share = sum(row.share or 0.0 for row in rows)
            line("", f"{verdict}: {len(rows)} problems, {share:.3g} % of the time")
    uplift = details.uplift
    printer.verdict(result, what="suite", more=f", {uplift.problems} problems")
    if uplift.us_total is not None:
        saved = uplift.us_saved or 0.0
        line("time", f"{microseconds(uplift.us_total)} by default, {microseconds(uplift.us_total - saved)} tuned")
    if uplift.kept and uplift.average is not None:
        line("uplift", f"weighted {uplift.weighted:.2f} %, average {uplift.average:.2f} %")
        line(
            "", f"{uplift.kept} kept: {uplift.coverage:.2f} % of the time, geometric mean {uplift.geometric_mean:.3f}x"
        )
        line("", f"median {uplift.median:.3f}x, {microseconds(uplift.us_saved)} saved")
    line("results", f"{details.folder / RAW}, {FINAL}")
    for group in details.groups:
        flags = " ".join(group.flags) or "no flags of its own"
        line("group", f"{len(group.problems)} winners, {microseconds(group.us_saved)} saved, {group.carrier}: {flags}")
        if group.spec is not None:
            line("spec", str(group.spec))
        if group.flagfile is not None:
            line("use", use_line(group.flagfile))
    if result.interrupted or result.verdict != "win":
        printer.next(result)


def _table(rows: list[Row], *, estimate: bool) -> Table:
    share = "share %\n(estimate)" if estimate else "share %"
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("problem", overflow="fold")
    for name in ("calls", share, "default", "tuned", "ratio\ninterval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for row in rows:
        ratio = ""
        if row.ratio is not None:
            ratio = f"{row.ratio:.3f}x\n{row.low:.3f} to {row.high:.3f}"
        verdict = Text(row.verdict, style=VERDICTS.get(row.verdict, ""))
        if row.kept:
            verdict.append(", kept")
        if row.verdict == "failed":
            verdict.append(f": {row.reason}", style="")
        table.add_row(
            Text(row.problem),
            str(row.calls),
            "" if row.share is None else f"{row.share:.2f}",
            microseconds(row.reference_us or row.default_us),
            microseconds(row.tuned_us),
            ratio,
            verdict,
        )
    return table
