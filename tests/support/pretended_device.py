"""A device that stays open, whose times are chosen: whole runs with real compiles and checks, and nothing timed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import CallPairs, Computed, Device, DeviceState, Module, Timing
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import Invocation
from autotuner.system.execution import done
from autotuner.tuning import session

WARM = 100_000.0
"""µs of the default: so long that dispatches need not be repeated."""


@dataclass
class Pretended:
    """A device that stays open, whose times are chosen: the default's is known, all others take `warm` of it."""

    alone: Device
    warm: float = 0.5
    cold: float = 0.6
    """What the others take with a cold cache, in parts of the default's time, which is then a tenth longer."""
    exceeds: bool = True
    late: bool = False
    isolated: Device = field(init=False)
    taken: list[str] = field(default_factory=list)
    """In which state of the cache each timing was taken."""
    _default: str = ""

    state: DeviceState = "sustained"
    starts_quickly = True
    invocation_us = 1.0

    def __post_init__(self) -> None:
        self.isolated = _Fresh(self)

    @property
    def uri(self) -> str:
        return self.alone.uri

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        """Nothing stays."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return self.alone.check(vmfb, invocations, timeout=timeout)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del give_up_us
        self.taken.append(benchmark.cache)
        part = self.cold if benchmark.cache == "cold" else self.warm
        return Timing((WARM * (1.0 if self._is_default(module) else part),) * repetitions)

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        assert (module.repeat, benchmark.cache) == (1, "warm")
        if self.late:
            raise OutOfTimeError
        warm = 7.0 + WARM
        default = self._is_default(module)
        cold = warm + (0.1 * WARM if default else (1.1 * self.cold - self.warm) * WARM)
        return CallPairs((cold,) * count, (warm,) * count, exceeds=self.exceeds)

    def dispatch_us(self, vmfb: Path, invocation: Invocation, *, timeout: float) -> Mapping[str, float] | None:
        del vmfb, invocation, timeout
        return None

    def _is_default(self, module: Module) -> bool:
        """What is timed first."""
        assert isinstance(module, Compiled)
        self._default = self._default or module.binary
        return module.binary == self._default


@dataclass
class _Fresh:
    """The same in processes: what is confirmed there is told apart."""

    device: Pretended
    state: DeviceState = "process"
    starts_quickly = True
    invocation_us = 1.0

    @property
    def uri(self) -> str:
        return self.device.uri

    @property
    def isolated(self) -> Device:
        return self

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        """Nothing stays."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return self.device.check(vmfb, invocations, timeout=timeout)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del give_up_us
        assert benchmark.cache == "warm"
        timing = self.device.time(module, benchmark, repetitions=repetitions)
        self.device.taken[-1] = "fresh"
        return timing

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        raise NotImplementedError

    def dispatch_us(self, vmfb: Path, invocation: Invocation, *, timeout: float) -> Mapping[str, float] | None:
        raise NotImplementedError


def pretend(monkeypatch: pytest.MonkeyPatch, **settings: object) -> list[Pretended]:
    """Commands open such a device from here on; those that were opened."""
    made: list[Pretended] = []

    @contextmanager
    def opened(alone: ProcessDevice, *, isolate: bool, state: DeviceState) -> Iterator[Device]:
        assert (isolate, state) == (False, "sustained")
        made.append(Pretended(alone, **settings))  # type: ignore[arg-type]
        yield made[-1]

    monkeypatch.setattr(session, "open_device", opened)
    return made
