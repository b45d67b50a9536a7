"""Who races: the order that the screening gives, drift taken out, and a second look at the best of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from autotuner.measure.race import TimeOne, TimingFailed

_RACE = "the race's"
"""Where the second look is taken after a screening on several devices: it has baselines of its own."""


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


def shortlist(
    screened: Sequence[Screened], *, baseline: str, time_one: TimeOne, keep: Collection[str] = (), count: int = 8
) -> list[str]:
    """Who races: the best of the screening, after the best twice as many were screened a second time.

    One screening of fifty under 1.5 % noise loses a candidate that is 3 % faster from its best eight in 6 %
    of runs, from its best sixteen in under 2 %; screening these sixteen again is cheaper than racing them.
    Those in `keep` are on the list whatever their place, within its length.
    """
    again = pick_for_race(screened, baseline=baseline, count=2 * count)
    if len(again) <= count:
        return again
    passes = list(screened)
    devices = {entry.device for entry in screened}
    here = devices.pop() if len(devices) == 1 else _RACE
    failed = set()
    for name in [baseline, *again[::2], baseline, *again[1::2], baseline]:
        try:
            passes.append(Screened(name, time_one(name), here))
        except TimingFailed:
            if name == baseline:
                raise
            failed.add(name)
    ranked = [n for n in pick_for_race(passes, baseline=baseline, count=len(passes)) if n not in failed]
    kept = [name for name in ranked if name in keep]
    others = [name for name in ranked if name in again and name not in keep]
    chosen = {*kept, *others[: max(count - len(kept), 0)]}
    return [name for name in ranked if name in chosen]
