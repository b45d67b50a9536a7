"""How long the calls of IREE last beside a library's: what a call costs must not count as IREE's time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import MAX_REPEAT, Module, Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.run import Invocation
from autotuner.jobs.bench.sides import IreeSide, lasting_us
from tests.support.bare_device import BareDevice

COST_US = 150.0
"""Of a call, whatever it does."""


@dataclass
class Costly(BareDevice):
    """Each call takes what its dispatches take, and its cost."""

    own_us: float
    timed: list[int] = field(default_factory=list)
    """The repeats of each timing."""
    invocation_us = 3_000.0

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del benchmark, give_up_us
        self.timed.append(module.repeat)
        return Timing((self.own_us + COST_US / module.repeat,) * repetitions)


def lengthened(own_us: float, *, on_host: bool = False) -> IreeSide:
    device, once = Costly(own_us), Compiled(None, "", 0.0, (), Path("once.vmfb"), binary="one")
    side = IreeSide(
        device=device,
        once=once,
        benchmark=Benchmark(Invocation("main", (), ()), 0.02, 60.0),
        elements=("f32",),
        how="IREE's default",
        rebuild=lambda repeat: replace(once, repeat=repeat),
        lasting_us=lasting_us(device, on_host=on_host),
    )
    assert side.lengthen().ok
    assert device.timed[0] == 1, "the first timing is rough and short"
    return side


@pytest.mark.parametrize("own_us", [16.0, 40.0, 150.0, 1_000.0, 7_000.0, 31_000.0, 200_000.0])
def test_on_a_gpu_less_than_half_a_percent_of_the_time_is_the_cost_of_the_call(own_us: float) -> None:
    side = lengthened(own_us)
    assert side.time(repetitions=1).median == pytest.approx(own_us, rel=0.005)
    assert (side.often.repeat - 1) * own_us < 2 * 32_000.0, "and the call is no longer than that needs"


def test_what_is_very_short_is_repeated_as_often_as_may_be() -> None:
    assert lengthened(1.0).often.repeat == MAX_REPEAT


def test_on_a_processor_calls_are_as_long_as_its_device_asks_for() -> None:
    side = lengthened(100.0, on_host=True)
    assert 5_000.0 < side.often.repeat * 100.0 <= 6_100.0


def test_a_device_that_asks_for_longer_calls_gets_them() -> None:
    device = Costly(100.0)
    device.invocation_us = 20_000.0
    assert lasting_us(device, on_host=False) == 40_000.0
