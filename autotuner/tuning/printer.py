"""A result for people: a word and a line each, listings where there are many; on a terminal, or as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from autotuner.carriers.carrier import carrier_named
from autotuner.carriers.flagfile import use_line
from autotuner.iree.folder import PROBLEM
from autotuner.space.table import ABSENT, Value
from autotuner.system.listing import Listing
from autotuner.system.text import clean, count, microseconds
from autotuner.system.workspace import Workspace, absolute

if TYPE_CHECKING:
    from autotuner.tuning.result import Counts, Result

    AnyResult = Result[Any]

DRIFTED = "the machine's speed changed between pairs, so the two times alone give another ratio"
_ALIKE = 0.02
"""A speedup and the quotient of the two times beside it that differ by less agree, as far as a reader sees."""
SHOWN = 3
"""How many of a ranking are printed."""
VERDICTS = {
    "win": "bold green",
    "no-winner": "bold yellow",
    "inconclusive": "yellow",
    "failed": "red",
    "interrupted": "yellow",
}
"""How verdicts look on a terminal."""
_NO_DEFAULT = (
    "do not use IREE's default; compile with the flags of the `route` line (of a problem: `stock`), or as the "
    "`candidate` line or the note says"
)


@dataclass(frozen=True)
class End:
    """One way in which a run can end, and what to do next. The table of docs/verdicts.md."""

    case: str
    means: str
    do: str
    fits: Callable[[AnyResult], bool]


ENDS = (
    End(
        "the run was stopped",
        "What was finished is kept.",
        "run the same command with --resume: it goes on from here (a bundle: once more)",
        lambda result: result.interrupted,
    ),
    End(
        "`win`",
        "The winner is right, its spec applies, and on fresh data it is faster by more than the smallest gain that "
        "counts: than the default or, where the default is wrong and faster, than the best route that is right.",
        "compile with the `use` line",
        lambda result: result.verdict == "win",
    ),
    End(
        "`compile-only` with `--bundle`",
        "Candidates were built and proven to apply, for another machine to time.",
        "`autotune bundle run` on the machine with the device, then `autotune bundle import` here",
        lambda result: result.bundle is not None,
    ),
    End(
        "`compile-only`",
        "There was no device. Candidates were built and proven to apply; their order is an estimate.",
        "run the same command where the device is: only timing tells what is faster",
        lambda result: result.verdict == "compile-only",
    ),
    End(
        "IREE's default is wrong here",
        "Nothing that is right was proven to be faster. The reason names a right route where there is one.",
        _NO_DEFAULT,
        lambda result: result.default_is_wrong,
    ),
    End(
        "`inconclusive` with `cause`",
        "The reason names what is in the way; more time does not help.",
        "mend what the reason names, and run the same command again; or keep IREE's default",
        lambda result: result.verdict == "inconclusive" and result.cause is not None,
    ),
    End(
        "`inconclusive`",
        "Something may be faster, but the time or the noise of the machine did not allow a proof.",
        "give a longer --budget (of a bundle, to `autotune bundle run`), on a quieter machine if this was noisy: "
        "builds are kept",
        lambda result: result.verdict == "inconclusive",
    ),
    End(
        "`no-winner`",
        "Nothing can be faster than the default by more than the smallest gain that counts; or nothing else works, or "
        "there is nothing to choose, as the reason says.",
        "keep IREE's default; --effort full and --microkernels auto look further",
        lambda _: True,
    ),
)
"""The first that fits is the one."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a line is about, and what it says; without a name it belongs to the line before."""

    name: str
    text: str
    style: str = ""


