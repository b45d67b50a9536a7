"""What an experiment comes to: the contract's JSON document, with both arms beside it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from autotuner.jobs.ab.racing import ArmRun
from autotuner.programs.arbiter import Arbiter
from autotuner.system.text import microseconds, times
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import D, Result

_NEXT = {
    "win": "compile as B: the first line of `repeat B` does",
    "no-winner": "stay with A: B is not faster by more than the smallest gain that counts",
}
"""Where the general advice speaks of IREE's default and of a search; here there are two arms."""


@dataclass(frozen=True)
class AbDetails:
    """What an experiment tells beside the contract's document: `baseline` is arm A, `best` is arm B."""

    arms: tuple[ArmRun, ...] = ()
    difference: float | None = None
    """Relative error between what both arms compute."""
    same_code: bool = False
    written: bool = False
    """The files that the result names are this run's own."""
    why: str = ""
    """Where no variant of a microkernel works: how the first of them ended."""
    arbiter: Arbiter | None = None
    """Of a model: whose outputs are right."""

    default_is_wrong = False
    """Arm A may be anything; the reason says where it is wrong."""

    def to_json(self) -> dict[str, Any]:
        return {
            "arms": [arm.to_json() for arm in self.arms],
            "difference": self.difference,
            "same_code": self.same_code,
            **({"why": self.why} if self.why else {}),
        }

    def tell(self, result: AbResult, printer: Printer) -> None:
        _tell_experiment(result, printer)


AbResult = Result[AbDetails]


def with_details(result: Result[Any], details: D, **changed: Any) -> Result[D]:
    """What a part of a run came to, as the result of the whole."""
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    return Result(**{**values, **changed, "details": details})


# --- what is said to people -------------------------------------------------------------------------------------------


def _tell_experiment(result: AbResult, printer: Printer) -> None:
    """The verdict, both times, and how to see it oneself."""
    details, line = result.details, printer.line
    printer.verdict(result, what="model" if result.problem["op"] == "model" else "problem")
    for letter, arm in zip("AB", details.arms, strict=False):
        kind = f" ({arm.kind})" if arm.kind != arm.name else ""
        line(letter, f"{microseconds(arm.us)}  {arm.name}{kind}")
        if arm.how.version:
            line("", arm.how.version)
        for kernel in arm.how.kernels:
            line("", f"{kernel['variant']} for {kernel['problem']}, called {times(kernel['calls'])}")
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
