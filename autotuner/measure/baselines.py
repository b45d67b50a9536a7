"""IREE's default on every device: chips of one product differ, so a candidate's time is told by its own device's.

The device that a problem was calibrated on is its home. A time of another device is divided by what the default takes
there, relative to what it takes at home: what is compared are times as they would be at home.
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
    """The default, when the device first took part; None at home, where it is a candidate like others."""


@dataclass(eq=False)
class Baselines(Generic[M]):
    """The devices that have taken part in a problem's search."""

    home: Calibration[M]
    home_us: Callable[[], float | None]
    """What the default takes at home."""
    _known: dict[str, OnDevice[M]] = field(default_factory=dict, init=False)

    def measure(self, module: M, device: Device, *, best_us: float) -> Measured:
        """A candidate on a device; `best_us` is told as it would be at home. A new device times the default, too."""
        new = device.uri not in self._known
        here = self.on(device)
        best = best_us * self.ratio(device.uri)
        measured = measure(here.calibration, module, best_us=best)
        return replace(measured, default=here.arrived) if new and here.arrived is not None else measured

    def on(self, device: Device) -> OnDevice[M]:
        """How this device times; one that is new here times the default first."""
        if device.uri not in self._known:
            home = device.uri == self.home.device.uri
            self._known[device.uri] = OnDevice(self.home, None) if home else self._arrive(device)
        return self._known[device.uri]

    def ratio(self, uri: str) -> float:
        """What the default takes on a device, of what it takes at home."""
        known, home = self._known.get(uri), self.home_us()
        if known is None or known.arrived is None or not home:
            return 1.0
        return known.arrived.median / home

    def us(self) -> Mapping[str, float]:
        """What the default takes, by device."""
        home = self.home_us()
        if not home:
            return {}
        return {uri: home * self.ratio(uri) for uri in (self.home.device.uri, *self._known)}

    def _arrive(self, device: Device) -> OnDevice[M]:
        """What is right at home and does not run here, or is wrong here, says that this device is at fault."""
        home = self.home
        here = replace(home, device=device, checker=replace(home.checker, device=device))
        check = here.checker.check(here.baseline.vmfb)
        timing = device.time(here.baseline, here.benchmark, repetitions=LISTENED)
        if (not check.ok and home.default.ok) or not timing.ok:
            raise DeviceError(
                f"IREE's default runs on another device and not on {device.uri!r}: "
                f"{failed_because(check.detail or timing.detail)}",
                remedy="Leave it out of --device.",
            )
        return OnDevice(here, timing)
