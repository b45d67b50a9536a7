"""What every tuning command does: tune with a watcher, print, exit. Imported when one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from autotuner.cli.console import emit, emit_json, make_console, note, watching
from autotuner.cli.request import Request
from autotuner.errors import EXIT_INTERRUPTED, EXIT_NO_WINNER, AutotuneError
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import own_folder
from autotuner.microkernels.library import is_shipped
from autotuner.microkernels.loader import FILE
from autotuner.microkernels.variants import Kernel
from autotuner.system.text import printable
from autotuner.tuning.dry_run import Rehearsal
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import D, Result
from autotuner.tuning.run import Document
from autotuner.tuning.session import Watched


@contextmanager
def watched(request: Request) -> Iterator[Watched]:
    """A run's progress on stderr; Ctrl-C asks it to end."""
    with watching(quiet=request.quiet) as (reporter, stop):
        yield {"reporter": reporter, "stop": stop}


def show(result: Document, printer: Printer, request: Request) -> None:
    """The result for a program or for people; the process ends here where the user has stopped it."""
    if request.as_json:
        emit_json(result.to_json())
    else:
        printer.show(make_console(), verbose=request.verbose)
    if result.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def carry_out(
    request: Request,
    run: Callable[[Watched], Result[D]],
    *,
    rehearse: Callable[[], Rehearsal] | None = None,
    kernels: Sequence[Kernel] = (),
    exit_code: Callable[[Result[D]], int] = lambda _: 0,
    failure: Callable[[Result[D]], AutotuneError | None] = lambda _: None,
) -> None:
    """Runs (or rehearses), prints the result, and exits with the contract's code.

    `kernels` take part; `exit_code` and `failure` are asked of the result.
    """
    say_whose_code(kernels, request.workspace)
    if request.dry_run and rehearse is not None:
        rehearsal = rehearse()
        if request.as_json:
            emit_json(rehearsal.to_json())
        else:
            emit(rehearsal.text())
        return
    with watched(request) as watch:
        result = run(watch)
    show(result, Printer.of(result), request)
    if (failed := failure(result)) is not None:
        raise failed
    if code := exit_code(result):
        raise typer.Exit(code)
    if request.fail_if_no_winner and result.verdict != "win":
        raise typer.Exit(EXIT_NO_WINNER)


def find_tools(folder: Path | None) -> Tools:
    """IREE's programs, for a command without a run; warnings about them are printed at once."""
    tools = Tools.find(folder)
    for warning in tools.warnings():
        note(warning)
    return tools


def say_whose_code(kernels: Sequence[Kernel], workspace: Path) -> None:
    """Says once, on stderr, which kernels do not come with autotune: their code will run here."""
    named = {kernel.name for kernel in kernels}
    there = {file.parent.name for file in own_folder(workspace).glob(f"*/{FILE}")} if kernels else set()
    own = {name for name in there & named if not is_shipped(name)}
    own |= {kernel.name for kernel in kernels if kernel.objects}
    if own:
        said = f"not of autotune: {', '.join(map(printable, sorted(own)))}"
        note(f"{said}. The code runs with your rights, see SECURITY.md")
