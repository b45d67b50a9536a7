"""Times the default and the best of a run with a warm and with a cold last level cache, in turns on the open device.

Warm: a module that repeats its dispatches, on the same buffers. Cold: what a single call takes longer on buffers that
are not in the cache than on the same once more, added to the warm time: the cost of a call is in both and goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import CallPairs, Device, Module, Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Benchmark
from autotuner.measure.caches import Caches, Pair
from autotuner.measure.contest import TimingFailed, take_turns

ROUNDS = 3
COLD_TIMINGS = 2 * 3 * ROUNDS + 6
"""Its most cost, in timings: of two modules, with single calls of about two of them each time; and the
device has to settle after the confirmation."""
MOST_PAIRS, LEAST_PAIRS, PAIRS_US = 20, 3, 250_000.0
"""Single calls of one round: as many as fit into this time, within these bounds."""
NOT_EXCEEDED = (
    "the buffers of a cold timing do not exceed the last level cache twice: there is too little memory for it, or the "
    "problem is too small"
)
NO_TIME = "no time was left to time a cold cache"


def cold_seconds(device: Device, timing_seconds: float, *, compiling: float = 0.0) -> float:
    """Seconds to time two modules both ways; 0 where no device stays open."""
    return compiling + COLD_TIMINGS * timing_seconds if device.isolated is not device else 0.0


def cold_pairs(device: Device, once: Module, benchmark: Benchmark, warm_us: float) -> CallPairs | None:
    """Single calls with a cold cache and with a warm one: as many as fit into the time of a round."""
    count = max(LEAST_PAIRS, min(MOST_PAIRS, int(PAIRS_US / max(warm_us, 1.0))))
    return device.call_pairs(once, benchmark, count=count)


@dataclass(frozen=True)
class Modules:
    """The same code once, and as often as a warm timing needs."""

    once: Module
    often: Module


@dataclass
class CacheTimer:
    """Times some modules both ways."""

    device: Device
    benchmark: Benchmark
    record: Callable[[str, int, Timing], None]
    """Records a cold time: of which entrant, in which round."""
    exceeds: bool = True
    """Whether all cold timings went over more than the cache."""

    def tell(
        self, modules: Mapping[str, Modules], *, baseline: str, won: bool
    ) -> tuple[Caches | None, tuple[str, ...]]:
        """Times of the baseline and one other, if there is one, and notes for the user."""
        try:
            found = self._time(modules, baseline)
        except OutOfTimeError:
            return None, (NO_TIME,)
        if found is None:
            return None, ()
        notes = (None if self.exceeds else NOT_EXCEEDED, found.disagreement(won=won, judged=self.benchmark.cache))
        return found, tuple(note for note in notes if note is not None)

    def _time(self, modules: Mapping[str, Modules], baseline: str) -> Caches | None:
        """None where no device stays open, or one of them does not run any more."""
        if self.device.isolated is self.device:
            return None
        extra: dict[str, list[float]] = {name: [] for name in modules}

        def take(name: str) -> Timing:
            timing, more = self._take(modules[name])
            extra[name].append(more)
            return timing

        def record(name: str, block: int, timing: Timing) -> None:
            conditions = replace(timing.conditions or Conditions(self.device.state), cache="cold")
            self.record(name, block, Timing((timing.median + max(extra[name][-1], 0.0),), conditions=conditions))

        turns = take_turns([*modules], take, lambda so_far: [*modules] if so_far.blocks < ROUNDS else [], record=record)
        if turns.failed:
            return None
        if turns.blocks < ROUNDS:
            raise OutOfTimeError
        warm = turns.medians
        # What a cold cache costs is the same in each round, whatever the noise; less than nothing is noise.
        cold = {name: warm[name] + max(median(extra[name]), 0.0) for name in modules}
        other = next((name for name in modules if name != baseline), None)
        pairs = (Pair(us[baseline], us[other] if other else None) for us in (warm, cold))
        return Caches(*pairs)

    def _take(self, modules: Modules) -> tuple[Timing, float]:
        """The warm time, and what a cold cache costs."""
        benchmark = replace(self.benchmark, cache="warm")
        timing = self.device.time(modules.often, benchmark)
        if not timing.ok:
            raise TimingFailed(timing.detail)
        pairs = cold_pairs(self.device, modules.once, benchmark, timing.median)
        if pairs is None or pairs.failure is not None:
            raise TimingFailed(pairs.detail if pairs else "nothing stays open on the device")
        self.exceeds &= pairs.exceeds
        return timing, pairs.extra_us
