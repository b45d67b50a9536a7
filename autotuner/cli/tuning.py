"""What every tuning command does: parse, tune with a watcher, print, exit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from autotuner.cli.console import emit, make_console, make_reporter
from autotuner.cli.lazy import Lazy
from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.request import ProblemRequest, Request
from autotuner.errors import EXIT_INTERRUPTED, EXIT_NO_WINNER, AutotuneError
from autotuner.problems import Problem
from autotuner.system.interrupts import stopping
from autotuner.system.progress import Stop
from autotuner.targets import Target
from autotuner.tuning.result import D, Result
from autotuner.tuning.session import Watched

if TYPE_CHECKING:
    from autotuner.tuning import bundling, dry_run, tune
    from autotuner.tuning.printer import Printer
else:
    # Commands that search nothing come here, too.
    bundling, dry_run = Lazy("autotuner.tuning.bundling"), Lazy("autotuner.tuning.dry_run")
    tune = Lazy("autotuner.tuning.tune")


def run_tuning(problem: Problem, request: Request) -> None:
    """Tunes one problem and ends the process with the contract's exit code."""
    problem = problem.allowing(request.allow_precision)
    target = request.built_for()
    if isinstance(request, ProblemRequest) and request.bundle is not None and not request.dry_run:
        run_bundling(problem, target, request.bundle, request.untimed())
        return
    options = request.options()
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    if request.dry_run:
        print_rehearsal(dry_run.rehearse(problem, target, options=options), request)
        return
    with watched(request) as watch:
        result = tune.tune(problem, target, options=options, **watch)
    conclude(result, request)


def run_bundling(problem: Problem, target: Target, file: Path, request: Request) -> None:
    """Builds one problem's candidates for another machine."""
    options = request.options()
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    with watched(request) as watch:
        result = bundling.make_bundle(problem, target, file, options=options, **watch)
    conclude(result, request)


@contextmanager
def watched(request: Request) -> Iterator[Watched]:
    """A run's progress on stderr; Ctrl-C asks it to end."""
    stderr, stop = make_console(stderr=True, no_color=request.no_color), Stop()
    say = partial(stderr.print, highlight=False)
    with make_reporter(stderr, quiet=request.quiet) as reporter, stopping(stop, say):
        yield {"reporter": reporter, "stop": stop}


class Rehearsal(Protocol):
    """What a run would do."""

    def to_json(self) -> dict[str, Any]: ...

    def text(self) -> str: ...


def print_rehearsal(rehearsal: Rehearsal, request: Request) -> None:
    """What --dry-run ends with."""
    emit(json.dumps(rehearsal.to_json(), indent=2) if request.as_json else rehearsal.text())


class Shown(Protocol):
    """What a command that times something ends with."""

    @property
    def interrupted(self) -> bool: ...

    def to_json(self) -> dict[str, Any]: ...

    def printer(self) -> Printer: ...


def show(result: Shown, request: Request) -> None:
    """The result for a program or for people; the process ends here where the user has stopped it."""
    if request.as_json:
        print(json.dumps(result.to_json(), indent=2))
    else:
        result.printer().show(make_console(no_color=request.no_color))
    if result.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def conclude(
    result: Result[D],
    request: Request,
    *,
    exit_code: int = 0,
    failure: AutotuneError | None = None,
) -> None:
    """What every tuning command ends with: its result, and the contract's exit code."""
    show(result, request)
    if failure is not None:
        raise failure
    if exit_code:
        raise typer.Exit(exit_code)
    if request.fail_if_no_winner and result.verdict != "win":
        raise typer.Exit(EXIT_NO_WINNER)
