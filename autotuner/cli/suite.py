"""`autotune suite`: a named suite, a list of shapes, or a library's log or table; weighed, tuned, merged."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli.options import option
from autotuner.cli.request import ProblemRequest, Request, tuning_command
from autotuner.errors import UsageError
from autotuner.jobs.suite import THRESHOLD

if TYPE_CHECKING:
    from autotuner.jobs.suite.result import SuiteResult
    from autotuner.jobs.suite.workload import Workload
    from autotuner.targets import Target
    from autotuner.tuning.session import Watched

SHOWN = 20
"""Skipped lines that are printed; the others are counted."""


@dataclass(frozen=True)
class SuiteWords:
    """Tune a workload: many problems, each weighed by its share. The winners come out as one spec."""

    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE",
            help="A suite, or a file: .csv of shapes, AITER, TunableOp; .yaml/.log/.txt of hipBLASLt, rocBLAS, MIOpen.",
        ),
    ] = None
    show: Annotated[bool, option("--list", "List the suites, or the problems of NAME|FILE.")] = False
    sample: Annotated[int | None, option("--sample", "Only so many problems, chosen by --seed.")] = None
    threshold: Annotated[float, option("--threshold", "Leave out what takes less than this % of the time.")] = THRESHOLD


def run_suite(wanted: SuiteWords, request: ProblemRequest) -> None:
    """Tunes a workload and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.suite.load import load
    from autotuner.jobs.suite.run import Selection, tune_suite

    if wanted.workload is None:
        if not wanted.show:
            raise UsageError("suite needs a name or a file.", remedy="`autotune suite --list` names the suites.")
        request.given.only("show", "as_json", where="--list")
        _list_suites(request)
        return
    bundle = None if request.dry_run else request.bundle
    chip, options = request.built_for(), (request if bundle is None else request.untimed()).options()
    if wanted.show:
        listed = ("workload", "show", "sample", "seed", "target", "chip", "flags", "as_json")
        request.given.only(*listed, where="--list")
    request.refuse_untimed("output")
    found = load(wanted.workload, dtype=chip.usual_dtype).allowing(request.allow_precision)
    if not request.quiet:
        _report_skipped(found)
    selection = Selection(found, threshold=wanted.threshold, sample=wanted.sample)
    if wanted.show or request.dry_run:
        chosen = found.for_target(chip).sample(wanted.sample, seed=request.seed)
        (_rehearse if request.dry_run else _list_problems)(chosen, chip, request)
        return

    def run(watch: "Watched") -> "SuiteResult":
        if bundle is not None:
            from autotuner.jobs.suite.bundled import bundle_suite

            return bundle_suite(selection, chip, bundle, options=options, **watch)
        return tune_suite(selection, chip, options=options, **watch)

    carry_out(
        request,
        run,
        kernels=options.microkernels,
        exit_code=lambda result: result.details.exit_code,
    )


def _list_suites(request: Request) -> None:
    from autotuner.cli.console import emit_json, show
    from autotuner.jobs.suite.load import named, suite_names
    from autotuner.system.listing import Column, Listing

    suites = [(one.name, len(one.entries), one.source) for one in map(named, suite_names())]
    if request.as_json:
        emit_json([{"name": name, "problems": problems, "about": about} for name, problems, about in suites])
        return
    rows = [(name, str(problems), about) for name, problems, about in suites]
    show(Listing.of(["suite", Column("problems", right=True), "what"], rows))


def _list_problems(workload: "Workload", target: "Target", request: Request) -> None:
    from autotuner.cli.console import emit_json, make_console, say, show
    from autotuner.system.listing import Column, Listing

    if request.as_json:
        emit_json(workload.to_json())
        return
    where = [*target.words, *(f"--flag={flag}" for flag in target.user_flags)]
    rows = [
        (str(entry.calls), entry.problem.name, shlex.join(["autotune", *entry.problem.arguments(), *where]))
        for entry in workload.entries
    ]
    heads = [Column("calls", right=True), Column("problem", head=True)]
    show(Listing.of([*heads, "command"], rows))
    for one in workload.skipped:
        if one.entry is not None:
            say(make_console(), f"skipped: {one}")


def _rehearse(workload: "Workload", target: "Target", request: Request) -> None:
    """The problems, and what a run of the largest would do."""
    from autotuner.cli.console import emit, emit_json
    from autotuner.tuning.dry_run import rehearse

    if not workload.entries:
        raise UsageError(f"{target.name} can tune no problem of {workload.name}.", remedy="Try another --target.")
    largest = max(workload.entries, key=lambda entry: entry.calls * entry.problem.flops)
    rehearsal = rehearse(largest.problem, target, options=request.options())
    if request.as_json:
        emit_json({**workload.to_json(), "rehearsal": rehearsal.to_json()})
        return
    _list_problems(workload, target, request)
    emit(f"\nthe largest, {largest.problem.name}:")
    emit(rehearsal.text())


def _report_skipped(workload: "Workload") -> None:
    from autotuner.cli.console import make_console, say

    console = make_console(stderr=True)
    for one in workload.skipped[:SHOWN]:
        say(console, f"skipped: {one}", style="yellow")
    if (more := len(workload.skipped) - SHOWN) > 0:
        say(console, f"skipped: {more} more", style="yellow")


TUNING = tuning_command(
    SuiteWords,
    run_suite,
    request=ProblemRequest,
)
