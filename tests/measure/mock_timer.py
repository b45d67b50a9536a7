"""A device that times nothing: known speeds under noise, slow drift and spikes, and the protocol run on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from autotuner.measure.race import Entrant, TimingFailed, confirm, decide, race
from autotuner.measure.shortlist import Screened, shortlist

BASELINE = "baseline"


@dataclass
class MockTimer:
    """Times entrants of given speed (1.03: 3 % faster than the baseline) on a clock that only calls advance."""

    speeds: Mapping[str, float]
    rng: np.random.Generator
    noise: float = 0.015
    drift: float = 0.02
    drift_period: float = 400.0
    spikes: float = 0.02
    worst_spike: float = 1.8
    fails: Mapping[str, int] | None = None
    """From which of its own timings on an entrant fails."""

    def __post_init__(self) -> None:
        self.calls: list[str] = []
        self._phase = float(self.rng.uniform(0.0, 2.0 * math.pi))

    def __call__(self, name: str) -> float:
        turn = 2.0 * math.pi * len(self.calls) / self.drift_period + self._phase
        self.calls.append(name)
        if self.fails is not None and name in self.fails and self.calls.count(name) >= self.fails[name]:
            raise TimingFailed(f"{name} crashed")
        time = 1e-3 / self.speeds[name]
        time *= math.exp(float(self.rng.normal(0.0, self.noise))) * (1.0 + self.drift / 2.0 * math.sin(turn))
        if self.rng.random() < self.spikes:
            time *= float(self.rng.uniform(1.0, self.worst_spike))
        return time

    def of_three(self, name: str) -> float:
        """One timing as the protocol takes it: the median of three repetitions."""
        return median(self(name) for _ in range(3))


@dataclass(frozen=True)
class Outcome:
    """What one simulated run claimed, and what it cost."""

    winner: str | None
    claimed: float | None
    race_verdict: str
    race_blocks: int
    screen_repetitions: int
    race_repetitions: int
    confirm_repetitions: int
    in_race: tuple[str, ...]

    @property
    def repetitions(self) -> int:
        return self.screen_repetitions + self.race_repetitions + self.confirm_repetitions


def run_protocol(speeds: Mapping[str, float], *, seed: int, smallest_gain: float = 0.01) -> Outcome:
    """Screen all candidates, race the best eight, confirm the winner: as a tuning run does, with its code."""
    rng = np.random.default_rng(seed)
    timer = MockTimer({BASELINE: 1.0, **speeds}, rng)
    order = []
    for place, name in enumerate(speeds):
        order += [BASELINE, name] if place % 10 == 0 else [name]
    order.append(BASELINE)
    screened = [Screened(name, timer.of_three(name)) for name in order]
    chosen = shortlist(screened, baseline=BASELINE, time_one=timer.of_three)
    screen_repetitions = len(timer.calls)
    entrants = [Entrant(BASELINE), *(Entrant(name, complexity=1) for name in chosen)]
    result = race(entrants, baseline=BASELINE, time_one=timer.of_three, rng=rng, smallest_gain=smallest_gain)
    race_repetitions = len(timer.calls) - screen_repetitions
    decision = decide(result)
    winner, claimed = None, None
    if decision.winner is not None:
        proof = confirm(
            decision.winner, baseline=BASELINE, time_one=timer.of_three, rng=rng, smallest_gain=smallest_gain
        )
        if proof.holds and proof.speedup is not None:
            winner, claimed = decision.winner, proof.speedup.median
    return Outcome(
        winner=winner,
        claimed=claimed,
        race_verdict=decision.verdict,
        race_blocks=result.blocks,
        screen_repetitions=screen_repetitions,
        race_repetitions=race_repetitions,
        confirm_repetitions=len(timer.calls) - screen_repetitions - race_repetitions,
        in_race=tuple(chosen),
    )
