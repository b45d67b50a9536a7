"""A device: it calls modules and times them. What it is given and what it gives back is plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Protocol

from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.iree.run import Benchmark, DispatchTime, Invocation
from autotuner.problems import Array

if TYPE_CHECKING:  # a machine that only runs modules has no compiler
    from autotuner.iree.compile import FailureClass

NO_DEVICE_HERE = (
    "`autotune doctor` lists the devices that answer. --device none only compiles; --bundle FILE.zip (gemm, conv, "
    "attention, suite) compiles here and times on another machine."
)
"""What to do where there is no device to time on."""
INVOCATION_US = 20_000.0
"""With iree-benchmark-module an invocation must last so long: below, start-up and allocation are part of the number."""
MAX_REPEAT = 2048
KEPT_RESULTS = 16
"""Results that stay with a device: modules that compute the same bits share one."""


class Module(Protocol):
    """What is timed, and how often it repeats its dispatches."""

    @property
    def vmfb(self) -> Path: ...

    @property
    def repeat(self) -> int: ...


@dataclass(frozen=True)
class Computed:
    """The results of one call, or why there are none."""

    arrays: tuple[Array, ...] = field(repr=False, default=())
    """What numpy's file format has no type for (bf16, f8) comes without its shape."""
    failure: FailureClass | None = None
    detail: str = ""
    digest: str = ""
    """Of all results, where the device tells: those of one digest are right or wrong together."""
    seconds: float | None = None
    """Of the call, where the device tells."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Raw repetitions in µs per execution of the problem, or why there are none."""

    us: tuple[float, ...]
    failure: FailureClass | None = None
    detail: str = ""
    conditions: Conditions | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def median(self) -> float:
        return median(self.us) if self.us else math.inf


@dataclass(frozen=True, slots=True)
class CallPairs:
    """Single calls in µs, each on inputs that are not in the last level cache, then on the same once more.

    Both have the cost of a call in them; their difference has not.
    """

    cold_us: tuple[float, ...] = ()
    warm_us: tuple[float, ...] = ()
    exceeds: bool = True
    """The inputs that were called on in turn are larger than the cache."""
    failure: FailureClass | None = None
    detail: str = ""

    @property
    def extra_us(self) -> float:
        """What a call takes longer where the cache is cold."""
        return median(cold - warm for cold, warm in zip(self.cold_us, self.warm_us, strict=True))


@dataclass(frozen=True)
class LiveCalls:
    """Single calls of several modules in turns, as they are called in life: each round has inputs that no call has
    seen, in new places, and results of another call lie where the next ones go."""

    us: tuple[tuple[float, ...], ...] = ()
    """Of each module, by round."""
    results: tuple[tuple[Computed, ...], ...] = ()
    """Of each module, by round, of those rounds that were kept to be compared."""
    changed: tuple[bool, ...] = ()
    """Of each module: it wrote to its inputs."""
    failure: FailureClass | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LiveRounds:
    """How modules are called on changing inputs: at most so many rounds in so many seconds, but some in any case."""

    storage: int
    """How many of the last inputs are where results go."""
    rounds: int
    seconds: float
    seed: int
    timeout: float


class Device(Protocol):
    """One device of this machine, opened once for a command.

    What a module does wrong (it crashes, hangs, does not load, refuses its inputs) is in the answer. OutOfTimeError is
    raised where the run's deadline (`process.until`) cuts it off: that says nothing about the module.
    All modules of a problem come with equal invocations: a device that stays open may keep their inputs, as long as the
    files that these name are the same.
    """

    @property
    def uri(self) -> str:
        """As `--device` names it."""

    @property
    def state(self) -> DeviceState:
        """In which state it times."""

    @property
    def invocation_us(self) -> float:
        """An invocation must last this long: below, what is not the device's work is part of the number."""

    @property
    def isolated(self) -> Device:
        """The same device, where nothing stays open between calls: for what must not depend on what ran before."""

    def open(self) -> None:
        """Makes sure that the device is there; DeviceError where it does not answer."""

    def prepare(self, vmfb: Path) -> Future[None]:
        """Does ahead of time what can be done for a module beside a timing. It says nothing about the module."""

    def renew(self) -> None:
        """Whatever stays open is given up: the next call begins anew."""

    def lend(self, *, busy: bool) -> None:
        """Another process may use the device until the next call. `busy`: it gets it in the state in which this one
        times, and keeps it so; else the device settles anew when it is back."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        """Calls a module once for each set of inputs."""

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        """Times a module, after a warm-up. One that stays open ends after a repetition longer than `give_up_us`."""

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        """Single calls with a cold cache and with a warm one, in turns; None where nothing stays open for that."""

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        """Calls modules that do each dispatch once; None where nothing stays open for that."""

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        """What each dispatch takes of one call, by its export's name; None where the device does not tell."""


def screen(device: Device, module: Module, benchmark: Benchmark, *, best_us: float) -> Timing:
    """Three short repetitions; only one when that is already 3x the best."""
    return device.time(module, benchmark, repetitions=3, give_up_us=3 * best_us)


def choose_repeat(us: float, *, invocation_us: float = INVOCATION_US, most: int = MAX_REPEAT) -> int:
    """How often to repeat the dispatches so that one invocation lasts long enough."""
    return max(1, min(most, math.ceil(invocation_us / max(us, 1e-3))))


def more_often(repeat: int, us: float, *, invocation_us: float) -> int:
    """The same for what may be faster than what these repeats are for: doubled until an invocation lasts long enough,
    so that few different modules are asked for."""
    while repeat * us < invocation_us and 2 * repeat <= MAX_REPEAT:
        repeat *= 2
    return repeat
