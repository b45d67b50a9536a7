"""What every tuning command does: parse, tune with a watcher, print, exit."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from autotuner.carriers.flagfile import use_line
from autotuner.cli.console import emit, make_console, make_reporter, microseconds
from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.request import Request
from autotuner.errors import EXIT_INTERRUPTED, EXIT_NO_WINNER
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.progress import Stop
from autotuner.tuning.dry_run import rehearse
from autotuner.tuning.result import Result
from autotuner.tuning.single import tune

SHOWN = 3
"""How many of a ranking are printed."""
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_tuning(problem: Problem, request: Request) -> None:
    """Tunes one problem and ends the process with the contract's exit code."""
    problem = problem.allowing(request.allow_precision)
    target = request.chip()
    options = request.options()
    request.refuse_untimed("allow_precision")
    stderr = make_console(stderr=True, no_color=request.no_color)
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    if request.dry_run:
        rehearsal = rehearse(problem, target, options=options)
        if request.as_json:
            print(json.dumps(rehearsal.to_json(), indent=2))
        else:
            emit(rehearsal.text())
        return
    stop = Stop()
    with make_reporter(stderr, quiet=request.quiet) as reporter, ctrl_c(stop, stderr):
        result = tune(problem, target, options=options, reporter=reporter, stop=stop)
    conclude(result, request, print_result)


def conclude(result: Any, request: Request, show: Callable[[Any, Console], None]) -> None:
    """What every tuning command ends with: the result for a program or for people, and the contract's exit code."""
    if request.as_json:
        print(json.dumps(result.to_json(), indent=2))
    else:
        show(result, make_console(no_color=request.no_color))
    if result.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if request.fail_if_no_winner and result.verdict != "win":
        raise typer.Exit(EXIT_NO_WINNER)


def print_result(result: Result, console: Console) -> None:
    """The verdict, and what to do with it."""
    document = result.to_json()
    colour = {"win": "bold green", "no-winner": "bold yellow"}.get(result.verdict, "bold")

    def line(name: str, text: str, *, style: str = "") -> None:
        console.print(f"{name:<11}{text}", style=style, highlight=False, markup=False, soft_wrap=True)

    speedup, over = result.speedup, result.speedup_over_stock
    line("verdict", f"{result.verdict}: {result.reason}", style=colour)
    line("problem", f"{result.problem['name']} on {result.target} ({result.device})")
    if allowed := result.problem.get("allow_precision"):
        line("precision", f"results of {allowed} accuracy were accepted (--allow-precision)")
    if result.baseline["us"] is not None:
        line("default", _time(document["baseline"]["us"], result))
    if result.stock["us"] is not None and result.stock["flags"]:
        line("stock", f"{_time(document['stock']['us'], result)}  {' '.join(result.stock['flags'])}")
    for entry in result.ranking[:SHOWN]:
        knobs = ", ".join(f"{k}={v}" for k, v in entry["config"].items())
        line("estimate", f"{entry['estimate']['score']:.2f} ({entry['candidate']})  {knobs}")
    if result.best is not None and not result.ranking:
        config = ", ".join(f"{k}={v}" for k, v in result.best["config"].items()) or f"route {result.best['route']}"
        line("best", f"{_time(result.best['us'], result)}  {config}")
    if speedup is not None:
        line("speedup", f"{speedup.median:.3f}x over default, 95 % interval {speedup.low:.3f} to {speedup.high:.3f}")
    if over is not None and result.stock["flags"] and result.best and result.best["config"]:
        line("", f"{over.median:.3f}x over the best stock route, {over.low:.3f} to {over.high:.3f}")
    counts = result.counts
    failed = {name: n for name, n in counts["failed"].items() if n}
    line(
        "candidates",
        f"{counts['asked']} of {counts['space']} asked, {counts['built']} built, {counts['duplicate']} duplicates, "
        f"{counts['timed']} timed, {sum(failed.values())} failed{_reasons(failed)}",
    )
    if result.spec is not None:
        line("executable" if result.carrier == "substitution" else "spec", str(result.spec))
    if result.flagfile is not None:
        line("flags", str(result.flagfile))
        line("use", use_line(result.flagfile))
        if result.carrier == "substitution":
            line("", "only for this very program: the executable is substituted by its dispatch's name")
    elif result.interrupted:
        line("next", "the same command with --resume goes on from here")


def _reasons(failed: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {n}' for name, n in failed.items())})" if failed else ""


def _time(us: float, result: Result) -> str:
    rate = result.problem["flops"] / us / 1e3
    return f"{microseconds(us)} ({rate:.1f} GFLOP/s)"


@contextmanager
def ctrl_c(stop: Stop, console: Console) -> Iterator[None]:
    """The first Ctrl-C asks the run to finish its row and report; the second ends it at once.

    So do SIGTERM, and SIGHUP when the terminal is closed; a signal that the caller has us ignore (nohup) stays ignored.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if stop.requested:
            process.shut_down()
            raise KeyboardInterrupt
        stop.request()
        with suppress(OSError):  # who watched may be gone
            console.print("stopping after this row; Ctrl-C again to stop at once", highlight=False)

    wanted = [number for number in INTERRUPTS if signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _leave_terminal() -> None:
    """A terminal that has been closed answers every write with an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if os.isatty(stream.fileno()):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
