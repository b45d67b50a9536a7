"""Where a model's time goes: convolutions, products, packing, all else, and what is between the dispatches; and what a
cold cache makes of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from autotuner.devices.device import Timing
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.iree.run import Benchmark, DispatchTime
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.measure.cache_timer import NO_TIME, CacheTimer, Modules, cold_seconds
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.programs.structure import STATISTICS

CONV, GEMM, ATTENTION, PACKING = "conv", "gemm", "attention", "packing"
OTHER, MICROKERNEL = "elementwise, reduction", "microkernels"
BETWEEN = "launch and waiting"
"""What is left of the model's time, between the dispatches."""
_WORDS: Mapping[str, Sequence[str]] = {
    ATTENTION: ("attention", "online_attention"),
    CONV: ("conv", "depthwise_conv"),
    GEMM: (
        "matmul",
        "batch_matmul",
        "quantized_matmul",
        "quantized_batch_matmul",
        "scaled_matmul",
        "mmt4d",
        "batch_mmt4d",
        "matvec",
        "vecmat",
        "batch_matvec",
        "batch_vecmat",
        "contract",
        "horizontal_multi_contract",
        "inner_tiled",
    ),
    PACKING: ("pack", "unpack", "encode", "set_encoding", "unset_encoding", "im2col", "transpose", "slow_memcpy"),
}
"""How the compiler's names of dispatches begin; every other one computes elements or reduces."""
_ORDER = (CONV, GEMM, ATTENTION, MICROKERNEL, PACKING, OTHER)


def kind_of(export: str) -> str:
    """What a dispatch does, from the name that the compiler gave it: `main_dispatch_3_matmul_64x32x64_f32`."""
    named = re.search(r"(?:dispatch|encoding|initializer)_\d+(?:_(.+))?$", export)
    if named is None:  # the compiler numbers all its own
        return MICROKERNEL
    name = named.group(1) or ""
    for kind, words in _WORDS.items():
        if any(re.match(rf"{word}(?:_|$|\d)", name) for word in words):
            return kind
    return OTHER


@dataclass(frozen=True, slots=True)
class Share:
    """What the dispatches of one kind take of a call."""

    kind: str
    us: float
    calls: float | None = None
    busy: float | None = None
    """Cores that work at once, on average; None where it is not told."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "us": self.us, "calls": self.calls, "busy_cores": self.busy}


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One call of a model in parts that add up to it."""

    us: float
    shares: tuple[Share, ...]
    how: str

    @classmethod
    def told(cls, times: Mapping[str, DispatchTime], us: float) -> Breakdown:
        """By the runtime's statistics; `us` is the model's time without them."""
        found = []
        for kind in _ORDER:
            own = [time for name, time in times.items() if kind_of(name) == kind]
            total, busy = sum(time.us for time in own), sum(time.busy_us for time in own)
            if own:
                cores = busy / total if busy and total else None
                found.append(Share(kind, total, sum(time.calls for time in own), cores))
        how, total = STATISTICS, sum(share.us for share in found)
        if total > us > 0:
            how += f"; they add up to {total / us:.2f} times the model's time, and are shown in proportion"
            found = [Share(s.kind, s.us * us / total, s.calls, s.busy) for s in found]
            total = us
        return cls(us, (*found, Share(BETWEEN, us - total)), how)

    def to_json(self) -> dict[str, Any]:
        return {"us": self.us, "how": self.how, "parts": [share.to_json() for share in self.shares]}


@dataclass(frozen=True, slots=True)
class TimeTable:
    """The default model and what came of it, side by side."""

    before: Breakdown | None = None
    after: Breakdown | None = None

    def __bool__(self) -> bool:
        return self.before is not None or self.after is not None

    def to_json(self) -> dict[str, Any] | None:
        if not self:
            return None
        return {
            "before": self.before.to_json() if self.before else None,
            "after": self.after.to_json() if self.after else None,
        }

    def rows(self) -> list[tuple[str, Share | None, Share | None]]:
        """Each kind with its share before and after."""
        sides = [{s.kind: s for s in side.shares} if side else {} for side in (self.before, self.after)]
        kinds = [kind for kind in (*_ORDER, BETWEEN) if any(kind in side for side in sides)]
        return [(kind, sides[0].get(kind), sides[1].get(kind)) for kind in kinds]

    def lines(self) -> list[str]:
        """For the report."""
        lines = ["| what | default | | cores busy | best | | cores busy |", "|---|---|---|---|---|---|---|"]
        for kind, before, after in self.rows():
            cells = [*_cells(before, self.before), *_cells(after, self.after)]
            lines.append(f"| {' | '.join([kind, *cells])} |")
        whole = [f"{side.us / 1000:.3f} ms | | " if side else "– | – | – " for side in (self.before, self.after)]
        lines += [f"| the model | {'| '.join(whole)}|", "", f"How: {self.how}."]
        return lines

    @property
    def how(self) -> str:
        """Where the figures come from."""
        sides = dict.fromkeys(side.how for side in (self.before, self.after) if side)
        return "; ".join(sides)

    def short(self) -> str:
        """One line: the shares of what is shown, the largest first."""
        side = self.after or self.before
        if side is None or not side.us:
            return ""
        ranked = sorted(side.shares, key=lambda share: share.us, reverse=True)
        parts = ", ".join(f"{share.kind} {share.us / side.us:.0%}" for share in ranked if share.us >= 0.005 * side.us)
        return f"{parts} ({'best' if self.after else 'default'}, by {side.how})"


def _cells(share: Share | None, side: Breakdown | None) -> tuple[str, str, str]:
    if side is None:
        return "–", "–", "–"
    if share is None:
        return "0 ms", "0.0 %", "–"
    part = f"{100 * share.us / side.us:.1f} %" if side.us else "–"
    return f"{share.us / 1000:.3f} ms", part, f"{share.busy:.1f}" if share.busy else "–"


def time_table(
    context: Context, us: Mapping[str, float], *, base: Contestant | None, best: Contestant | None
) -> TimeTable:
    """The default and the best model in parts; a side is empty where the device keeps no statistics."""
    if not context.timed or base is None:
        return TimeTable()
    after = us.get(best.id, best.us or (best.on.us if best.on else None)) if best is not None else None
    told = _told(context, best.build, after) if best is not None and best is not base else None
    return TimeTable(_told(context, base.build, us.get(base.id, base.us)), told)


def _told(context: Context, build: Compiled | None, us: float | None) -> Breakdown | None:
    """By the statistics that were read last, or are read now if there is time."""
    times = context.read.get(build.vmfb) if build is not None else None
    if times is None and context.clock.left > context.isolated_seconds:
        with suppress(OutOfTimeError):
            times = context.statistics(build)
    return Breakdown.told(times, us) if times and us else None


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
