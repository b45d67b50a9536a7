"""What a device's driver tells: its clock, power and temperature, how large cache and memory are.

Its backend knows how a device is asked. Never fails: what cannot be had is None, or nothing.
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
"""The last level cache of an MI300X: none of those that are tuned for has a larger one."""
MEMORY_SHARE = 0.25
"""Of the device's memory, at most, for buffers to rotate over."""
EXCEEDED = 2.0
"""How often the cache's size the buffers of a cold timing come to, at the least."""
MOST_SETS = 4096
"""Buffers are made one by one: of a tiny problem no more than this."""


def open_sampler(uri: str, *, root: Path = ROOT) -> Sampler:
    """What samples the device of this URI; nothing but empty samples where none is known."""
    backend = backend_on(uri)
    if backend is None:
        return Sample
    look = backend.sampler(_asked_as(uri), root)
    return lambda: Sample(*look())


def sampled(timed: Callable[[], Timing], sampler: Sampler, usual: Conditions) -> Timing:
    """A timing that says in which state the device was before and after it."""
    before = sampler()
    timing = timed()
    return replace(timing, conditions=replace(timing.conditions or usual, before=before, after=sampler()))


def _asked_as(uri: str) -> str:
    """What a driver is asked for: empty where the URI does not say which device."""
    return uri.partition("://")[2].partition("?")[0]


@dataclass(frozen=True, slots=True)
class Rotation:
    """So many sets of buffers; `exceeds` where all of them are larger than the cache holds."""

    sets: int
    exceeds: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a device's last level cache, which a cold timing must exceed, and of its memory; None where nobody says: then
    the cache counts as large as the largest that is known."""

    cache: int | None = None
    memory: int | None = None

    def rotation(self, footprint: int) -> Rotation:
        """Over how many sets of a problem's buffers a cold timing goes."""
        sets = max(2, int(EXCEEDED * (self.cache or FALLBACK_BYTES)) // max(footprint, 1) + 1)
        most = MOST_SETS
        if self.memory is not None:
            most = min(most, int(self.memory * MEMORY_SHARE // max(footprint, 1)))
        return Rotation(min(sets, most), exceeds=sets <= most)


def sizes_of(uri: str, *, root: Path = ROOT) -> Sizes:
    """Of the device of this URI, as its backend reads them."""
    backend = backend_on(uri)
    return Sizes() if backend is None else Sizes(*backend.sizes(_asked_as(uri), root))
