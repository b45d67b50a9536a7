"""One candidate on a device: is it right, and about how long does it take; every so often the baseline beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import fmean

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True)
class Screened:
    """One screening result: the median of a few repetitions, in the order in which they were taken.

    Where there are several devices, as it would be on one: what the baseline takes elsewhere is taken out.
    """

    id: str
    time: float
    device: str = ""
    """Where it was taken."""


def pick_for_race(screened: Sequence[Screened], *, baseline: str, count: int = 8) -> list[str]:
    """The fastest of a screening, best first, each judged against the baseline timings nearest to it.

    The baseline stands in the sequence wherever it was re-timed. The device's slow drift is read off it and
    taken out; one baseline timing is as noisy as a candidate's, so the line is smoothed over its neighbours
    before it is used. Each device drifts by itself. What was screened more than once counts with its mean.
    """
    drift = np.zeros(len(screened))
    for device in {entry.device for entry in screened}:
        own = [place for place, entry in enumerate(screened) if entry.device == device]
        drift[own] = _drift(screened, own, baseline)
    found: dict[str, list[float]] = {}
    for entry, shift in zip(screened, drift, strict=True):
        if entry.id != baseline:
            found.setdefault(entry.id, []).append(math.log(entry.time) - float(shift))
    return sorted(found, key=lambda name: fmean(found[name]))[:count]


def _drift(screened: Sequence[Screened], own: Sequence[int], baseline: str) -> npt.NDArray[np.float64]:
    """Of a device, at these places in the sequence: how much longer all takes than at the sequence's first baseline."""
    places = [place for place in own if screened[place].id == baseline]
    if len(places) < 3:
        return np.zeros(len(own))
    first = next(entry.time for entry in screened if entry.id == baseline)
    logs = np.log([screened[place].time / first for place in places])
    padded = np.concatenate([logs[:1], logs, logs[-1:]])
    smooth = np.convolve(padded, np.full(3, 1 / 3), mode="valid")
    return np.interp(own, places, smooth)
