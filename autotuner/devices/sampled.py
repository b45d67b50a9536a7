"""A device whose timings say in which state it was: its clock, power and temperature before and after each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autotuner.devices.conditions import Conditions, DeviceState
from autotuner.devices.device import CallPairs, Computed, Device, Module, Timing
from autotuner.devices.sampling import Sampler
from autotuner.iree.benchmark import Benchmark, DispatchTime
from autotuner.iree.run import Invocation


@dataclass(frozen=True)
class SampledDevice:
    """Another device, watched. The sampler is none of its own: it is there before and after any process."""

    device: Device
    sampler: Sampler

    @property
    def uri(self) -> str:
        return self.device.uri

    @property
    def state(self) -> DeviceState:
        return self.device.state

    @property
    def starts_quickly(self) -> bool:
        return self.device.starts_quickly

    @property
    def invocation_us(self) -> float:
        return self.device.invocation_us

    @cached_property
    def isolated(self) -> Device:
        alone = self.device.isolated
        return self if alone is self.device else SampledDevice(alone, self.sampler)

    def open(self) -> None:
        self.device.open()

    def prepare(self, vmfb: Path) -> Future[None]:
        return self.device.prepare(vmfb)

    def renew(self) -> None:
        self.device.renew()

    def lend(self, *, busy: bool) -> None:
        self.device.lend(busy=busy)

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        return self.device.check(vmfb, invocations, timeout=timeout)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        before = self.sampler()
        timing = self.device.time(module, benchmark, repetitions=repetitions, give_up_us=give_up_us)
        own = timing.conditions or Conditions(self.state, benchmark.cache)
        return replace(timing, conditions=replace(own, before=before, after=self.sampler(), device=self.uri))

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        return self.device.call_pairs(module, benchmark, count=count)

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        return self.device.dispatch_times(vmfb, invocation, timeout=timeout)
