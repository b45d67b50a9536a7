"""One candidate on a device: is it right, and about how long does it take?"""

from __future__ import annotations

from dataclasses import dataclass

from autotuner.devices.device import Timing, screen
from autotuner.measure.calibrate import Calibration, M
from autotuner.measure.check import Check


@dataclass(frozen=True)
class Measured:
    """The device's check and time of a candidate."""

    check: Check
    timing: Timing | None = None
    """None where the result is wrong; but IREE's default is timed, right or wrong."""
    default: Timing | None = None
    """IREE's default, where this device had not timed it before."""
    device: str = ""
    """The URI of the device."""

    @property
    def why(self) -> str:
        """Why it has no time."""
        return self.check.detail or (self.timing.detail if self.timing else "")


def measure(calibration: Calibration[M], module: M, *, best_us: float) -> Measured:
    """Check, then time. It writes nothing, so it may run in a thread."""
    known_wrong = module is calibration.baseline and not calibration.default.ok
    check = calibration.default if known_wrong else calibration.checker.check(module.vmfb)
    if check.failure is not None and not known_wrong:
        return Measured(check, device=calibration.device.uri)
    timing = screen(calibration.device, module, calibration.benchmark, best_us=best_us)
    return Measured(check, timing, device=calibration.device.uri)
