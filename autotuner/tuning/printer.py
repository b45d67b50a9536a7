"""A result for people: a screen with the verdict, the times, the files and the next step; with -v all else."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from autotuner.carriers.carrier import carrier_named
from autotuner.carriers.flagfile import use_line
from autotuner.iree.folder import PROBLEM
from autotuner.measure.causes import CAUSES
from autotuner.space.table import ABSENT, Value
from autotuner.system.listing import Listing
from autotuner.system.text import clean, count, counted, microseconds, throughput
from autotuner.system.workspace import Workspace, absolute
from autotuner.tuning.result import Counts, Measured, Result

AnyResult = Result[Any]

ROWS = 6
"""Of a table on the screen, which has 24 lines for all; -v shows every row."""
VERDICTS = {
    "win": "bold green",
    "no-winner": "bold yellow",
    "inconclusive": "yellow",
    "failed": "red",
    "interrupted": "yellow",
}
"""How verdicts look on a terminal."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line's name and text; without a name it continues the line before."""

    name: str
    text: str
    style: str = ""


class Printer:
    """Collects the lines of a result, and has those that all results share."""

    def __init__(self) -> None:
        self.screen: list[Line | Listing] = []
        self.rest: list[Line | Listing] = []
        """What -v adds."""

    @classmethod
    def of(cls, result: AnyResult) -> Self:
        """What is said of a result to people."""
        printer = cls()
        (result.details or OneProblem()).tell(result, printer)
        return printer

    def line(self, name: str, text: str, *, style: str = "") -> None:
        self.screen.append(Line(name, text, style))

    def more(self, name: str, text: str) -> None:
        self.rest.append(Line(name, text))

    def table(self, listing: Listing, *, whole: Listing | None = None) -> None:
        """The first rows; all of them, or of a `whole` table with more columns, with -v."""
        hidden = len(listing.rows) - ROWS
        self.screen.append(replace(listing, rows=listing.rows[:ROWS]) if hidden > 0 else listing)
        if hidden > 0:
            self.line("", f"and {hidden} more: -v shows them")
        if hidden > 0 or whole is not None:
            self.rest.append(whole or listing)

    def show(self, console: Console, *, verbose: bool = False) -> None:
        for part in [*self.screen, *([Line("", ""), *self.rest] if verbose else [])]:
            if isinstance(part, Listing):
                console.print(part, soft_wrap=True)
            else:
                text = f"{part.name:<11}{part.text}".rstrip()
                console.print(text, style=part.style, highlight=False, markup=False, soft_wrap=True)

    def text(self, *, verbose: bool = False) -> str:
        """As plain text for a file."""
        console = Console(color_system=None, force_terminal=False, force_jupyter=False, highlight=False, emoji=False)
        with console.capture() as captured:
            self.show(console, verbose=verbose)
        return clean(captured.get()).rstrip("\n")

    # --- what all results have in common ------------------------------------------------------------------------------

    def verdict(self, result: AnyResult, *, what: str = "problem", more: str = "") -> None:
        """The verdict, the problem, and the precision that was allowed."""
        self.line("verdict", f"{result.verdict}: {result.reason}", style=VERDICTS.get(result.verdict, "bold"))
        allowed = result.problem.get("allow_precision")
        more += f", results of {allowed} accuracy accepted" if allowed else ""
        self.line(what, f"{result.problem['name']} on {result.target} ({result.device}){more}")

    def times(self, result: AnyResult, best: str, *, wrong_us: float | None = None) -> None:
        """The default, the best stock flags, and what is best: `best` says what that is."""
        failed = result.reference.failed if result.reference is not None else ""
        if failed:
            self.line("default", failed)
        elif wrong_us is not None:
            self.time("default", wrong_us, result, "with wrong results")
        elif result.baseline.us is not None:
            self.time("default", result.baseline.us, result, _words(result.baseline))
        stock, base = result.stock, result.baseline
        worse = failed or wrong_us is not None
        if stock.us is not None and stock.flags and (worse or stock.us < (base.us or math.inf)):
            self.time("stock", stock.us, result, _words(stock))
        if result.best is not None and result.best.us is not None and best:
            self.time("best", result.best.us, result, best)

    def time(self, name: str, us: float, result: AnyResult, words: str) -> None:
        rate = throughput(result.problem.get("flops") or 0, us)
        self.line(name, "  ".join(part for part in (f"{microseconds(us):>10}", f"{rate:>12}", words) if part.strip()))

    def files(self, result: AnyResult, *, spec: str = "spec", note: str = "", program: Path | None = None) -> None:
        """The written files and how to use them, or the next step."""
        if result.spec is not None:
            self.line(spec, f"{shown(result.spec)}{note}")
        if result.flagfile is not None:
            self.line("flags", shown(result.flagfile))
            where = Path(shown(program)) if program is not None else None
            self.line("use", use_line(Path(shown(result.flagfile)), program=where))
        else:
            self.next(result)

    def next(self, result: AnyResult) -> None:
        if (cause := result.ended) is not None:
            self.line("next", CAUSES[cause].do)

    def end(self, result: AnyResult) -> None:
        """Where the rest is; and with -v what is the same for all: notes, seconds, the run's folder."""
        self.line("more", f"add -v, or make a page: autotune report {result.run} -o run.html")
        for text, often in counted(result.notes):
            self.more("note", f"{text} ({often} times)" if often > 1 else text)
        if result.seconds:
            self.more("seconds", ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items() if value))
        folder = Workspace(absolute(result.workspace)).run_folder(result.run)
        if folder.is_dir():
            self.more("folder", f"{shown(folder)} (log.txt, each candidate with its command.txt)")

    def over_stock(self, result: AnyResult) -> None:
        if (ratio := result.speedup_over_stock) is not None and result.stock.flags:
            self.more("over stock", ratio.over("the best stock flags"))

    def caches(self, result: AnyResult, *, names: tuple[str, str] = ("default", "best")) -> None:
        if result.caches is not None:
            self.more("cold cache", result.caches.words(*names))


