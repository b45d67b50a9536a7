"""Who races: the order that the screening gives, drift taken out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt


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
