"""One candidate on a device: is it right, and about how long does it take; every so often the baseline beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count

from autotuner.devices.device import Timing, screen
from autotuner.measure.calibrate import Calibration, M
from autotuner.measure.check import Check

DRIFT_EVERY = 10
"""Candidates after which the baseline is timed once more."""
_DRIFT_WORTH_SAYING = 0.05


@dataclass(frozen=True)
class Measured:
    """What the device said of a candidate, and of the baseline where that was timed beside it."""

    check: Check
    timing: Timing | None = None
    """None where the result is wrong; but IREE's default is timed, right or wrong."""
    drift: Timing | None = None
    device: str = ""
    """The URI of the device."""

    @property
    def died(self) -> bool:
        """The module did not run to its end: its own fault, or the device's."""
        failures = {self.check.failure, self.timing.failure if self.timing else None}
        return not failures.isdisjoint({"run-error", "run-timeout"})

    @property
    def why(self) -> str:
        """Why it has no time."""
        return self.check.detail or (self.timing.detail if self.timing else "")


def measure(calibration: Calibration[M], module: M, *, best_us: float, drift: bool) -> Measured:
    """Check, then time; with `drift`, the baseline once more. Nothing is written down: it may run in a thread."""
    known_wrong = module is calibration.baseline and not calibration.default.ok
    check = calibration.default if known_wrong else calibration.checker.check(module.vmfb)
    if check.failure is not None and not known_wrong:
        return Measured(check, device=calibration.device.uri)
    timing = screen(calibration.device, module, calibration.benchmark, best_us=best_us)
    again = calibration.device.time(calibration.baseline, calibration.benchmark) if drift else None
    return Measured(check, timing, again, calibration.device.uri)


@dataclass(frozen=True)
class DriftWatch:
    """Says when the baseline is timed once more, and what to tell of it."""

    _timed: count[int] = field(default_factory=lambda: count(1), init=False)

    def due(self) -> bool:
        """Asked once for each candidate that is measured."""
        return next(self._timed) % DRIFT_EVERY == 0

    @staticmethod
    def words(ratio: float, device: str = "the device") -> str | None:
        """Of the baseline's time to its first; None where it is hardly another."""
        if abs(math.log(ratio)) <= _DRIFT_WORTH_SAYING:
            return None
        return f"{device} drifts: the baseline now takes {ratio:.2f} of its first time"
