"""The interface of a device, which calls and times modules. Arguments and results are plain data."""

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
"""The advice where there is no device."""
INVOCATION_US = 20_000.0
"""The shortest invocation for iree-benchmark-module: below it, start-up and allocation are part of the time."""
MAX_REPEAT = 2048
KEPT_RESULTS = 16
"""The number of results that a device keeps: modules with equal results share one."""


class Module(Protocol):
    """A compiled module, and how often it repeats its dispatches."""

    @property
    def vmfb(self) -> Path: ...

    @property
    def repeat(self) -> int: ...


@dataclass(frozen=True)
class Computed:
    """The results of one call, or why there are none."""

    arrays: tuple[Array, ...] = field(repr=False, default=())
    """The results; types without a numpy equivalent (bf16, f8) come without a shape."""
    failure: FailureClass | None = None
    detail: str = ""
    digest: str = ""
    """The digest of all results, where the device gives one: equal digests are right or wrong together."""
    seconds: float | None = None
    """Seconds of the call, where the device tells."""


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
    """Times of single calls in µs: on inputs outside the last level cache, then on the same once more.

    Both include the cost of a call; their difference does not.
    """

    cold_us: tuple[float, ...] = ()
    warm_us: tuple[float, ...] = ()
    exceeds: bool = True
    """The inputs together exceed the cache."""
    failure: FailureClass | None = None
    detail: str = ""

    @property
    def extra_us(self) -> float:
        """The extra time of a call with a cold cache."""
        return median(cold - warm for cold, warm in zip(self.cold_us, self.warm_us, strict=True))


@dataclass(frozen=True)
class LiveCalls:
    """Single calls of several modules in turns, as they are called in life: each round has inputs that no call has
    seen, in new places, and results of another call lie where the next ones go."""

    us: tuple[tuple[float, ...], ...] = ()
    """Times of each module, by round."""
    results: tuple[tuple[Computed, ...], ...] = ()
    """Results of each module, by round, for the rounds that are compared."""
    changed: tuple[bool, ...] = ()
    """Whether each module wrote to its inputs."""
    failure: FailureClass | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LiveRounds:
    """How modules are called on changing inputs: the most rounds and seconds, and the fewest rounds."""

    storage: int
    """The number of trailing inputs that are storage for results."""
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
        """Closes whatever is open: the next call begins anew."""

    def lend(self, *, busy: bool) -> None:
        """Lets another process use the device until the next call. `busy`: that one keeps it under load; else the
        device settles anew afterwards."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        """Calls a module once for each set of inputs."""

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        """Times a module, after a warm-up. An open device stops after a repetition longer than `give_up_us`."""

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        """Times single calls with a cold and a warm cache, in turns; None where the device does not stay open."""

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        """Calls modules without repeats on changing inputs; None where the device does not stay open."""

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        """Dispatch times of one call, by the export's name; None where the device does not tell."""


def screen(device: Device, module: Module, benchmark: Benchmark, *, best_us: float) -> Timing:
    """Three short repetitions; only one when that is already 3x the best."""
    return device.time(module, benchmark, repetitions=3, give_up_us=3 * best_us)


def choose_repeat(us: float, *, invocation_us: float = INVOCATION_US, most: int = MAX_REPEAT) -> int:
    """The number of repeats with which an invocation lasts long enough."""
    return max(1, min(most, math.ceil(invocation_us / max(us, 1e-3))))


def more_often(repeat: int, us: float, *, invocation_us: float) -> int:
    """The repeats for a faster candidate: doubled until an invocation lasts long enough, so that few different modules
    are built."""
    while repeat * us < invocation_us and 2 * repeat <= MAX_REPEAT:
        repeat *= 2
    return repeat
