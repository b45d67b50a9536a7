"""How often nightly trends alarm although nothing changed, and how soon a drift is found: on simulated nights."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt

from autotuner.jobs.nightly.plan import Limits
from autotuner.jobs.nightly.run import Entry
from autotuner.report.nightly import Trends, trends
from autotuner.store.figures import Figure

SERIES, NIGHTS = 100, 500
SHARED = 0.003
"""What all kernels do together in a night: the machine is a little faster or slower."""
SPREADS = (0.001, 0.01)
"""Of a series from night to night; each has its own, between these."""
DRIFT = 0.02
SOON = 10
"""Nights in which a drift is to be found."""
LIMITS = Limits()
BOUND_SERIES, BOUND_STEPS = 200_000, 4_000
"""Simulated for the likelihood ratio: without and with a step."""

Logs = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int]], Logs]


def _spiky(generator: np.random.Generator, shape: tuple[int, int]) -> Logs:
    """One night in fifty is 10 spreads too slow, or more."""
    spikes = (generator.random(shape) < 0.02) * (10 + generator.exponential(10, shape))
    return generator.normal(0, 1, shape) + spikes


def _carried(generator: np.random.Generator, shape: tuple[int, int]) -> Logs:
    """A fifth of each night's error is still there in the next."""
    found = generator.normal(0, math.sqrt(1 - 0.2**2), shape)
    for night in range(1, shape[0]):
        found[night] += 0.2 * found[night - 1]
    return found


NOISES: Mapping[str, Noise] = {
    "normal": lambda generator, shape: generator.normal(0, 1, shape),
    "heavy tails (Student's t, 3)": lambda generator, shape: generator.standard_t(3, shape) / math.sqrt(3),
    "spikes (one night in fifty)": _spiky,
    "carried over (a fifth)": _carried,
}


def simulated(*, noise: Noise, seed: int, nights: int, series: int, spread: float | None = None) -> Logs:
    """Logarithms of times, night by night."""
    generator = np.random.default_rng(seed)
    spreads = (
        np.exp(generator.uniform(math.log(SPREADS[0]), math.log(SPREADS[1]), series))
        if spread is None
        else np.full(series, spread)
    )
    own = noise(generator, (nights, series)) * spreads
    together = generator.normal(0, SHARED, (nights, 1))
    return np.asarray(own + together + generator.uniform(2, 8, series))


def judged(logs: Logs, limits: Limits = LIMITS) -> Trends:
    """As `autotune nightly` judges a history of these."""
    first = date(2026, 1, 1)
    entries = [
        Entry(
            night=(first + timedelta(days=night)).isoformat(),
            part="suite",
            status="finished",
            time="",
            figures=tuple(
                Figure(f"p{place}", "gfx942", "default", math.exp(value), state="sustained", device="chip")
                for place, value in enumerate(row)
            ),
            environment={"iree": "3.13.0"},
        )
        for night, row in enumerate(logs)
    ]
    return trends(entries, limits)


