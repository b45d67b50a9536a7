"""What becomes of an entry: rules on what was proven and timed, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotuner.measure.blocks import Interval
from autotuner.system.text import microseconds
from autotuner.tuning.result import FinalVerdict

State = Literal["kept", "replaced", "dropped", "skipped"]
SLOWER = 0.05
"""Beyond its old time: what takes longer now is searched again, though it still wins."""


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
class Standing:
    """Where an old winner stands before anything is searched."""

    works: bool
    """It applies and nothing shows that it is not faster any more: no search may lose it."""
    search: bool
    """Its place is worth another search."""
    reason: str


def standing(*, lost: str, raced: Raced | None, old_us: float | None) -> Standing:
    """`lost` says why it does not apply; `old_us` is its time before, on the same machine, where that is known."""
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
    if old_us is not None and raced.us is not None:
        then = f"{microseconds(raced.us)}, it was {microseconds(old_us)}"
        if raced.us > (1 + SLOWER) * old_us:
            return Standing(True, True, f"{gain}, but slower than before: {then}")
        gain += f"; {then}"
    return Standing(True, False, gain)


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
