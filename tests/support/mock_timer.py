"""A device that times nothing: known speeds under noise, slow drift and spikes; and the judge asked on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotuner.devices.device import Timing
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.decision import decide
from autotuner.measure.judge import JudgePhase, judge
from autotuner.measure.judgement import Contest
from autotuner.measure.race import TimingFailed
from autotuner.measure.shortlist import Screened
from autotuner.measure.takes import Takes
from autotuner.system.progress import Clock, Stop

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
    race_verdict: str
    race_blocks: int
    repetitions_by_phase: Mapping[str, int]
    in_race: tuple[str, ...]

    @property
    def repetitions(self) -> int:
        return sum(self.repetitions_by_phase.values())


def _screened(speeds: Mapping[str, float], timer: MockTimer) -> tuple[Screened, ...]:
    order = []
    for place, name in enumerate(speeds):
        order += [BASELINE, name] if place % 10 == 0 else [name]
    order.append(BASELINE)
    return tuple(Screened(name, timer.three(name).median) for name in order)


def claims_without_a_race(speeds: Mapping[str, float], *, seed: int, noise: float, blocks: int) -> bool:
    """Is a win claimed where there is time for nothing but to confirm the best of the screening in so many blocks?"""
    timer = MockTimer({BASELINE: 1.0, **speeds}, np.random.default_rng((seed, 1)), noise=noise)
    contest = Contest(
        entrants=(Entrant(BASELINE), *(Entrant(name, complexity=1) for name in speeds)),
        baseline=BASELINE,
        stock=BASELINE,
        confirm_blocks=blocks,
        seed=seed,
        screened=_screened(speeds, timer),
    )
    contest = replace(contest, chosen=contest.likeliest)
    return judge(contest, Takes.alike(timer.three), clock=Clock(math.inf), stop=Stop()).winner is not None


def run_protocol(speeds: Mapping[str, float], *, seed: int, smallest_gain: float = 0.01) -> Outcome:
    """Screen all candidates, then ask the judge, as a tuning run does; only the device and the clock are not real."""
    timer = MockTimer({BASELINE: 1.0, **speeds}, np.random.default_rng((seed, 1)))  # the judge has a stream of its own
    screened = _screened(speeds, timer)
    repetitions = Counter(screen=len(timer.calls))

    def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
        del name, block
        repetitions[phase] += len(timing.us)

    contest = Contest(
        entrants=(Entrant(BASELINE), *(Entrant(name, complexity=1) for name in speeds)),
        baseline=BASELINE,
        stock=BASELINE,
        rules=Rules(smallest_gain=smallest_gain),
        seed=seed,
        screened=screened,
    )
    judgement = judge(contest, Takes.alike(timer.three), clock=Clock(math.inf), stop=Stop(), record=record)
    assert judgement.raced is not None
    assert repetitions.total() == len(timer.calls), "a timing was not recorded"
    return Outcome(
        winner=judgement.winner,
        claimed=judgement.speedup.median if judgement.winner and judgement.speedup else None,
        race_verdict=decide(judgement.raced).verdict,
        race_blocks=judgement.raced.blocks,
        repetitions_by_phase=repetitions,
        in_race=tuple(entrant.id for entrant in judgement.raced.entrants if entrant.id != BASELINE),
    )
