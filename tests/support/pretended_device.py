"""A device that stays open, whose times are chosen: whole runs with real compiles and checks, and nothing timed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest

from autotuner.build import Compiled, machines
from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import CallPairs, Computed, Device, Module, Timing
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Benchmark, Invocation
from tests.support.bare_device import BareDevice

WARM = 100_000.0
"""µs of the default: so long that dispatches need not be repeated."""


@dataclass
class Pretended(BareDevice):
    """A device that stays open, whose times are chosen: the default's is known, all others take `warm` of it."""

    alone: Device
    warm: float = 0.5
    cold: float = 0.6
    """What the others take with a cold cache, in parts of the default's time, which is then a tenth longer."""
    exceeds: bool = True
    late: bool = False
    taken: list[str] = field(default_factory=list)
    """In which state of the cache each timing was taken."""
    _default: str = ""

    state: DeviceState = "sustained"
    invocation_us = 1.0

    @cached_property
    def isolated(self) -> Device:
        return _Fresh(self)

    @property
    def uri(self) -> str:
        return self.alone.uri

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

    def _is_default(self, module: Module) -> bool:
        """What is timed first."""
        assert isinstance(module, Compiled)
        self._default = self._default or module.binary
        return module.binary == self._default


@dataclass
class _Fresh(BareDevice):
    """The same in processes: what is confirmed there is told apart."""

    device: Pretended
    invocation_us = 1.0

    @property
    def uri(self) -> str:
        return self.device.uri

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


def pretend(monkeypatch: pytest.MonkeyPatch, **settings: object) -> list[Pretended]:
    """Commands open such a device from here on; those that were opened."""
    made: list[Pretended] = []

    @contextmanager
    def opened(alone: ProcessDevice, *, isolate: bool) -> Iterator[Device]:
        assert not isolate
        made.append(Pretended(alone, **settings))  # type: ignore[arg-type]
        yield made[-1]

    monkeypatch.setattr(machines, "open_device", opened)
    return made
