"""A device to build others on: each test says only what is particular about its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import INVOCATION_US, CallPairs, Computed, Device, LiveCalls, LiveRounds, Module, Timing
from autotuner.iree.run import Benchmark, DispatchTime, Invocation
from autotuner.system.execution import done


class BareDevice:
    """Nothing stays open on it; what a test does not expect to be asked fails it."""

    state: DeviceState = "process"
    invocation_us = INVOCATION_US

    @property
    def uri(self) -> str:
        return "bare"

    @property
    def isolated(self) -> Device:
        return self

    def open(self) -> None:
        """It is there."""

    def prepare(self, vmfb: Path) -> Future[None]:
        del vmfb
        return done(None)

    def renew(self) -> None:
        """Nothing stays."""

    def lend(self, *, busy: bool) -> None:
        """It is free between calls."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        raise AssertionError(f"{vmfb} is not to be called ({invocations}, {timeout})")

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        raise AssertionError(f"{module} is not to be timed ({benchmark}, {repetitions}, {give_up_us})")

    def call_pairs(self, module: Module, benchmark: Benchmark, *, count: int) -> CallPairs | None:
        raise AssertionError(f"{module} is not to be called in pairs ({benchmark}, {count})")

    def live_calls(self, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
        del modules, invocation, how
        return None

    def dispatch_times(
        self, vmfb: Path, invocation: Invocation, *, timeout: float
    ) -> Mapping[str, DispatchTime] | None:
        del vmfb, invocation, timeout
        return None
