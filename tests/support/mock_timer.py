"""A device that times nothing: known speeds under noise, slow drift and spikes; and the judge asked on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotuner.devices.device import Timing
from autotuner.measure.blocks import Entrant
from autotuner.measure.contest import Takes, TimingFailed
from autotuner.measure.judge import Judge, JudgePhase
from autotuner.measure.judgement import Contest
from autotuner.system.progress import Stop

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

    def three(self, name: str) -> Timing:
        """One timing as the protocol takes it: three repetitions, whose median counts."""
        return Timing(tuple(self(name) for _ in range(3)))


@dataclass(frozen=True)
class Outcome:
    """What one simulated run claimed, and what it cost."""

    winner: str | None
    claimed: float | None
    verdict: str
    blocks: Mapping[str, int]
    """By phase."""
    repetitions: Mapping[str, int]
    """By phase."""
    in_race: tuple[str, ...]


def run_protocol(speeds: Mapping[str, float], *, seed: int, noise: float = 0.015, entrants: int = 16) -> Outcome:
    """Screen all candidates, then ask the judge, as a tuning run does; only the device and the clock are not real.

    With one entrant there is no race: the best of the screening is confirmed.
    """
    rng = np.random.default_rng((seed, 1))  # the judge has a stream of its own
    timer = MockTimer({BASELINE: 1.0, **speeds}, rng, noise=noise)
    screened = {name: timer.three(name).median for name in speeds}
    repetitions = Counter(screen=len(timer.calls))
    blocks = Counter[str]()

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        del name
        repetitions[phase] += len(timing.us)
        blocks[phase] = block

    names = sorted(screened, key=screened.__getitem__)[:entrants]
    entered = (Entrant(BASELINE), *(Entrant(name, complexity=1) for name in names))
    contest = Contest(entered, BASELINE, BASELINE, seed=seed)
    judgement = Judge(contest, Takes.alike(timer.three), lambda: math.inf, Stop(), record=record).verdict()
    assert repetitions.total() == len(timer.calls), "a timing was not recorded"
    return Outcome(
        winner=judgement.winner,
        claimed=judgement.speedup.median if judgement.winner and judgement.speedup else None,
        verdict=judgement.verdict,
        blocks=blocks,
        repetitions=repetitions,
        in_race=tuple(names),
    )
