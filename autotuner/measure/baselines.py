"""IREE's default on every device: chips of one product differ, so a candidate counts relative to its device's default.

A problem is calibrated on the first device. A time of another device is divided by the default's time there, relative
to that on the first: all times are compared as they would be on the first device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

from autotuner.devices.device import Device, Timing
from autotuner.errors import DeviceError
from autotuner.iree.run import failed_because
from autotuner.measure.calibrate import LISTENED, Calibration, M
from autotuner.measure.screening import Measured, measure


@dataclass(eq=False)
class OnDevice(Generic[M]):
    """How one device times the candidates of a problem. One thread uses it at a time."""

    calibration: Calibration[M]
    """With this device."""
    arrived: Timing | None
    """The default, when the device first took part; None on the first device, where it is a candidate like others."""


@dataclass(eq=False)
class Baselines(Generic[M]):
    """The devices that have taken part in a problem's search."""

    first: Calibration[M]
    first_us: Callable[[], float | None]
    """The default's time on the first device."""
    _known: dict[str, OnDevice[M]] = field(default_factory=dict, init=False)

    def measure(self, module: M, device: Device, *, best_us: float) -> Measured:
        """A candidate on a device; `best_us` is a time of the first device. A new device times the default, too."""
        new = device.uri not in self._known
        here = self.on(device)
        best = best_us * self.ratio(device.uri)
        measured = measure(here.calibration, module, best_us=best)
        return replace(measured, default=here.arrived) if new and here.arrived is not None else measured

    def on(self, device: Device) -> OnDevice[M]:
        """How this device times; one that is new here times the default first."""
        if device.uri not in self._known:
            first = device.uri == self.first.device.uri
            self._known[device.uri] = OnDevice(self.first, None) if first else self._arrive(device)
        return self._known[device.uri]

    def ratio(self, uri: str) -> float:
        """The default's time on a device, over that on the first."""
        known, first = self._known.get(uri), self.first_us()
        if known is None or known.arrived is None or not first:
            return 1.0
        return known.arrived.median / first

    def us(self) -> Mapping[str, float]:
        """The default's time by device."""
        first = self.first_us()
        if not first:
            return {}
        return {uri: first * self.ratio(uri) for uri in (self.first.device.uri, *self._known)}

    def _arrive(self, device: Device) -> OnDevice[M]:
        """A default that is right on the first device and fails here shows that this device is at fault."""
        first = self.first
        here = replace(first, device=device, checker=replace(first.checker, device=device))
        check = here.checker.check(here.baseline.vmfb)
        timing = device.time(here.baseline, here.benchmark, repetitions=LISTENED)
        if (not check.ok and first.default.ok) or not timing.ok:
            raise DeviceError(
                f"IREE's default runs on another device and not on {device.uri!r}: "
                f"{failed_because(check.detail or timing.detail)}",
                remedy="Leave it out of --device.",
            )
        return OnDevice(here, timing)