class Told(ABC):
    """What a job tells beside the contract's document, and how it is said to people."""

    @property
    def default_is_wrong(self) -> bool:
        """IREE's default was found to compute wrong results."""
        return False

    @abstractmethod
    def tell(self, result: Any, printer: Printer) -> None:
        """What the result comes to."""

    def text(self, result: AnyResult) -> str:
        """What the command line prints."""
        return Printer.of(result).text()


@dataclass(frozen=True)
class OneProblem(Told):
    """Nothing more: of one problem."""

    default_is_wrong: bool = False

    def to_json(self) -> dict[str, Any]:
        return {}

    def tell(self, result: AnyResult, printer: Printer) -> None:
        tell_problem(result, printer)


def tell_problem(result: AnyResult, printer: Printer) -> None:
    """One problem: the verdict, the times, and what to do with it."""
    best, counts = result.best, result.counts
    printer.verdict(result)
    wrong = result.default_is_wrong and result.reference is not None
    raced = best is not None and bool(counts.rivals) and not result.ranking
    printer.times(
        result,
        best=best_words(best.kind, best.config, best.measured.route) if best is not None and raced else "",
        wrong_us=result.reference.default_us if wrong and result.reference else None,
    )
    own = result.best_codegen if best is not None and best.kind == "microkernel" else None
    if own is not None and own.us is not None and own.config:  # else it is the default, or flags alone
        printer.time("codegen", own.us, result, "without microkernels")
    if best is not None and best.candidate and (result.ranking or (wrong and result.verdict != "win" and best.config)):
        folder = result.workspace / "candidates" / result.run / best.candidate
        if folder.is_dir():
            estimate = "never timed; with -o FILE.mlir its spec is written there"
            printer.line("candidate", f"{shown(folder)} (spec.mlir), {estimate if result.ranking else 'right'}")
    carrier = carrier_named(result.carrier)
    printer.files(result, spec=carrier.file_word, program=_program(result) if carrier.only_for else None)
    if carrier.only_for and result.flagfile is not None:
        printer.line("", carrier.only_for)
    if best is not None and best.config and not result.ranking:
        printer.more("best", knobs(best.config))
    if own is not None and own.us is not None:
        what = knobs(own.config) or own.measured.route
        printer.more("codegen", f"{microseconds(own.us)} without microkernels: {what}")
    if result.baseline.estimate is not None:
        printer.more("default", f"estimate {result.baseline.estimate['score']:.2f}, never timed")
    for entry in result.ranking:
        score = (entry.measured.estimate or {}).get("score", 0.0)
        printer.more("estimate", f"{score:.2f} ({entry.candidate})  {knobs(entry.config)}")
    if best is not None and best.config:
        printer.over_stock(result)
    printer.caches(result, names=(result.baseline_words, "best"))
    if counts.asked:
        printer.more("candidates", _candidates(counts))
    printer.end(result)


def best_words(kind: str, config: Mapping[str, Value], route: str | None) -> str:
    """Where the best code comes from."""
    if not config:
        return "by flags alone" if route else ""
    return "by a microkernel" if kind == "microkernel" else "by the compiler's own code, tuned"


def _words(measured: Measured) -> str:
    """The flags of a stock route."""
    return " ".join(measured.flags)


def _program(result: AnyResult) -> Path | None:
    """The problem as MLIR, where the winner's folder was kept (--keep)."""
    if result.best is None or result.best.candidate is None:
        return None
    file = Workspace(absolute(result.workspace)).run_folder(result.run) / result.best.candidate / PROBLEM
    return file if file.is_file() else None


def shown(path: Path) -> str:
    """A path, relative to the current folder where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd())) if path.is_absolute() else str(path)
    except (ValueError, OSError):
        return os.fspath(path)


def knobs(config: Mapping[str, Value]) -> str:
    """The knobs of a configuration, without those of other parts of the space."""
    return ", ".join(f"{name}={value}" for name, value in config.items() if value != ABSENT)


def _candidates(counts: Counts) -> str:
    """How the candidates ended; IREE's default is one of the routes."""
    failed = {str(name): n for name, n in counts.failed.items() if n}
    reasons = f" ({', '.join(f'{name} {n}' for name, n in failed.items())})" if failed else ""
    searched = f"{counts.asked - counts.routes} of {count(counts.space, 'configuration')}"
    searched = searched if counts.space else "no configuration"
    return (
        f"{searched} and {count(counts.routes, 'route')} asked, {counts.built} built, "
        f"{count(counts.duplicate, 'duplicate')}, {counts.timed} timed, {sum(failed.values())} failed{reasons}"
    )


def grouped(printer: Printer, rows: Iterable[tuple[str, str, str]]) -> None:
    """(state, label, reason) of parts that were not taken, by state and reason with a count."""
    found: dict[tuple[str, str], list[str]] = {}
    for state, label, reason in rows:
        if reason:
            found.setdefault((state, reason), []).append(label)
    for (state, reason), labels in found.items():
        printer.more(state, f"{labels[0]}{f' and {len(labels) - 1} more' if labels[1:] else ''}: {reason}")
