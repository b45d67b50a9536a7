"""The sides of a comparison: IREE's modules on their device, and libraries in their processes, timed alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from autotuner.build import Compiled
from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Computed, Device, Timing, choose_repeat
from autotuner.devices.sampling import Rotation
from autotuner.iree.benchmark import Benchmark
from autotuner.jobs.bench.library import LibraryProcess, Plan, Ready

MOST_PAIRS, LEAST_PAIRS, PAIRS_US = 20, 3, 250_000.0
"""Single calls of a cold timing: so many as fit into this time, within these bounds."""
LENGTHENED = 2
"""How often, at most, a module is compiled anew to last long enough."""
GPU_CALL_US = 32_000.0
"""So long a call lasts on a GPU. On an NVIDIA H200 one costs about 150 µs whatever it does, and a library's graph is
timed by the device's own clock, without that: of this it is less than 0.5 %."""
FLIGHT = 2
"""So many calls of a model are in flight at once on a GPU, whose dispatches are not repeated: a library's graph has no
gap between calls either. On an NVIDIA H200 four decoder layers took 461 µs with one, 352 with two, 348 with three."""

MOST_REPEATS = 8192
"""More than a search has: a module repeats in a loop, so that it is as large and compiles as fast with any number."""


def lasting_us(device: Device, *, on_host: bool) -> float:
    """How long a call of IREE lasts, at least, beside libraries: on a processor it costs little."""
    return max(2 * device.invocation_us, 0.0 if on_host else GPU_CALL_US)


class Side(Protocol):
    """One backend with one problem, ready to be called and timed."""

    @property
    def how(self) -> str:
        """What computes it, in a few words."""

    @property
    def elements(self) -> tuple[str, ...]:
        """The type of each result."""

    def answer(self) -> Computed | None:
        """The results of one call; None where it does not show them."""

    def time(self, *, repetitions: int) -> Timing:
        """A block of timings."""

    def time_cold(self, warm_us: float) -> Timing | None:
        """The same on inputs that are not in the last level cache; None where that cannot be had."""

    def time_call(self) -> Timing | None:
        """Single calls, each waited for before the next begins; None where that cannot be had."""


@dataclass
class IreeSide:
    """A module that IREE compiled. It repeats its dispatches until a call lasts long enough."""

    device: Device
    once: Compiled
    benchmark: Benchmark
    elements: tuple[str, ...]
    how: str
    rebuild: Callable[[int], Compiled]
    """The same code with so many repeats."""
    lasting_us: float
    """Of a call, at least."""
    often: Compiled = field(init=False)

    def __post_init__(self) -> None:
        self.often = self.once

    def lengthen(self) -> Timing:
        """Finds out how often to repeat; the last timing."""
        timing = self.device.time(self.once, self.benchmark, repetitions=1)
        for _ in range(LENGTHENED):
            if not timing.ok:
                return timing
            repeat = choose_repeat(timing.median, invocation_us=self.lasting_us, most=MOST_REPEATS)
            if repeat <= self.often.repeat:
                return timing
            made = self.rebuild(repeat)
            if not made.ok or made.repeat <= self.often.repeat:
                return timing
            self.often = made
            timing = self.device.time(made, self.benchmark, repetitions=1)
        return timing

    def answer(self) -> Computed:
        (found,) = self.device.check(self.once.vmfb, [self.benchmark.invocation], timeout=self.benchmark.timeout)
        return found

    def time(self, *, repetitions: int) -> Timing:
        return self.device.time(self.often, self.benchmark, repetitions=repetitions)

    def time_cold(self, warm_us: float) -> Timing | None:
        """What a single call takes longer on inputs that are not in the cache, added to the warm time: the cost of a
        call is in both and goes out."""
        count = max(LEAST_PAIRS, min(MOST_PAIRS, int(PAIRS_US / max(warm_us, 1.0))))
        pairs = self.device.call_pairs(self.once, self.benchmark, count=count)
        if pairs is None or pairs.failure is not None or not pairs.exceeds:
            return None
        return Timing((warm_us + max(pairs.extra_us, 0.0),), conditions=Conditions(self.device.state, "cold"))

    def time_call(self) -> Timing | None:
        found = self.device.time(self.once, replace(self.benchmark, flight=1), repetitions=1)
        return found if found.ok else None


@dataclass(frozen=True)
class LibrarySide:
    """What a library has prepared."""

    process: LibraryProcess
    ready: Ready
    plan: Plan
    rotation: Rotation
    """Over how many copies of the inputs a cold timing goes."""
    lend: Callable[[], None]
    """Gives the device to this process, in the state in which all are timed."""

    @property
    def how(self) -> str:
        return self.ready.how

    @property
    def elements(self) -> tuple[str, ...]:
        return self.ready.elements

    def answer(self) -> Computed:
        return self.process.results(self.ready, timeout=self.plan.timeout)

    def time(self, *, repetitions: int) -> Timing:
        self.lend()
        return self.process.time(self.plan, repetitions=repetitions)

    def time_cold(self, warm_us: float) -> Timing | None:
        del warm_us
        if not self.rotation.exceeds:
            return None
        self.lend()
        sets = max(2, self.rotation.sets)
        found = self.process.time(replace(self.plan, pause=0.0), repetitions=1, sets=sets)
        return found if found.ok else None

    def time_call(self) -> Timing | None:
        self.lend()
        found = self.process.time(replace(self.plan, waited=True), repetitions=1)
        return found if found.ok else None
