"""Times the default and the best of a run with a warm and with a cold last level cache, in turns on the open device.

Warm: a module that repeats its dispatches, on the same buffers. Cold: what a single call takes longer on buffers that
are not in the cache than on the same once more, added to the warm time: the cost of a call is in both and goes out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from autotuner.build import Compiled
from autotuner.build.executor import BuildExecutor
from autotuner.devices.device import Conditions, Device, Timing, choose_repeat
from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.tuning.caches import Caches, Pair
from autotuner.tuning.evaluate import Outcome, TimedEvaluator
from autotuner.tuning.loop import TimedLoop
from autotuner.tuning.plan import BASELINE

ROUNDS = 3
MOST_PAIRS, LEAST_PAIRS, PAIRS_US = 20, 3, 250_000.0
"""Single calls of one round: so many as fit into this time, within these bounds."""
NOT_EXCEEDED = (
    "the buffers of a cold timing do not exceed the last level cache twice: there is too little memory for it, or the "
    "problem is too small"
)


NO_TIME = "no time was left to time a cold cache: a longer --budget would do"


def time_caches(loop: TimedLoop, best: Outcome | None, *, won: bool) -> tuple[Caches | None, list[str]]:
    """The default and the best both ways, and what a user must know of it."""
    timer = CacheTimer(loop.evaluator, loop.executor)
    try:
        found = timer.time(best if best is not None and best.candidate.id != BASELINE else None)
    except OutOfTimeError:
        return None, [NO_TIME]
    if found is None:
        return None, []
    other = found.disagreement(won=won)
    return found, [*([] if timer.exceeds else [NOT_EXCEEDED]), *([other] if other else [])]


@dataclass(frozen=True)
class _Builds:
    once: Compiled
    often: Compiled


@dataclass
class CacheTimer:
    """Times some candidates of a run both ways."""

    evaluator: TimedEvaluator
    executor: BuildExecutor
    exceeds: bool = True
    """Whether all cold timings went over more than the cache."""

    @property
    def device(self) -> Device:
        return self.evaluator.calibration.device

    @property
    def benchmark(self) -> Benchmark:
        return replace(self.evaluator.calibration.benchmark, cache="warm")

    def time(self, best: Outcome | None) -> Caches | None:
        """The default and this one; None where the device cannot, or one of them does not run any more."""
        if self.device.isolated is self.device:
            return None
        outcomes = [self.evaluator.outcomes[BASELINE], *([best] if best is not None else [])]
        builds = self._built(outcomes)
        if builds is None:
            return None
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in builds}
        for block in range(ROUNDS):
            for outcome in outcomes:
                name = outcome.candidate.id
                if (both := self._take(builds[name], outcome, block)) is None:
                    return None
                found[name].append(both)
        medians = {name: tuple(map(median, zip(*rows, strict=True))) for name, rows in found.items()}
        other = medians[best.candidate.id] if best is not None else (None, None)
        warm, cold = (Pair(*times) for times in zip(medians[BASELINE], other, strict=True))
        return Caches(warm, cold)

    def _built(self, outcomes: list[Outcome]) -> dict[str, _Builds] | None:
        jobs = {}
        for outcome in outcomes:
            repeat = choose_repeat(outcome.us or 1.0, invocation_us=2 * self.device.invocation_us)
            candidate = outcome.candidate
            jobs[candidate.id] = [
                self.evaluator.start_build(candidate, self.executor, repeat=count) for count in (1, repeat)
            ]
        builds = {name: _Builds(*(job.result() for job in pair)) for name, pair in jobs.items()}
        return builds if all(one.ok for pair in builds.values() for one in (pair.once, pair.often)) else None

    def _take(self, builds: _Builds, outcome: Outcome, block: int) -> tuple[float, float] | None:
        timing = self.device.time(builds.often, self.benchmark)
        if not timing.ok:
            return None
        count = max(LEAST_PAIRS, min(MOST_PAIRS, int(PAIRS_US / max(timing.median, 1.0))))
        pairs = self.device.call_pairs(builds.once, self.benchmark, count=count)
        if pairs is None or pairs.failure is not None:
            return None
        self.exceeds &= pairs.exceeds
        cold = timing.median + pairs.extra_us
        conditions = replace(timing.conditions or Conditions(self.device.state), cache="cold")
        store = self.evaluator.store
        store.record_timing(outcome.row, Timing((cold,), conditions=conditions), phase="cold", block=block)
        return timing.median, cold
