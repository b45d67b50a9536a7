"""The calls after a win: winner and baseline are called as users call them, and compared.

A timing repeats a dispatch on the same inputs, into the same storage. Code that knows such a call again need not
compute. So a winner and what it beats are called in turns on inputs that no call has seen (`devices/live.py`): results
must agree, inputs must stay as they are, and calls must be faster, too. What a call costs beside the work is the same
for both: it makes the ratio of two calls smaller, and leaves their difference, which gives the ratio of the work. No
foreign code is said to be faster than that.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotuner.devices.device import Computed, Device, LiveCalls, LiveRounds, Module
from autotuner.devices.environment import described
from autotuner.devices.sampling import FALLBACK_BYTES, sizes_of
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Invocation
from autotuner.measure.blocks import BlockTimes, Interval, ratio_text
from autotuner.measure.check import Check
from autotuner.measure.judgement import Audited
from autotuner.problems import Problem
from autotuner.targets.backends import backend_on
from autotuner.targets.catalog import peak_of
from autotuner.targets.naming import TWIN

BATCH, LEAST_BATCHES, MOST_BATCHES = 64, 2, 6
"""Rounds are called in batches until they decide; more than these would hardly help. The least where no time is
left."""
SECONDS = 0.5
"""Of one batch: of longer calls there are fewer, at the least eight."""
KEPT = 0.5
"""The power of the ratio of timings that calls of foreign code must reach: caches are colder, and clocks differ. What
comes with autotune does not cheat, and a launch may cost it more: it must not be slower."""


@dataclass(frozen=True)
class Finding:
    """What calls on changing inputs say of a win."""

    audited: Audited
    check: Check
    certain: bool = False
    """Single calls certainly gain enough."""
    settled: bool = False
    """More of them would hardly help."""


@dataclass(frozen=True)
class Audit:
    """How entrants are called, and when two results are the same."""

    device: Device
    invocation: Invocation
    storage: int
    """How many of the last inputs are where results go."""
    modules: Mapping[str, Module] | Callable[[Sequence[str]], Mapping[str, Module]]
    """Of entrants, which do each dispatch once; or what makes them."""
    agree: Callable[[Computed, Computed], Check]
    timeout: float
    refuse: Callable[[str, Check], None] = lambda *_: None
    """Records why an entrant is out."""
    shortest_us: float = 0.0
    """Nothing faster can have computed it."""
    seed: int = field(default_factory=lambda: secrets.randbits(62))
    """It is drawn after the race."""

    def of(
        self,
        winner: str,
        baseline: str,
        us: Mapping[str, float],
        told: Interval,
        left: Callable[[], float] = lambda: math.inf,
        *,
        worth: float = 1.0,
        foreign: bool = True,
    ) -> Finding | None:
        """What calls say of a win by the ratio `told`, in the seconds that are left; None where not even the baseline
        can be called so.

        Code that is not `foreign` comes with autotune or from the compiler.
        """
        modules = self.modules([baseline, winner]) if callable(self.modules) else self.modules
        if not {baseline, winner} <= {*modules}:
            raise OutOfTimeError
        if us[winner] < self.shortest_us:
            check = Check("wrong-time", 0.0, _IMPOSSIBLE.format(us=us[winner], shortest=self.shortest_us))
            self.refuse(winner, check)
            return Finding(Audited(self.seed), check)
        rounds: list[LiveCalls] = []
        found: Finding | None = None
        files = [modules[name].vmfb for name in (baseline, winner)]
        while found is None or (
            foreign and not found.settled and len(rounds) < (MOST_BATCHES if left() > 0 else LEAST_BATCHES)
        ):
            live = self._called(files, len(rounds))
            if live is None:
                return None
            rounds.append(live)
            found = self._found(rounds, us[baseline], told, worth, kept=KEPT if foreign else 0.0)
        if not found.check.ok:
            self.refuse(winner, found.check)
        return found

    def _called(self, files: Sequence[Path], number: int) -> LiveCalls | None:
        """None where the baseline, which comes first, fails by itself: that says nothing of the winner."""
        how = LiveRounds(self.storage, BATCH, SECONDS, self.seed + number, self.timeout)
        live = self.device.live_calls(files, self.invocation, how)
        if live is None or live.failure is None or len(files) == 1:
            return live
        alone = self._called(files[:1], number)
        return live if alone is not None and alone.failure is None else None

    def _found(self, batches: Sequence[LiveCalls], us: float, told: Interval, worth: float, *, kept: float) -> Finding:
        """`us` is what the baseline takes, repeated."""
        last = batches[-1]
        if last.failure is not None:
            check = Check(last.failure, float("inf"), f"on inputs that change from call to call: {last.detail}")
            return Finding(Audited(self.seed), check, settled=True)
        times = BlockTimes({name: tuple(us for one in batches for us in one.us[i]) for i, name in enumerate(_PARTIES)})
        pairs = [pair for one in batches for pair in zip(*one.results, strict=True)]
        check = self._right(pairs, changed=any(one.changed[1] for one in batches))
        speedup = times.ratio("winner", "baseline")
        if speedup is None:
            return Finding(Audited(self.seed, times.blocks, len(pairs)), check, settled=not check.ok)
        # No call is shorter than its work: if one was, the machine was slower when that was timed.
        work = speedup.of_part(min(1.0, us / times.medians["baseline"]))
        if check.ok and work.high < told.low**kept:
            check = Check("wrong-time", 0.0, _NOT_AS_FAST.format(told=ratio_text(told.median), work=work))
        certain, settled = work.low > worth, not check.ok or work.low >= max(worth, told.low**kept)
        return Finding(Audited(self.seed, times.blocks, len(pairs), speedup, work), check, certain, settled)

    def _right(self, pairs: Sequence[tuple[Computed, Computed]], *, changed: bool) -> Check:
        if changed:
            return Check("wrong-result", float("inf"), "it writes to its inputs")
        checks = [self.agree(found, other) for other, found in pairs]
        wrong = [check for check in checks if not check.ok]
        if not wrong:
            return Check(None, 0.0)
        how = f"wrong in {len(wrong)} of {len(checks)} calls on inputs that change from call to call"
        return replace(wrong[0], detail=f"{how}: {wrong[0].detail}")


def unknown(found: Computed, other: Computed) -> Check:
    """For a baseline that is known to be wrong: nobody can be compared with it."""
    del found, other
    return Check(None, 0.0)


def shortest_us(problem: Problem, uri: str) -> float:
    """What no code can be faster than on this device, by the arithmetic and the bytes of a problem; 0 where its peak is
    not known. Data sheets are of the usual clock and the widest sums: twice their rate is beyond all of that."""
    backend = backend_on(uri)
    if backend is None or TWIN in uri:
        return 0.0
    if backend.on_host:
        bits = min(operand.element.bits for operand in problem.operands)
        return problem.flops / ((os.cpu_count() or 1) * CYCLES * PER_CYCLE[bits]) * 1e6
    peak = peak_of("", device=described(uri).name)
    if peak is None:
        return 0.0
    beyond_cache = max(0, problem.bytes - (sizes_of(uri).cache or FALLBACK_BYTES))
    return max(problem.flops / (2e12 * max(peak.tflops.values())), beyond_cache / (2e9 * peak.gbs)) * 1e6


CYCLES = 7e9
"""A second: no processor has more."""
PER_CYCLE = {64: 64, 32: 128, 16: 4096, 8: 8192}
"""Operations of one core, by the bits of what is multiplied: four units of 512 bits, or tiles of a matrix unit."""
_IMPOSSIBLE = (
    "{us:.3g} µs is faster than this device can be: its arithmetic or its memory needs {shortest:.3g} µs at least"
)
_PARTIES = ("baseline", "winner")
_NOT_AS_FAST = (
    "its time does not hold: repeated on the same inputs it is {told} as fast, on inputs that change from call to call "
    "{work}"
)
