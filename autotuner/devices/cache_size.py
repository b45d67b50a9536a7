"""How large a device's last level cache is, and its memory: what a cold timing must exceed, and what it may take.

A processor's are read from sysfs, those of an NVIDIA GPU from its driver, those of an AMD GPU from the topology that
its driver writes. Where nothing is said, the cache counts as large as the largest that is known.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotuner.system.machine import ROOT, read
from autotuner.targets.backends import backend_on
from autotuner.targets.backends.base import Vendor

FALLBACK_BYTES = 256 * 2**20
"""The last level cache of an MI300X: none of those that are tuned for has a larger one."""
MEMORY_SHARE = 0.25
"""Of the device's memory, at most, for buffers to rotate over."""
EXCEEDED = 2.0
"""How often the cache's size the buffers of a cold timing come to, at the least."""
MOST_SETS = 4096
"""Buffers are made one by one: of a tiny problem no more than this."""
_L2_CACHE_SIZE = 38
"""CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE."""


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
    """Of the device of this URI. Never fails."""
    backend = backend_on(uri)
    if backend is None:
        return Sizes()
    if backend.vendor is None:
        return Sizes(_processor_cache(root), _available_memory(root))
    which = uri.partition("://")[2].partition("?")[0]
    return _VENDORS[backend.vendor](int(which) if which.isdecimal() else 0, root)


# --- processors -------------------------------------------------------------------------------------------------


def _processor_cache(root: Path) -> int | None:
    """All caches of the highest level that the usable cores share, each counted once."""
    found: dict[tuple[int, str], int] = {}
    for core in os.sched_getaffinity(0):
        for folder in (root / f"sys/devices/system/cpu/cpu{core}/cache").glob("index*"):
            level, size = read(folder / "level"), _bytes(read(folder / "size"))
            if level.isdecimal() and size and read(folder / "type") != "Instruction":
                found[int(level), read(folder / "shared_cpu_list")] = size
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last) or None


def _available_memory(root: Path) -> int | None:
    for line in read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return _bytes(value.replace("kB", "K").replace(" ", ""))
    return None


def _bytes(text: str) -> int | None:
    """`36608K` and the like."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    return int(number) * unit if number.isdecimal() else None


# --- GPUs -------------------------------------------------------------------------------------------------------


def _amd(number: int, root: Path) -> Sizes:
    """Nodes without SIMDs are processors. Sizes of caches are in KiB there, those of memory in bytes."""
    nodes = sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("[0-9]*"), key=lambda node: int(node.name))
    gpus = [node for node in nodes if _properties(node / "properties").get("simd_count", 0) > 0]
    if number >= len(gpus):
        return Sizes()
    caches = [_properties(file) for file in gpus[number].glob("caches/*/properties")]
    last = max((cache.get("level", 0) for cache in caches), default=0)
    size = sum(cache.get("size", 0) for cache in caches if cache.get("level") == last) * 2**10
    banks = [_properties(file) for file in gpus[number].glob("mem_banks/*/properties")]
    memory = sum(bank.get("size_in_bytes", 0) for bank in banks)
    return Sizes(size or None, memory or None)


def _properties(path: Path) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = [line.split() for line in read(path).splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _nvidia(number: int, root: Path) -> Sizes:
    del root
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Sizes()
    device, cache, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), number):
        return Sizes()
    unknown = driver.cuDeviceGetAttribute(ctypes.byref(cache), _L2_CACHE_SIZE, device)
    unmeasured = driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return Sizes(None if unknown else cache.value or None, None if unmeasured else memory.value or None)


_VENDORS: Mapping[Vendor, Callable[[int, Path], Sizes]] = {"nvidia": _nvidia, "amd": _amd}
