"""The result of an experiment: the contract's JSON document, with both arms beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from autotuner.jobs.ab.arms import ArmKind
from autotuner.programs.arbiter import Arbiter
from autotuner.system.text import microseconds, throughput, times
from autotuner.tuning.printer import Printer, Told, shown
from autotuner.tuning.result import Result

_NEXT = {"win": "compile as B", "no-winner": "stay with A"}
"""The next step for two arms, where the general one names IREE's default or a search."""


SIDES = A, B = "a", "b"
COMMANDS = "command.txt"


@dataclass(frozen=True)
class ArmFacts:
    """One arm of the document."""

    name: str
    kind: ArmKind
    us: float | None = None
    flags: tuple[str, ...] = ()
    """What it adds to the target's flags."""
    spec: Path | None = None
    error: float | None = None
    """Against the reference; of a model, against what is right: arm A where nothing else is known."""
    applied: int = 0
    """Operations that its spec is proven to reach."""
    command: tuple[str, ...] = ()
    """Lines for a shell: what compiles it, and what times it."""
    repeat: int = 1
    binary: str = ""
    kernels: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        own |= {name: list(own[name]) for name in ("flags", "command", "kernels")}
        own["spec"] = str(self.spec) if self.spec else None
        return own if self.kernels else {name: value for name, value in own.items() if name != "kernels"}


@dataclass(frozen=True)
class AbDetails(Told):
    """What an experiment's document has beside the contract's: `baseline` is arm A, `best` is arm B."""

    arms: tuple[ArmFacts, ...] = ()
    difference: float | None = None
    """Relative error between the results of both arms."""
    same_code: bool = False
    written: bool = False
    """The files that the result names are this run's own."""
    why: str = ""
    """Where no variant of a microkernel works: how the first of them ended."""
    arbiter: Arbiter | None = None
    """Of a model: whose outputs are right."""

    def to_json(self) -> dict[str, Any]:
        return {
            "arms": [arm.to_json() for arm in self.arms],
            "difference": self.difference,
            "same_code": self.same_code,
            **({"why": self.why} if self.why else {}),
        }

    def tell(self, result: AbResult, printer: Printer) -> None:
        """The verdict, both times, and how to see it oneself."""
        line = printer.line
        printer.verdict(result, what="model" if result.problem["op"] == "model" else "problem")
        for letter, arm in zip("AB", self.arms, strict=False):
            kind = f" ({arm.kind})" if arm.kind != arm.name else ""
            rate = throughput(result.problem.get("flops") or 0, arm.us) if arm.us else ""
            line(letter, f"{microseconds(arm.us):>10}  {f'{rate:>12}  ' if rate else ''}{arm.name}{kind}")
            for kernel in arm.kernels:
                printer.more(letter, f"{kernel['variant']} for {kernel['problem']}, called {times(kernel['calls'])}")
        if self.difference is not None:
            errors = [f"{x:.1e}" if (x := arm.error) is not None else "–" for arm in self.arms]
            line("outputs", f"relative error {self.difference:.1e} between both")
            if result.problem["op"] != "model":
                printer.more("outputs", f"relative error of A {errors[0]}, of B {errors[1]} against the reference")
        folder = result.workspace / "candidates" / result.run
        if all((folder / side / COMMANDS).is_file() for side in SIDES):
            line("repeat", f"{shown(folder)}/{{{','.join(SIDES)}}}/{COMMANDS} compile and time each by hand")
        if self.written:
            printer.files(result)
        elif result.verdict in _NEXT and not result.interrupted:
            line("next", _NEXT[result.verdict])
        else:
            printer.next(result)
        if not self.same_code:
            printer.caches(result, names=("A", "B"))
        printer.end(result)


AbResult = Result[AbDetails]


def divisor(repeat: int) -> str:
    return f"# divide the time by {repeat}: the module repeats its dispatches that often"
