"""What is told of a model beside the verdict: where its time goes, and what a cold cache makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.iree.run import Benchmark
from autotuner.jobs.model.breakdown import Breakdown, TimeTable
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.entries import Entry
from autotuner.jobs.model.result import Row
from autotuner.measure.cache_timer import NO_TIME, CacheTimer, Modules, cold_seconds
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.targets import PLAIN


def time_table(
    context: Context,
    us: Mapping[str, float],
    *,
    base: Contestant | None,
    best: Contestant | None,
    ranked: Dispatches | None,
) -> TimeTable:
    """The default and the best model in parts; a side is empty where nothing tells them."""
    if not context.timed or base is None or base.build is None:
        return TimeTable()
    before = us.get(base.id, base.us)
    after = us.get(best.id, best.us or (best.on.us if best.on else None)) if best is not None else None
    if ranked is not None and ranked.shares.timed_alone:
        if ranked.shares.estimated:  # where the time really goes, nobody knows
            return TimeTable()
        return _by_timings(ranked, before, after, best)
    told = (
        _told(context, best.build, after) if best is not None and best.build is not None and best is not base else None
    )
    return TimeTable(_told(context, base.build, before), told)


def _told(context: Context, build: Compiled, us: float | None) -> Breakdown | None:
    """By the statistics that were read last, or are read now if there is time."""
    times = context.read.get(build.vmfb)
    if times is None and context.clock.left > context.isolated_seconds:
        with suppress(OutOfTimeError):
            times = context.statistics(build)
    return Breakdown.told(times, us) if times and us else None


def _by_timings(ranked: Dispatches, before: float | None, after: float | None, best: Contestant | None) -> TimeTable:
    """Dispatches that were timed alone are those of the route that was tuned: nothing is known of another route's, nor
    of microkernels in their place."""
    rows = list(ranked.rows.values())
    own = [(row.group.root.kind, row.us or 0.0, row.group.calls) for row in rows]
    first = Breakdown.alone(own, before) if before and ranked.route == PLAIN else None
    if best is None or not after or best.by_flags or best.route != ranked.route or best.kernels:
        return TimeTable(first)
    tuned = {entry.label: entry for entry in best.entries}
    new = [(row.group.root.kind, _tuned_us(row, tuned.get(row.label)), row.group.calls) for row in rows]
    return TimeTable(first, Breakdown.alone(new, after))


def _tuned_us(row: Row, entry: Entry | None) -> float:
    """A dispatch's time with its entry: as much faster as it was alone."""
    us = row.us or 0.0
    if entry is None:
        return us
    best, baseline = entry.result.best, entry.result.baseline.us
    return us * best.us / baseline if best is not None and best.us and baseline else us


def time_cold(
    context: Context,
    benchmark: Benchmark,
    racing: Sequence[Contestant],
    judgement: Judgement,
    *,
    left: float,
) -> Caches | None:
    """The default and the best whole model with a warm and with an emptied cache, where that is wanted.

    `left` are the seconds before what wins is compiled to be shipped.
    """
    device, stop = context.session.runner, context.session.stop
    if context.options.cache == "warm" or judgement.verdict == "inconclusive" or stop.requested:
        return None
    if device.isolated is device:
        return None
    base, *rivals = racing
    best = next((one for one in rivals if one.id == judgement.winner), None)
    best = best or min(rivals, key=lambda one: judgement.us.get(one.id, math.inf))
    if cold_seconds(device, context.timing_seconds) > left:
        context.note(NO_TIME)
        return None
    context.stage("timing with a cold cache")

    rows = {one.id: one.row for one in racing}

    def record(name: str, block: int, timing: Timing) -> None:
        context.session.store.record_timing(rows[name], timing, phase="cold", block=block)

    chosen = {one.id: Modules(one.module, one.module) for one in (base, best)}
    with context.clocked("time"):
        timer = CacheTimer(device, replace(benchmark, emptied=True), record)
        found, notes = timer.tell(chosen, baseline=base.id, won=judgement.verdict == "win")
    for note in notes:
        context.note(note)
    return found
