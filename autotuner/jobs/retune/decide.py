"""What becomes of an entry: rules on what was proven and timed, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotuner.measure.blocks import Interval
from autotuner.system.text import microseconds
from autotuner.tuning.result import FinalVerdict

State = Literal["kept", "replaced", "dropped", "skipped", "failed"]
SLOWER = 0.05
"""Beyond its old time: what takes longer now is searched again, though it still wins. Not where IREE's default takes
longer by as much: then it is the machine that is slower, and no search would change that."""


@dataclass(frozen=True)
class Raced:
    """The old winner against the new default."""

    verdict: FinalVerdict
    reason: str
    us: float | None = None
    baseline_us: float | None = None
    speedup: Interval | None = None
    run: str = ""
    timed_in: str = ""
    """The device's state: on the open device, or in a process for each timing."""
    failure: str = ""
    """Why it cannot be raced: it does not compile, run, or compute the right thing any more."""


@dataclass(frozen=True)
class Before:
    """What it took on the same machine when it was found, and IREE's default with it."""

    us: float
    baseline_us: float | None = None


@dataclass(frozen=True)
class Standing:
    """Where an old winner stands before anything is searched."""

    works: bool
    """It applies and nothing shows that it is not faster any more: no search may lose it."""
    search: bool
    """Its place is worth another search."""
    reason: str


def standing(*, lost: str, raced: Raced | None, before: Before | None = None) -> Standing:
    """`lost` says why it does not apply; `before` is None where it was timed on another machine, or not at all."""
    if lost:
        return Standing(False, True, lost)
    if raced is None:
        return Standing(True, False, "it applies; nothing was timed")
    if raced.failure:
        return Standing(False, True, raced.failure)
    if raced.verdict == "no-winner":
        return Standing(False, True, f"no longer faster than IREE's default: {_ratio(raced) or raced.reason}")
    if raced.verdict != "win":
        return Standing(True, False, f"it applies; the race has no verdict ({raced.reason})")
    gain = f"still faster than IREE's default: {_ratio(raced)}"
    if before is None or raced.us is None:
        return Standing(True, False, gain)
    then = f"{microseconds(raced.us)}, it was {microseconds(before.us)}"
    if raced.us <= (1 + SLOWER) * before.us:
        return Standing(True, False, f"{gain}; {then}")
    if not before.baseline_us or not raced.baseline_us:
        return Standing(True, True, f"{gain}, but slower than before: {then}")
    default = f"{microseconds(raced.baseline_us)}, it was {microseconds(before.baseline_us)}"
    if raced.us / before.us <= (1 + SLOWER) * raced.baseline_us / before.baseline_us:
        return Standing(True, False, f"{gain}; {then}, and IREE's default is slower by as much: {default}")
    return Standing(True, True, f"{gain}, but slower than before: {then}; IREE's default: {default}")


@dataclass(frozen=True)
class Searched:
    """What a search near its old place came to."""

    won: bool
    """Something is faster than the new default, and than the old winner where that still works."""
    reason: str


def decide(stands: Standing, searched: Searched | None, *, timed: bool = True) -> tuple[State, str]:
    """The state, and its reason; without a device nothing is searched."""
    if searched is None:
        late = "; no time was left to search again" if stands.search and timed else ""
        return ("kept", stands.reason) if stands.works else ("dropped", f"{stands.reason}{late}")
    if searched.won:
        return "replaced", f"{stands.reason}; a search near its place found a faster one: {searched.reason}"
    return "kept" if stands.works else "dropped", f"{stands.reason}; a search near its place: {searched.reason}"


def _ratio(raced: Raced) -> str:
    ratio = raced.speedup
    return f"{ratio.median:.3f}x ({ratio.bounds})" if ratio else ""