class Printer:
    """Collects what is said of a result, in order: with what all results have in common."""

    def __init__(self) -> None:
        self.parts: list[Line | Listing] = []

    def line(self, name: str, text: str, *, style: str = "") -> None:
        self.parts.append(Line(name, text, style))

    def table(self, listing: Listing) -> None:
        self.parts.append(listing)

    def show(self, console: Console) -> None:
        for part in self.parts:
            if isinstance(part, Listing):
                console.print(part, soft_wrap=True)
            else:
                text = f"{part.name:<11}{part.text}"
                console.print(text, style=part.style, highlight=False, markup=False, soft_wrap=True)

    def text(self) -> str:
        """As it goes into a file."""
        console = Console(color_system=None, force_terminal=False, force_jupyter=False, highlight=False, emoji=False)
        with console.capture() as captured:
            self.show(console)
        return clean(captured.get()).rstrip("\n")

    def verdict(self, result: AnyResult, *, what: str = "problem", more: str = "") -> None:
        """The verdict, of what, and what was allowed for it."""
        self.line("verdict", f"{result.verdict}: {result.reason}", style=VERDICTS.get(result.verdict, "bold"))
        self.line(what, f"{result.problem['name']} on {result.target} ({result.device}){more}")
        if allowed := result.problem.get("allow_precision"):
            self.line("precision", f"results of {allowed} accuracy were accepted (--allow-precision)")

    def speedup(self, result: AnyResult, *, over: str = " over default") -> None:
        if (ratio := result.speedup) is not None:
            interval = f"95 % interval {ratio.bounds}"
            self.line("speedup", f"{ratio.median:.3f}x{over}, {interval}")
            times = result.baseline.us, result.best.us if result.best else None
            if times[0] and times[1] and abs(math.log(times[0] / times[1] / ratio.median)) > _ALIKE:
                quotient = times[0] / times[1]
                self.line("", f"from pairs timed side by side; {DRIFTED} ({quotient:.3f})")

    def caches(self, result: AnyResult, *, names: tuple[str, str] = ("default", "best")) -> None:
        if result.caches is not None:
            self.line("cold cache", result.caches.words(*names))

    def over_stock(self, result: AnyResult, *, what: str) -> None:
        if (ratio := result.speedup_over_stock) is not None:
            self.line("", f"{ratio.median:.3f}x over the best {what}, {ratio.bounds}")

    def files(self, result: AnyResult, *, spec: str = "spec", note: str = "", program: Path | None = None) -> None:
        """What was shipped and how it is used, or how to go on."""
        if result.spec is not None:
            self.line(spec, f"{result.spec}{note}")
        if result.flagfile is not None:
            self.line("flags", str(result.flagfile))
            self.line("use", use_line(result.flagfile, program=program))
        else:
            self.next(result)

    def next(self, result: AnyResult) -> None:
        self.line("next", next(end.do for end in ENDS if end.fits(result)))


def tell_problem(result: AnyResult, printer: Printer) -> None:
    """One problem: the verdict, the times, and what to do with it."""
    best, stock, line, counts = result.best, result.stock, printer.line, result.counts
    printer.verdict(result)
    if result.default_is_wrong and result.reference is not None and result.reference.default_us is not None:
        line("default", f"{_time(result.reference.default_us, result)}, with wrong results")
    elif result.baseline.us is not None:
        line("default", _time(result.baseline.us, result))
    if stock.us is not None and stock.flags:
        line("stock", f"{_time(stock.us, result)}  {' '.join(stock.flags)}")
    if result.baseline.estimate is not None:
        line("default", f"estimate {result.baseline.estimate['score']:.2f}, never timed")
    for entry in result.ranking[:SHOWN]:
        score = (entry.measured.estimate or {}).get("score", 0.0)
        line("estimate", f"{score:.2f} ({entry.candidate})  {knobs(entry.config)}")
    if best is not None and (result.ranking or (result.default_is_wrong and result.verdict != "win" and best.config)):
        folder = result.workspace / "candidates" / result.run / str(best.candidate)
        if folder.is_dir():
            line("candidate", f"{folder} (spec.mlir, command.txt), {'never timed' if result.ranking else 'right'}")
    if best is not None and best.us is not None and counts.rivals and not result.ranking:
        line("best", f"{_time(best.us, result)}  {knobs(best.config) or f'route {best.measured.route}'}")
    printer.speedup(result, over=f" over {result.baseline_words}")
    if stock.flags and best and best.config:
        printer.over_stock(result, what="stock route")
    printer.caches(result, names=(result.baseline_words, "best"))
    if counts.asked:
        line("candidates", _candidates(counts))
    carrier = carrier_named(result.carrier)
    printer.files(result, spec=carrier.file_word, program=_program(result))
    if carrier.only_for and result.flagfile is not None:
        line("", carrier.only_for)


def _program(result: AnyResult) -> Path | None:
    """The problem as MLIR, where the winner's folder was kept (--keep)."""
    if result.best is None or result.best.candidate is None:
        return None
    file = Workspace(absolute(result.workspace)).run_folder(result.run) / result.best.candidate / PROBLEM
    return file if file.is_file() else None


def knobs(config: Mapping[str, Value]) -> str:
    """The knobs that a configuration has: those of other parts of the space say nothing of it."""
    return ", ".join(f"{name}={value}" for name, value in config.items() if value != ABSENT)


def _candidates(counts: Counts) -> str:
    """What became of those that were asked for; IREE's default is one of the routes."""
    failed = {str(name): n for name, n in counts.failed.items() if n}
    reasons = f" ({', '.join(f'{name} {n}' for name, n in failed.items())})" if failed else ""
    searched = f"{counts.asked - counts.routes} of {count(counts.space, 'configuration')}"
    searched = searched if counts.space else "no configuration"
    return (
        f"{searched} and {count(counts.routes, 'route')} asked, {counts.built} built, "
        f"{count(counts.duplicate, 'duplicate')}, {counts.timed} timed, {sum(failed.values())} failed{reasons}"
    )


def _time(us: float, result: AnyResult) -> str:
    rate = result.problem["flops"] / us / 1e3
    return f"{microseconds(us)} ({rate:.1f} GFLOP/s)"
