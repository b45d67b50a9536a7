"""Facts from a device's driver: clock, power, temperature, sizes of cache and memory.

The backend reads them. It never fails: unknown figures are None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.devices.conditions import Conditions, Sample
from autotuner.devices.device import Timing
from autotuner.system.machine import ROOT
from autotuner.targets.backends import backend_on

Sampler = Callable[[], Sample]
FALLBACK_BYTES = 256 * 2**20
"""The last level cache of an MI300X, the largest of all known chips."""
MEMORY_SHARE = 0.25
"""The largest part of the device's memory for rotating buffers."""
EXCEEDED = 2.0
"""The least size of a cold timing's buffers, in sizes of the cache."""
MOST_SETS = 4096
"""The most sets of buffers, which are made one by one."""


def open_sampler(uri: str, *, root: Path = ROOT) -> Sampler:
    """The sampler of the device of this URI; it gives empty samples where none is known."""
    backend = backend_on(uri)
    if backend is None:
        return Sample
    look = backend.sampler(_asked_as(uri), root)
    return lambda: Sample(*look())


def sampled(timed: Callable[[], Timing], sampler: Sampler, usual: Conditions) -> Timing:
    """A timing with samples of the device from before and after it."""
    before = sampler()
    timing = timed()
    return replace(timing, conditions=replace(timing.conditions or usual, before=before, after=sampler()))


def _asked_as(uri: str) -> str:
    """The driver's name of the device; empty where the URI does not name one."""
    return uri.partition("://")[2].partition("?")[0]


@dataclass(frozen=True, slots=True)
class Rotation:
    """A number of buffer sets; `exceeds`: together they exceed the cache."""

    sets: int
    exceeds: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a device's last level cache and memory; None: unknown. An unknown cache counts as the largest known
    one."""

    cache: int | None = None
    memory: int | None = None

    def rotation(self, footprint: int) -> Rotation:
        """The buffer sets of a cold timing, for buffers of this size."""
        sets = max(2, int(EXCEEDED * (self.cache or FALLBACK_BYTES)) // max(footprint, 1) + 1)
        most = MOST_SETS
        if self.memory is not None:
            most = min(most, int(self.memory * MEMORY_SHARE // max(footprint, 1)))
        return Rotation(min(sets, most), exceeds=sets <= most)


def sizes_of(uri: str, *, root: Path = ROOT) -> Sizes:
    """The sizes of the device of this URI."""
    backend = backend_on(uri)
    return Sizes() if backend is None else Sizes(*backend.sizes(_asked_as(uri), root))
