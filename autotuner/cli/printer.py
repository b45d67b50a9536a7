"""How every tuning command prints its result for people: a word and a line each, tables where there are many."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from autotuner.carriers.carrier import carrier_named
from autotuner.carriers.flagfile import use_line
from autotuner.cli.console import microseconds
from autotuner.report.advice import advice
from autotuner.report.tables import VERDICTS
from autotuner.tuning.result import Best, Result

AnyResult = Result[Any]
SHOWN = 3
"""How many of a ranking are printed."""


class Printer:
    """The parts that results have in common."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def line(self, name: str, text: str, *, style: str = "") -> None:
        self.console.print(f"{name:<11}{text}", style=style, highlight=False, markup=False, soft_wrap=True)

    def table(self, table: Table) -> None:
        self.console.print(table)

    def verdict(self, result: AnyResult, *, what: str = "problem", more: str = "") -> None:
        """The verdict, of what, and what was allowed for it."""
        self.line("verdict", f"{result.verdict}: {result.reason}", style=VERDICTS.get(result.verdict, "bold"))
        self.line(what, f"{result.problem['name']} on {result.target} ({result.device}){more}")
        if allowed := result.problem.get("allow_precision"):
            self.line("precision", f"results of {allowed} accuracy were accepted (--allow-precision)")

    def speedup(self, result: AnyResult, *, over: str = " over default") -> None:
        if (ratio := result.speedup) is not None:
            interval = f"95 % interval {ratio.low:.3f} to {ratio.high:.3f}"
            self.line("speedup", f"{ratio.median:.3f}x{over}, {interval}")

    def caches(self, result: AnyResult, *, names: tuple[str, str] = ("default", "best")) -> None:
        if result.caches is not None:
            self.line("cold cache", result.caches.words(*names))

    def over_stock(self, result: AnyResult, *, what: str) -> None:
        if (ratio := result.speedup_over_stock) is not None:
            self.line("", f"{ratio.median:.3f}x over the best {what}, {ratio.low:.3f} to {ratio.high:.3f}")

    def files(self, result: AnyResult, *, spec: str = "spec", note: str = "") -> None:
        """What was shipped and how it is used, or how to go on."""
        if result.spec is not None:
            self.line(spec, f"{result.spec}{note}")
        if result.flagfile is not None:
            self.line("flags", str(result.flagfile))
            self.line("use", use_line(result.flagfile))
        else:
            self.next(result)

    def next(self, result: AnyResult) -> None:
        self.line("next", advice(result).do)


def print_result(result: AnyResult, printer: Printer) -> None:
    """One problem: the verdict, the times, and what to do with it."""
    best, stock, line = result.best, result.stock, printer.line
    printer.verdict(result)
    if result.baseline.us is not None:
        line("default", _time(result.baseline.us, result))
    if stock.us is not None and stock.flags:
        line("stock", f"{_time(stock.us, result)}  {' '.join(stock.flags)}")
    for entry in result.ranking[:SHOWN]:
        score = (entry.estimate or {}).get("score", 0.0)
        line("estimate", f"{score:.2f} ({entry.candidate})  {_knobs(entry)}")
    if best is not None and best.us is not None and not result.ranking:
        line("best", f"{_time(best.us, result)}  {_knobs(best) or f'route {best.measured.route}'}")
    printer.speedup(result)
    printer.caches(result)
    if stock.flags and best and best.config:
        printer.over_stock(result, what="stock route")
    counts = result.counts
    failed = {str(name): n for name, n in counts.failed.items() if n}
    line(
        "candidates",
        f"{counts.asked} of {counts.space} asked, {counts.built} built, {counts.duplicate} duplicates, "
        f"{counts.timed} timed, {sum(failed.values())} failed{_reasons(failed)}",
    )
    carrier = carrier_named(result.carrier)
    printer.files(result, spec=carrier.file_word)
    if carrier.only_for and result.flagfile is not None:
        line("", carrier.only_for)


def _knobs(best: Best) -> str:
    return ", ".join(f"{name}={value}" for name, value in best.config.items())


def _reasons(failed: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {n}' for name, n in failed.items())})" if failed else ""


def _time(us: float, result: AnyResult) -> str:
    rate = result.problem["flops"] / us / 1e3
    return f"{microseconds(us)} ({rate:.1f} GFLOP/s)"
