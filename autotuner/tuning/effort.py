"""How long to search: the one source of these defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autotuner.errors import UsageError

Further = Literal["microkernels", "effort", "budget"]
"""Options that say how far a run looks: `--microkernels auto`, `--effort full`, and a `--budget` of the user's own."""


@dataclass(frozen=True, slots=True)
class Effort:
    """One profile. The first limit that is reached ends the search."""

    trials: int
    budget: float
    """Seconds, the race and its confirmation included."""
    compile_only_trials: int
    race_entrants: int = 8
    smallest_gain: float = 0.01
    compile_timeout: float = 120.0
    run_timeout: float = 60.0
    repetition_seconds: float = 0.02


EFFORTS = {
    "quick": Effort(trials=150, budget=120.0, compile_only_trials=16),
    "normal": Effort(trials=1000, budget=600.0, compile_only_trials=32),
    "full": Effort(trials=10_000, budget=7200.0, compile_only_trials=128, race_entrants=12),
}


def parse_effort(text: str) -> Effort:
    """What `quick`, `normal` or `full` stands for, as `Options` takes it."""
    if text not in EFFORTS:
        raise UsageError(f"unknown effort {text!r}.", remedy=f"Choose one of: {', '.join(EFFORTS)}.")
    return EFFORTS[text]
