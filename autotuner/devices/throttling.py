"""What slows a device down while it is timed: heat, its power limit, a container's share. Never fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from autotuner.system.machine import ROOT, read
from autotuner.targets.backends import backend_on

POWER = "its power limit"
"""Under a lasting load a GPU is often at it: that is its sustained state, and all are timed in it."""
_NVML = {0x04: POWER, 0x08: "a hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "the power brake"}
"""NVML's reasons for a lower clock, by their bits."""
_COUNTED: Mapping[str, str] = {
    "sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count": "heat",
    "sys/fs/cgroup/cpu.stat": "the container's share of the processor",
}
Throttle = Callable[[], frozenset[str]]


def open_throttle(uri: str, *, root: Path = ROOT) -> Throttle:
    """What tells by what the device is slowed down now, or was since it was asked last."""
    backend = backend_on(uri)
    if backend is None or backend.vendor == "amd":
        return frozenset
    return _nvidia(uri.partition("://")[2].partition("?")[0]) if backend.vendor else _processor(root)


def _nvidia(which: str) -> Throttle:
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(int(which) if which.isdecimal() else 0)
    except Exception:  # no package, no driver, no such device: NVML has an exception for each
        return frozenset

    def look() -> frozenset[str]:
        try:
            bits = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        except Exception:  # not every chip answers
            return frozenset()
        return frozenset(reason for bit, reason in _NVML.items() if bits & bit)

    return look


def _processor(root: Path) -> Throttle:
    known = _counts(root)

    def look() -> frozenset[str]:
        nonlocal known
        before, known = known, _counts(root)
        return frozenset(reason for reason, count in known.items() if count > before.get(reason, 0))

    return look


def _counts(root: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for pattern, reason in _COUNTED.items():
        for file in root.glob(pattern):
            found[reason] = found.get(reason, 0) + _count(read(file))
    return found


def _count(text: str) -> int:
    """The number of a file, or that of its line `nr_throttled`."""
    if text.isdecimal():
        return int(text)
    lines = (line.split() for line in text.splitlines())
    return next((int(line[1]) for line in lines if len(line) == 2 and line[0] == "nr_throttled"), 0)
