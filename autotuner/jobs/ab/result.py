"""What an experiment comes to: the contract's JSON document, with both arms beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from autotuner.iree.compile import shell_line
from autotuner.jobs.ab.arms import ArmKind
from autotuner.programs.arbiter import Arbiter
from autotuner.system.text import microseconds, times
from autotuner.tuning.printer import Printer, tell_problem
from autotuner.tuning.result import Result

_NEXT = {
    "win": "compile as B: the first line of `repeat B` does",
    "no-winner": "stay with A: B is not faster by more than the smallest gain that counts",
}
"""Where the general advice speaks of IREE's default and of a search; here there are two arms."""


@dataclass(frozen=True)
class ArmReport:
    """One arm, with what is needed to repeat it by hand."""

    name: str
    kind: ArmKind
    flags: tuple[str, ...]
    """What it adds to the target's flags."""
    spec: Path | None
    folder: Path
    compile: tuple[str, ...]
    """Run in its folder."""
    benchmark: tuple[str, ...] = ()
    """Likewise; empty without a device."""
    repeat: int = 1
    binary: str = ""
    """The digest of its code."""
    us: float | None = None
    error: float | None = None
    """Against the reference; of a model, against what is right: arm A where nothing else is known."""
    applied: int = 0
    """Operations that its spec is proven to reach."""
    version: str = ""
    """Of a compiler."""
    kernels: tuple[Mapping[str, Any], ...] = ()
    """Which problems its microkernel computes, by which variant, and how often that is called."""
    share: float | None = None
    """Of the model's time: the dispatches that the other arm does not have."""
    dispatches: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """Lines for a shell."""
        enter = f"cd {shell_line([str(self.folder)])}"
        return tuple(f"{enter} && {shell_line(words)}" for words in (self.compile, self.benchmark) if words)

    @property
    def divisor(self) -> str:
        return f"# divide the time by {self.repeat}: the module repeats its dispatches that often"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "flags": list(self.flags),
            "spec": str(self.spec) if self.spec else None,
            "us": self.us,
            "error": self.error,
            "applied": self.applied,
            "command": list(self.commands),
            "repeat": self.repeat,
            "binary": self.binary,
            **({"version": self.version} if self.version else {}),
            **({"kernels": [dict(kernel) for kernel in self.kernels]} if self.kernels else {}),
            **({"share": self.share, "dispatches": list(self.dispatches)} if self.share is not None else {}),
        }


@dataclass(frozen=True)
class AbDetails:
    """What an experiment tells beside the contract's document: `baseline` is arm A, `best` is arm B."""

    arms: tuple[ArmReport, ...] = ()
    difference: float | None = None
    """Relative error between what both arms compute."""
    same_code: bool = False
    share_from: str = ""
    written: bool = False
    """The files that the result names are this run's own."""
    searched: bool = False
    """All variants of a microkernel took part."""
    why: str = ""
    """Where no variant of a microkernel works: how the first of them ended."""
    arbiter: Arbiter | None = None
    """Of a model: whose outputs are right."""

    default_is_wrong = False
    """Arm A may be anything; the reason says where it is wrong."""

    @property
    def tried(self) -> int:
        """Beside arm A."""
        return sum(arm.us is not None for arm in self.arms[1:])

    def to_json(self) -> dict[str, Any]:
        return {
            "arms": [arm.to_json() for arm in self.arms],
            "difference": self.difference,
            "same_code": self.same_code,
            **({"share_from": self.share_from} if self.share_from else {}),
            **({"why": self.why} if self.why else {}),
        }

    def tell(self, result: AbResult, printer: Printer) -> None:
        (_tell_variants if self.searched else _tell_experiment)(result, printer)


AbResult = Result[AbDetails]


def with_arms(result: Result, details: AbDetails) -> AbResult:
    """The result of a search among a microkernel's variants, as an experiment. No other kernels can join that."""
    values = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "details"}
    return AbResult(**{**values, "looked": result.looked | {"microkernels"}}, details=details)


def write_commands(arm: ArmReport, *, stderr: str) -> None:
    """The files of a candidate's folder that say how it was made."""
    lines = [f"cd {shell_line([str(arm.folder)])}", shell_line(arm.compile)]
    if arm.benchmark:
        lines.append(shell_line(arm.benchmark))
        lines += [arm.divisor] if arm.repeat > 1 else []
    (arm.folder / "command.txt").write_text("\n".join(lines) + "\n")
    (arm.folder / "stderr.txt").write_text(stderr)


# --- what is said to people -------------------------------------------------------------------------------------------


def _tell_variants(result: AbResult, printer: Printer) -> None:
    """A microkernel's variants against the default."""
    tell_problem(result, printer)
    kernel = result.details.arms[1] if len(result.details.arms) > 1 else None
    if kernel is not None and kernel.us is not None and result.best is not None and not result.best.config:
        printer.line("kernel", f"{microseconds(kernel.us)}  {kernel.name}, the fastest that was timed of it")
    _tell_arms(result, printer)


def _tell_experiment(result: AbResult, printer: Printer) -> None:
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
