"""Clock, power and temperature of a device around timings, and what slows it down meanwhile.

Its backend knows how a device is asked. Never fails: what cannot be had is None, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autotuner.devices.conditions import Sample
from autotuner.system.machine import ROOT
from autotuner.targets.backends import backend_on
from autotuner.targets.backends.base import POWER

__all__ = ["POWER", "Sampler", "Throttle", "asked_as", "open_sampler", "open_throttle"]

Sampler = Callable[[], Sample]
Throttle = Callable[[], frozenset[str]]


def asked_as(uri: str) -> str:
    """What a driver is asked for: empty where the URI does not say which device."""
    return uri.partition("://")[2].partition("?")[0]


def open_sampler(uri: str, *, root: Path = ROOT) -> Sampler:
    """What samples the device of this URI; nothing but empty samples where none is known."""
    backend = backend_on(uri)
    if backend is None:
        return Sample
    look = backend.sampler(asked_as(uri), root)
    return lambda: Sample(*look())


def open_throttle(uri: str, *, root: Path = ROOT) -> Throttle:
    """What tells by what the device is slowed down now, or was since it was asked last."""
    backend = backend_on(uri)
    return frozenset if backend is None else backend.throttle(asked_as(uri), root)
