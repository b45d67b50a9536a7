"""`autotune suite`: a named suite, a list of shapes, or a library's log; weighed, tuned, merged."""

from __future__ import annotations

import json
import shlex

from rich.console import Console

from autotuner.cli.commands.suite import SuiteWords
from autotuner.cli.console import emit, make_console, show
from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, watched
from autotuner.errors import UsageError
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.run import Selection, tune_suite
from autotuner.jobs.suite.suites import SUITES
from autotuner.jobs.suite.workload import Workload
from autotuner.system.listing import Column, Listing
from autotuner.targets import Target
from autotuner.tuning.dry_run import rehearse
from autotuner.tuning.options import Options

SHOWN = 20
"""Skipped lines that are printed; the others are counted."""


def run_suite(wanted: SuiteWords, request: Request) -> None:
    """Tunes a workload and ends the process with the contract's exit code."""
    stdout, stderr = (make_console(stderr=where, no_color=request.no_color) for where in (False, True))
    if wanted.workload is None:
        if not wanted.show:
            raise UsageError("suite needs a name or a file.", remedy="`autotune suite --list` names the suites.")
        request.given.only("show", "as_json", where="--list")
        _list_suites(stdout, as_json=request.as_json)
        return
    chip = request.built_for()
    options = request.options()
    if wanted.show:
        listed = ("workload", "show", "sample", "seed", "target", "chip", "flags", "as_json")
        request.given.only(*listed, where="--list")
    request.refuse_untimed("output")
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    found = load(wanted.workload, dtype=chip.usual_dtype).allowing(request.allow_precision)
    if not request.quiet:
        _report_skipped(found, stderr)
    selection = Selection(found, threshold=wanted.threshold, sample=wanted.sample)
    if wanted.show or request.dry_run:
        chosen = found.for_target(chip).sample(wanted.sample, seed=request.seed)
        if request.dry_run:
            _rehearse(chosen, chip, options, stdout, as_json=request.as_json)
        else:
            _list_problems(chosen, chip, stdout, as_json=request.as_json)
        return
    with watched(request) as watch:
        result = tune_suite(selection, chip, options=options, **watch)
    conclude(result, request, exit_code=result.details.exit_code)


def _list_suites(console: Console, *, as_json: bool) -> None:
    counts = {name: len(one.problems()) for name, one in SUITES.items()}
    if as_json:
        names = [{"name": name, "problems": counts[name], "about": one.about} for name, one in SUITES.items()]
        print(json.dumps(names, indent=2))
        return
    rows = [(name, str(counts[name]), one.about) for name, one in SUITES.items()]
    show(console, Listing.of(["suite", Column("problems", right=True), "what"], rows))


def _list_problems(workload: Workload, target: Target, console: Console, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(workload.to_json(), indent=2))
        return
    where = [*target.words, *(f"--flag={flag}" for flag in target.user_flags)]
    rows = [
        (str(entry.calls), entry.problem.name, shlex.join(["autotune", *entry.problem.arguments(), *where]))
        for entry in workload.entries
    ]
    show(console, Listing.of([Column("calls", right=True), Column("problem", head=True), "command"], rows))
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
    _list_problems(workload, target, console, as_json=False)
    console.print(f"\nthe largest, {largest.problem.name}:", highlight=False, markup=False)
    emit(rehearsal.text())


def _report_skipped(workload: Workload, console: Console) -> None:
    for note in workload.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    for one in workload.skipped[:SHOWN]:
        console.print(f"skipped: {one}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    if (more := len(workload.skipped) - SHOWN) > 0:
        console.print(f"skipped: {more} more", style="yellow", highlight=False, markup=False)
