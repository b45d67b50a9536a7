"""A contest: entrants timed in turns on one device. There is no other loop that times in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autotuner.devices.device import Device, Module, Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Benchmark
from autotuner.measure.blocks import BlockTimes

REPETITIONS = 3
"""In one timing: a single one spikes too often."""
SLOW_US = 200_000.0
"""A call that takes longer is a measurement by itself: it is neither repeated nor warmed up."""

Take = Callable[[str], Timing]
"""Times an entrant. TimingFailed takes the entrant out."""
Still = Callable[["Turns"], Collection[str]]
"""The entrants of the next block, by the times so far; none: the contest is over."""
OnTiming = Callable[[str, int, Timing], None]
"""Records a timing: entrant, block (from 1), the timing itself."""


class TimingFailed(Exception):
    """A timing of one entrant failed (crash, time-out): it leaves, the others go on."""


@dataclass(frozen=True)
class Turns(BlockTimes):
    """The result of a contest."""

    failed: Mapping[str, str] = field(default_factory=dict)
    """Entrants that could not be timed, with the reason."""


def unrecorded(name: str, block: int, timing: Timing) -> None:
    """Records nothing."""
    del name, block, timing


def take_turns(
    names: Sequence[str],
    take: Take,
    still: Still,
    *,
    needed: str | None = None,
    seed: int | Sequence[int] = 0,
    record: OnTiming = unrecorded,
) -> Turns:
    """Times all that are still in once a block, in random order, until nobody is.

    Who fails leaves; where that is the one that is `needed`, TimingFailed passes through. A block that the time cuts
    off does not count.
    """
    rng = np.random.default_rng(seed)
    rows: dict[str, tuple[float | None, ...]] = dict.fromkeys(names, ())
    failed: dict[str, str] = {}
    while alive := [name for name in still(Turns(rows, dict(failed))) if name not in failed]:
        taken: dict[str, float] = {}
        block = 1 + max(map(len, rows.values()))
        for index in rng.permutation(len(alive)):
            name = alive[int(index)]
            try:
                timing = take(name)
                if not (timing.median > 0.0 and math.isfinite(timing.median)):
                    raise TimingFailed(timing.detail or f"{timing.median} is no time")
            except TimingFailed as failure:
                if name == needed:
                    raise
                failed[name] = str(failure)
            except OutOfTimeError:
                return Turns(rows, failed)
            else:
                taken[name] = timing.median
                record(name, block, timing)
        rows = {name: (*row, taken.get(name)) for name, row in rows.items()}
    return Turns(rows, failed)


@dataclass
class Pacer:
    """Whether one more block fits: it is asked before each, and sees how long the last ones took."""

    left: Callable[[], float]
    """Seconds that are available."""
    kept: float = 0.0
    """Of these, for what comes after."""
    first: float = 0.0
    """Expected seconds of the first block."""
    _before: float = field(default=math.nan, init=False)

    def fits(self) -> bool:
        left = self.left()
        if math.isinf(left):
            return True
        if not math.isnan(self._before):
            self.first = max(self.first, self._before - left)
        self._before = left
        return left - self.kept >= self.first


@dataclass(frozen=True)
class Takes:
    """How entrants are timed: in the race on the open device, in the confirmation in fresh processes."""

    race: Take
    confirm: Take

    @classmethod
    def alike(cls, take: Take) -> Takes:
        return cls(take, take)


def timed_by(
    device: Device,
    benchmark: Benchmark,
    modules: Mapping[str, Module],
    *,
    call_us: Mapping[str, float] | None = None,
) -> Takes:
    """Times an entrant's module: three repetitions, of which the median counts; to confirm, in a fresh process.

    `call_us` is what a call is known to take.
    """
    slow = {name for name, us in (call_us or {}).items() if us > SLOW_US}

    def taken_by(device: Device) -> Take:
        def take(name: str) -> Timing:
            once = name in slow
            how = replace(benchmark, warms=False) if once else benchmark
            timing = device.time(modules[name], how, repetitions=1 if once else REPETITIONS)
            if not timing.ok:
                raise TimingFailed(timing.detail)
            return timing

        return take

    take = taken_by(device)
    if device.isolated is device or benchmark.cache == "cold":  # what a fresh process times is warm
        return Takes.alike(take)
    return Takes(take, taken_by(device.isolated))
