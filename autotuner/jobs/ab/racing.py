"""The interleaved race of the core between two arms, and the ratio that it shows whoever wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from autotuner.devices.timer import Timer
from autotuner.jobs.ab.side import A, B, Side
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.finals import Field, Final, hold
from autotuner.measure.race import LOOKS, BlockTimes, Interval
from autotuner.store.rows import Phase
from autotuner.tuning.contest import ALPHA


def race_sides(sides: Sequence[Side], timer: Timer, context: Context) -> tuple[Final, Interval | None]:
    """The verdict, and B's speed over A's; both times are the race's from here on."""
    store, effort = context.session.store, context.options.effort
    a, b = sides
    rows = {side.key: side.row for side in sides}
    blocks: dict[str, dict[int, float]] = {A: {}, B: {}}

    def record(phase: Phase, name: str, block: int, us: tuple[float, ...]) -> None:
        store.record_timing(rows[name], phase=phase, block=block, repetitions_us=us)
        if phase == "race":
            blocks[name][block] = median(us)

    final = hold(
        Field({A: a.module, B: b.module}, {A: 0, B: 1}, A, A),
        timer,
        effort=effort,
        clock=context.clock,
        stop=context.session.stop,
        seed=context.options.seed,
        record=record,
    )
    for side in sides:
        side.us = final.us.get(side.key, side.us)
        if side.us is not None:
            store.set_us(side.row, side.us)
    both = sorted(blocks[A].keys() & blocks[B].keys())
    times = BlockTimes({name: tuple(row[block] for block in both) for name, row in blocks.items()})
    # Of a race that was not won: what it shows at the level of one of its looks.
    speedup = final.speedup or times.ratio(B, A, alpha=ALPHA / len(LOOKS))
    if final.verdict != "no-winner" or speedup is None:
        return final, speedup
    slower = f"{b.arm.name} is slower than {a.arm.name}"
    equal = f"{b.arm.name} is not more than {effort.smallest_gain:.0%} faster than {a.arm.name}"
    return replace(final, reason=slower if speedup.high < 1 else equal), speedup
