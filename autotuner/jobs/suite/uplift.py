"""What a tuned workload gains. Shares and uplifts are per cent of the time that all of its calls take by default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

KEEP_RATIO = 1.03
KEEP_ERROR = 0.03


@dataclass(frozen=True, slots=True)
class Gain:
    """One kept problem: its part of the workload's time, and how much faster it became."""

    share: float
    ratio: float

    @property
    def saved(self) -> float:
        """The part of its own time that is saved, in per cent."""
        return 100 * (1 - 1 / self.ratio)


@dataclass(frozen=True, slots=True)
class Uplift:
    """The workload's gain over all kept problems; None where nothing was kept."""

    weighted: float
    """Per cent of the workload's time: Σ share·(1 − 1/ratio)."""
    average: float | None
    """Per cent: the mean of 1 − 1/ratio, whatever the shares."""
    coverage: float
    """Per cent of the workload's time that kept problems stand for."""
    geometric_mean: float | None
    """Of the ratios."""
    median: float | None
    us_saved: float | None
    us_total: float | None
    """By default, all calls; None where nothing was timed."""
    kept: int
    problems: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def shares(weights: Sequence[float]) -> list[float]:
    """Per cent of the whole."""
    total = math.fsum(weights)
    return [100 * weight / total if total > 0 else 0.0 for weight in weights]


def is_kept(*, verdict: str, ratio: float | None, error: float | None) -> bool:
    """Proven faster, worth it, and right: what final_results.csv holds."""
    return verdict == "win" and ratio is not None and ratio >= KEEP_RATIO and error is not None and error < KEEP_ERROR


def measure(kept: Iterable[Gain], *, problems: int, us_total: float | None) -> Uplift:
    gains = list(kept)
    ratios = [gain.ratio for gain in gains]
    weighted = math.fsum(gain.share * (1 - 1 / gain.ratio) for gain in gains)
    return Uplift(
        weighted=weighted,
        average=fmean(gain.saved for gain in gains) if gains else None,
        coverage=math.fsum(gain.share for gain in gains),
        geometric_mean=math.exp(fmean(math.log(ratio) for ratio in ratios)) if ratios else None,
        median=median(ratios) if ratios else None,
        us_saved=None if us_total is None else us_total * weighted / 100,
        us_total=us_total,
        kept=len(gains),
        problems=problems,
    )