def alarm_nights(found: Trends) -> dict[str, list[str]]:
    """Night -> the series that alarm in it."""
    told: dict[str, list[str]] = {}
    for one in found.all:
        for change in one.changes:
            if change.slower:
                told.setdefault(change.found, []).append(one.name)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=8, help="histories of 500 nights for each kind of noise")
    parser.add_argument("--drifts", type=int, default=100, help="drifts of each kind")
    options = parser.parse_args()
    spreads = f"spreads {SPREADS[0]:.1%} to {SPREADS[1]:.1%}, shared {SHARED:.1%}"
    print(f"A/A: {SERIES} series, {spreads}, rate {LIMITS.rate:g} %")
    for name, noise in NOISES.items():
        counts = [
            len(alarm_nights(judged(simulated(noise=noise, seed=seed, nights=NIGHTS, series=SERIES))))
            for seed in range(options.histories)
        ]
        share = sum(counts) / (NIGHTS * options.histories)
        print(
            f"  {name}: {sum(counts)} false alarms in {options.histories} x {NIGHTS} nights ({share:.3%})", flush=True
        )
    print(f"drifts of {DRIFT:.0%} in one of {SERIES} series (normal noise): found within {SOON} nights, median nights")
    for spread in (0.0025, 0.005, 0.0075, 0.01):
        for known in (20, 60):
            for shape, over in (("step", 1), ("over 5 nights", 5)):
                found = [_drifted(seed, spread, known, over) for seed in range(options.drifts)]
                soon = sum(night is not None and night <= SOON for night in found)
                middle = np.median([99 if night is None else night for night in found])
                told = f"{soon / len(found):.0%} of {len(found)}, {middle:g}"
                print(f"  spread {spread:.2%}, {known} nights before, {shape}: {told}", flush=True)
    print(f"the likelihood ratio with as many false alarms (normal noise): steps of {DRIFT:.0%} found in {SOON} nights")
    for spread, known in ((0.0075, 20), (0.01, 20), (0.01, 60)):
        print(f"  spread {spread:.2%}, {known} nights before: {best_possible(spread, known, seed=77):.0%}", flush=True)
    found = [_drifted(seed, 0.005, 20, 1, everything=True) for seed in range(options.drifts)]
    soon = sum(night is not None and night <= SOON for night in found)
    print(f"a step of {DRIFT:.0%} in all series, 20 nights before: {soon / len(found):.0%} of {len(found)}")


def _likelihood(logs: Logs, known: int) -> npt.NDArray[np.float64]:
    """By series: the largest score of a step that may have been in any of the nights since `known`, told in any later
    one. It is the likelihood ratio of two levels with one spread, as a standard normal number."""
    sums, squares = np.cumsum(logs, axis=1), np.cumsum(logs**2, axis=1)
    best = np.full(len(logs), -np.inf)
    for nights in range(known + 2, logs.shape[1] + 1):
        for after in range(2, nights - known + 1):
            before = nights - after
            level = sums[:, before - 1] / before
            now = (sums[:, nights - 1] - sums[:, before - 1]) / after
            rest = squares[:, nights - 1] - before * level**2 - after * now**2
            t = (now - level) / np.sqrt(rest / (nights - 2) * (1 / before + 1 / after))
            freedom = nights - 2
            size = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t * t / freedom))
            best = np.maximum(best, np.copysign(size, t))
    return best


def best_possible(spread: float, known: int, *, seed: int) -> float:
    """The part of steps that the likelihood ratio finds within SOON nights, where it alarms as often as trends may."""
    generator = np.random.default_rng(seed)
    quiet = _likelihood(generator.normal(0, 1, (BOUND_SERIES, known + SOON)), known)
    alarms = LIMITS.rate / 100 / (SERIES + 1) * SOON
    stepped = generator.normal(0, 1, (BOUND_STEPS, known + SOON))
    stepped[:, known:] += math.log1p(DRIFT) / spread
    return float((_likelihood(stepped, known) > np.quantile(quiet, 1 - alarms)).mean())


def _drifted(seed: int, spread: float, known: int, over: int, *, everything: bool = False) -> int | None:
    series = 20
    logs = simulated(noise=NOISES["normal"], seed=seed, nights=known + 12, series=series, spread=spread)
    part = np.clip((np.arange(12) + 1) / over, 0, 1) * math.log1p(DRIFT)
    logs[known:, : series if everything else 1] += part[:, None]
    # The share of the rate that a series has among a hundred.
    rate = LIMITS.rate * (series + 1) / (SERIES + 1)
    return _until(logs, known, Limits(rate=rate), everything=everything)


def _until(logs: Logs, known: int, limits: Limits, *, everything: bool) -> int | None:
    found = judged(logs, limits)
    told = alarm_nights(found)
    for place, night in enumerate(found.nights[known:], 1):
        if any((not name.startswith("p")) if everything else name.startswith("p0 ") for name in told.get(night, ())):
            return place
    return None


if __name__ == "__main__":
    main()
