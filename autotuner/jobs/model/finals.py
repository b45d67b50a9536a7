"""Whole models against each other: the default, the best route and what tuning made, in one interleaved race."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from autotuner.devices.timer import Module, Timer
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.race import Entrant, Interval, TimingFailed, Verdict, confirm, decide, race
from autotuner.store.rows import Phase
from autotuner.system.progress import Clock, Stop
from autotuner.tuning.contest import ALPHA, ONE, RaceDeadline, confirm_blocks, told_what_it_needs
from autotuner.tuning.effort import Effort

Record = Callable[[Phase, str, int, tuple[float, ...]], None]
"""Writes the raw repetitions of a timing: phase, entrant, block, µs."""
_RACE_SHARE = 0.6


@dataclass(frozen=True)
class Final:
    """Who won, with the evidence."""

    verdict: Verdict
    reason: str
    winner: str | None
    us: Mapping[str, float]
    speedup: Interval | None = None
    over_stock: Interval | None = None


@dataclass(frozen=True)
class Field:
    """Who takes part; `complexity` settles ties, and whoever has nothing but flags is simpler than a spec."""

    modules: Mapping[str, Module]
    complexity: Mapping[str, int]
    baseline: str
    stock: str
    """The best of what flags alone give: the baseline itself where no route is better."""


def hold(
    field: Field,
    timer: Timer,
    *,
    effort: Effort,
    clock: Clock,
    stop: Stop,
    seed: int,
    record: Record,
) -> Final:
    """Race, decide, confirm: as for single problems, with the whole model for a stopwatch."""
    raw: dict[str, tuple[float, ...]] = {}

    def time_one(name: str) -> float:
        timing = timer.time(field.modules[name], repetitions=3)
        if not timing.ok:
            raise TimingFailed(timing.detail)
        raw[name] = timing.us
        return timing.median

    def recorder(phase: Phase) -> Callable[[int, str, float], None]:
        return lambda block, name, _us: record(phase, name, block, raw[name])

    started = clock.elapsed
    rng = np.random.default_rng(seed)
    us: dict[str, float] = {}
    try:
        result = race(
            [Entrant(name, field.complexity[name]) for name in field.modules],
            baseline=field.baseline,
            keep={field.stock},
            time_one=time_one,
            rng=rng,
            alpha=ALPHA,
            smallest_gain=effort.smallest_gain,
            should_stop=RaceDeadline(clock, stop, started, share=_RACE_SHARE),
            on_timing=recorder("race"),
        )
        decision = decide(result)
        us = {name: median(t) for name, row in result.times.items() if (t := [x for x in row if x is not None])}
        if decision.winner is None:
            reason = told_what_it_needs(decision, result, clock, stop, started=started)
            return Final(decision.verdict, reason, None, us)
        block_seconds = (clock.elapsed - started) / result.timings
        block_seconds *= len({field.baseline, field.stock, decision.winner})
        confirmation = confirm(
            decision.winner,
            baseline=field.baseline,
            beside=[field.stock],
            time_one=time_one,
            rng=rng,
            blocks=confirm_blocks(clock, effort, block_seconds=block_seconds),
            alpha=ALPHA,
            smallest_gain=effort.smallest_gain,
            should_stop=lambda: stop.requested,
            on_timing=recorder("confirm"),
        )
    except OutOfTimeError as error:
        return Final("inconclusive", error.message.rstrip("."), None, us)
    except TimingFailed as failure:
        raise DeviceError(
            f"the model stopped working in the middle of the race: {str(failure)[:200]}",
            remedy="Check the device and run again with --resume.",
        ) from failure
    fresh = {name: median(t) for name, row in confirmation.times.items() if (t := [x for x in row if x is not None])}
    winner, stock = decision.winner, field.stock
    over = ONE if winner == stock else confirmation.ratio(winner, stock, alpha=ALPHA)
    if not confirmation.holds:
        return Final(confirmation.verdict, confirmation.reason, None, {**us, **fresh}, confirmation.speedup, over)
    if stock not in (winner, field.baseline) and (over is None or over.low <= 1.0):
        alone = confirmation.ratio(stock, field.baseline, alpha=ALPHA)
        if alone is not None and alone.low > 1 + effort.smallest_gain:
            reason = f"what was tuned gains nothing certain over route {stock}"
            return Final("win", reason, stock, {**us, **fresh}, alone, ONE)
    return Final("win", confirmation.reason, winner, {**us, **fresh}, confirmation.speedup, over)
