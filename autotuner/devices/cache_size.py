"""How large a device's last level cache is, and its memory: what a cold timing must exceed, and what it may take.

Where nothing is said, the cache counts as large as the largest that is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotuner.devices.sampling import asked_as
from autotuner.system.machine import ROOT
from autotuner.targets.backends import backend_on

FALLBACK_BYTES = 256 * 2**20
"""The last level cache of an MI300X: none of those that are tuned for has a larger one."""
MEMORY_SHARE = 0.25
"""Of the device's memory, at most, for buffers to rotate over."""
EXCEEDED = 2.0
"""How often the cache's size the buffers of a cold timing come to, at the least."""
MOST_SETS = 4096
"""Buffers are made one by one: of a tiny problem no more than this."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """In bytes; None where nobody says."""

    cache: int | None = None
    memory: int | None = None

    @property
    def emptying(self) -> int:
        """Bytes to copy, so that nothing else is left in the cache: as much is read as is written."""
        return int(EXCEEDED * (self.cache or FALLBACK_BYTES))

    def rotation(self, footprint: int) -> Rotation:
        """Over how many sets of a problem's buffers a cold timing goes."""
        wanted = EXCEEDED * (self.cache or FALLBACK_BYTES)
        sets = max(2, int(wanted // max(footprint, 1)) + 1)
        most = MOST_SETS
        if self.memory is not None:
            most = min(most, int(self.memory * MEMORY_SHARE // max(footprint, 1)))
        return Rotation(min(sets, most), exceeds=sets <= most)


@dataclass(frozen=True, slots=True)
class Rotation:
    """So many sets of buffers; `exceeds` where all of them are larger than the cache holds."""

    sets: int
    exceeds: bool


def sizes_of(uri: str, *, root: Path = ROOT) -> Sizes:
    """Of the device of this URI, as its backend reads them. Never fails."""
    backend = backend_on(uri)
    return Sizes() if backend is None else Sizes(*backend.sizes(asked_as(uri), root))
