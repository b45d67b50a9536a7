"""How entrants are timed: in a race on the open device, and when what it says is confirmed, in fresh processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from autotuner.devices.device import Device, Module, Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.measure.race import TimingFailed
from autotuner.system.progress import Clock

Take = Callable[[str], Timing]
"""Times an entrant. TimingFailed takes the entrant out."""


@dataclass(frozen=True)
class Takes:
    """How entrants are timed: in the race, and when what it says is confirmed."""

    race: Take
    confirm: Take
    brief: Take | None = None
    """To confirm what is far ahead in little time: by one repetition."""
    few: Take | None = None
    """The same in even less: on the open device, where no process is started for it."""

    @classmethod
    def alike(cls, take: Take) -> Takes:
        return cls(take, take)

    def briefly(self, *, few: bool = False) -> Takes:
        return replace(self, confirm=(self.few if few else self.brief) or self.confirm)


def timed_by(
    device: Device,
    benchmark: Benchmark,
    modules: Mapping[str, Module],
    *,
    once: Collection[str] = (),
    unwarmed: Collection[str] = (),
    fresh: bool = True,
) -> Takes:
    """Times an entrant's module: three repetitions, of which the median counts; to confirm, in a fresh process.

    Those in `once` take so long that one repetition is a measurement by itself, those in `unwarmed` so long that a
    warm-up before it would change nothing. What fresh processes have confirmed
    before is confirmed again on the open device: not `fresh`.
    """

    def taken_by(device: Device, *, brief: bool = False) -> Take:
        def take(name: str) -> Timing:
            how = replace(benchmark, warms=False) if name in unwarmed else benchmark
            timing = device.time(modules[name], how, repetitions=1 if brief or name in once else 3)
            if not timing.ok:
                raise TimingFailed(timing.detail)
            return timing

        return take

    take = taken_by(device)
    if not fresh or device.isolated is device or benchmark.cache == "cold":  # what a fresh process times is warm
        return Takes(take, take, taken_by(device, brief=True), taken_by(device, brief=True))
    return Takes(
        take, taken_by(device.isolated), taken_by(device.isolated, brief=True), few=taken_by(device, brief=True)
    )


def seconds_of(take: Take, name: str, clock: Clock) -> float:
    """What one timing takes; one that fails is for the judge to tell."""
    began = clock.elapsed
    with suppress(TimingFailed):
        take(name)
    return clock.elapsed - began
