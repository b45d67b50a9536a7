"""How long to search: the one source of these defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotuner.errors import UsageError


@dataclass(frozen=True, slots=True)
class Effort:
    """One profile. The first limit that is reached ends the search."""

    trials: int
    budget: float
    """Seconds, the race and its confirmation included."""
    compile_only_trials: int
    confirm_blocks: int
    race_entrants: int = 8
    smallest_gain: float = 0.01
    compile_timeout: float = 120.0
    run_timeout: float = 60.0
    repetition_seconds: float = 0.02


EFFORTS = {
    "quick": Effort(trials=150, budget=120.0, compile_only_trials=16, confirm_blocks=20),
    "normal": Effort(trials=1000, budget=600.0, compile_only_trials=32, confirm_blocks=24),
    "full": Effort(trials=10_000, budget=7200.0, compile_only_trials=128, confirm_blocks=48, race_entrants=12),
}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_effort(text: str) -> Effort:
    if text not in EFFORTS:
        raise UsageError(f"unknown effort {text!r}.", remedy=f"Choose one of: {', '.join(EFFORTS)}.")
    return EFFORTS[text]


LEAST_BUDGET = 5.0
"""Seconds: in less nothing can be timed, let alone compared."""


def parse_budget(text: str) -> float:
    """The seconds of a run that times; what no verdict can come of is refused at once."""
    seconds = parse_duration(text)
    if seconds < LEAST_BUDGET:
        raise UsageError(
            f"--budget {text} is too short for any verdict.",
            remedy=f"Give {LEAST_BUDGET:.0f}s at the least; a small problem takes about 30s, a model minutes.",
        )
    return seconds


def parse_duration(text: str) -> float:
    """`90`, `90s`, `10m`, `1h30m` in seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match or not any(match.groups()):
        raise UsageError(f"--budget {text!r} is not a duration.", remedy="Write it as 90s, 10m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * _UNITS["h"] + minutes * _UNITS["m"] + seconds
    if total <= 0:
        raise UsageError(f"--budget {text!r} leaves no time.", remedy="Write it as 90s, 10m or 1h30m.")
    return total
