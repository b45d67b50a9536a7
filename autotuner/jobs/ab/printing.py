"""What is said to people of an experiment: the verdict, both times, and how to see it oneself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotuner.system.text import microseconds, times
from autotuner.tuning.printer import tell_problem

if TYPE_CHECKING:
    from autotuner.jobs.ab.result import AbResult
    from autotuner.tuning.printer import Printer


_NEXT = {
    "win": "compile as B: the first line of `repeat B` does",
    "no-winner": "stay with A: B is not faster by more than the smallest gain that counts",
}
"""Where the general advice speaks of IREE's default and of a search; here there are two arms."""


def tell_variants(result: AbResult, printer: Printer) -> None:
    """A microkernel's variants against the default."""
    tell_problem(result, printer)
    kernel = result.details.arms[1] if len(result.details.arms) > 1 else None
    if kernel is not None and kernel.us is not None and result.best is not None and not result.best.config:
        printer.line("kernel", f"{microseconds(kernel.us)}  {kernel.name}, the fastest that was timed of it")
    _tell_arms(result, printer)


def tell_experiment(result: AbResult, printer: Printer) -> None:
    """The verdict, both times, and how to see it oneself."""
    details, line = result.details, printer.line
    printer.verdict(result, what="model" if result.problem["op"] == "model" else "problem")
    for letter, arm in zip("AB", details.arms, strict=False):
        kind = f" ({arm.kind})" if arm.kind != arm.name else ""
        line(letter, f"{microseconds(arm.us)}  {arm.name}{kind}")
        if arm.version:
            line("", arm.version)
        for kernel in arm.kernels:
            line("", f"{kernel['variant']} for {kernel['problem']}, called {times(kernel['calls'])}")
        if arm.share is not None:
            names = ", ".join(arm.dispatches[:3]) + (" …" if len(arm.dispatches) > 3 else "")
            line("", f"{arm.share:.1%} of its time in what the other arm does not have: {names or 'nothing'}")
    if not details.same_code:
        printer.speedup(result, over=", B over A")
        printer.caches(result, names=("A", "B"))
    _tell_arms(result, printer)
    if details.written:
        printer.files(result)
    elif result.verdict in _NEXT and not result.interrupted:
        line("next", _NEXT[result.verdict])
    else:
        printer.next(result)


def _tell_arms(result: AbResult, printer: Printer) -> None:
    """How right both are, and the commands that repeat them."""
    details, line = result.details, printer.line
    if details.difference is not None:
        errors = [f"{x:.1e}" if (x := arm.error) is not None else "–" for arm in details.arms]
        against = "" if result.problem["op"] == "model" else f"; A {errors[0]}, B {errors[1]} from the reference"
        line("outputs", f"relative error {details.difference:.1e} between both{against}")
    for letter, arm in zip("AB", details.arms, strict=False):
        for number, command in enumerate(arm.commands):
            line("" if number else f"repeat {letter}", command)
        if arm.repeat > 1 and arm.benchmark:
            line("", arm.divisor)
