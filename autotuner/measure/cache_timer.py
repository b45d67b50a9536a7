"""Times the default and the best of a run with a warm and with a cold last level cache, in turns on the open device.

Warm: a module that repeats its dispatches, on the same buffers. Cold: what a single call takes longer on buffers that
are not in the cache than on the same once more, added to the warm time: the cost of a call is in both and goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Device, Module, Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.measure.caches import Caches, Pair

ROUNDS = 3
COLD_TIMINGS = 2 * 3 * ROUNDS + 6
"""What all of it takes at most, in timings: of two modules, with single calls of about two of them each time; and the
device has to settle after the confirmation."""
MOST_PAIRS, LEAST_PAIRS, PAIRS_US = 20, 3, 250_000.0
"""Single calls of one round: so many as fit into this time, within these bounds."""
NOT_EXCEEDED = (
    "the buffers of a cold timing do not exceed the last level cache twice: there is too little memory for it, or the "
    "problem is too small"
)
NO_TIME = "no time was left to time a cold cache: a longer --budget would do"


COLD_SHARE = 0.1
"""Of the time that is left when the default is timed, at most, for timing with a cold cache."""


def cold_seconds(device: Device, timing_seconds: float, *, compiling: float = 0.0) -> float:
    """What it takes to time two modules both ways; nothing where nothing stays open for that."""
    return compiling + COLD_TIMINGS * timing_seconds if device.isolated is not device else 0.0


def kept_for_cold(seconds: float, left: float) -> float:
    """Of `left` seconds when the default is timed: a short run goes without the cold."""
    return seconds if seconds <= COLD_SHARE * left else 0.0


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
    """Writes a cold time down: whose, the round, and the time."""
    exceeds: bool = True
    """Whether all cold timings went over more than the cache."""

    def tell(
        self, modules: Mapping[str, Modules], *, baseline: str, won: bool
    ) -> tuple[Caches | None, tuple[str, ...]]:
        """The baseline and one other, if there is one; and what a user must know of it."""
        try:
            found = self._time(modules, baseline)
        except OutOfTimeError:
            return None, (NO_TIME,)
        if found is None:
            return None, ()
        notes = (None if self.exceeds else NOT_EXCEEDED, found.disagreement(won=won, judged=self.benchmark.cache))
        return found, tuple(note for note in notes if note is not None)

    def _time(self, modules: Mapping[str, Modules], baseline: str) -> Caches | None:
        """None where nothing stays open on the device, or one of them does not run any more."""
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in modules}
        for block in range(ROUNDS):
            for name, both in modules.items():
                if (taken := self._take(name, both, block)) is None:
                    return None
                found[name].append(taken)
        times = {name: _both(rows) for name, rows in found.items()}
        other = next((both for name, both in times.items() if name != baseline), (None, None))
        warm, cold = (Pair(*pair) for pair in zip(times[baseline], other, strict=True))
        return Caches(warm, cold)

    def _take(self, name: str, modules: Modules, block: int) -> tuple[float, float] | None:
        """The warm time, and what a cold cache costs."""
        if self.device.isolated is self.device:
            return None
        benchmark = replace(self.benchmark, cache="warm")
        timing = self.device.time(modules.often, benchmark)
        if not timing.ok:
            return None
        count = max(LEAST_PAIRS, min(MOST_PAIRS, int(PAIRS_US / max(timing.median, 1.0))))
        pairs = self.device.call_pairs(modules.once, benchmark, count=count)
        if pairs is None or pairs.failure is not None:
            return None
        self.exceeds &= pairs.exceeds
        conditions = replace(timing.conditions or Conditions(self.device.state), cache="cold")
        self.record(name, block, Timing((timing.median + max(pairs.extra_us, 0.0),), conditions=conditions))
        return timing.median, pairs.extra_us


def _both(rounds: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The warm and the cold time of several rounds: what a cold cache costs is the same in each, whatever the noise."""
    warm, extra = (median(column) for column in zip(*rounds, strict=True))
    return warm, warm + max(extra, 0.0)  # less than nothing is noise
