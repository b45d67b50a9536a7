"""How long the calls of IREE last beside a library's: what a call costs must not count as IREE's time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.device import MAX_REPEAT, Computed, Module, Timing
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.recipe import Recipe
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.sides import MOST_REPEATS, IreeBackend, Manner, NoSideError, Side
from autotuner.measure.check import Check
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system.cache import Cache
from autotuner.system.execution import done
from autotuner.targets import Target
from tests.support.bare_device import BareDevice

COST_US = 150.0
"""Of a call, whatever it does."""
CALL = Invocation("main", (), ("f32",))


@dataclass
class Costly(BareDevice):
    """Each call takes what its dispatches take, and its cost."""

    own_us: float
    fails: bool = False
    timed: list[int] = field(default_factory=list)
    """The repeats of each timing."""
    invocation_us = 3_000.0

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        del vmfb, timeout
        return tuple(Computed() for _ in invocations)

    def time(
        self, module: Module, benchmark: Benchmark, *, repetitions: int = 3, give_up_us: float = math.inf
    ) -> Timing:
        del benchmark, give_up_us
        self.timed.append(module.repeat)
        if self.fails:
            return Timing((), "run-error", "the queue is lost")
        return Timing((self.own_us + COST_US / module.repeat,) * repetitions)


ONCE = Compiled(None, "", 0.0, (), Path("once.vmfb"), binary="one")
Repeated = Callable[[int], Compiled]


def again(repeat: int) -> Compiled:
    return replace(ONCE, repeat=repeat)


def lengthened(device: Costly, *, on_host: bool = False, repeated: Repeated = again) -> Side:
    """IREE's default as a comparison makes it; `repeated` compiles it with repeats."""
    recipe = Recipe(())
    backend = IreeBackend("iree", "", done((recipe, ONCE)), lambda _, repeat: repeated(repeat))
    given = Given({}, CALL, (), ("f32",), lambda *_: Check(None, 0.0))
    side = backend.prepare(given, Manner(device, 0.02, 60.0, on_host=on_host))
    assert device.timed[0] == 1, "the first timing is rough and short"
    return side


@pytest.mark.parametrize("own_us", [16.0, 150.0, 7_000.0, 31_000.0, 200_000.0])
def test_on_a_gpu_less_than_half_a_percent_of_the_time_is_the_cost_of_the_call(own_us: float) -> None:
    device = Costly(own_us)
    assert lengthened(device).time(1).median == pytest.approx(own_us, rel=0.005)
    assert (device.timed[-1] - 1) * own_us < 2 * 32_000.0, "and the call is no longer than that needs"


def test_what_is_very_short_is_repeated_as_often_as_may_be() -> None:
    assert lengthened(Costly(4.0)).time(1).median == pytest.approx(4.0, rel=0.006)
    device = Costly(1.0)
    lengthened(device)
    assert device.timed[-1] == MOST_REPEATS > MAX_REPEAT


def test_a_module_is_no_larger_for_more_repeats(tmp_path: Path, tools: Tools) -> None:
    problem, builder = Gemm.parse(shape="32x32x32", dtype="f32"), Builder(tools, Cache(tmp_path))
    flags = (*problem.flags, *Target.parse("cpu").compile_flags)
    sizes = [
        builder.build(BuildJob(problem_mlir(problem), flags, 600, repeat=repeat)).vmfb.stat().st_size
        for repeat in (MAX_REPEAT, MOST_REPEATS)
    ]
    assert sizes[0] == sizes[1]


def test_on_a_processor_calls_are_as_long_as_its_device_asks_for() -> None:
    device = Costly(100.0)
    lengthened(device, on_host=True)
    assert 5_000.0 < device.timed[-1] * 100.0 <= 6_100.0


def test_what_cannot_be_timed_is_not_compiled_again() -> None:
    device = Costly(100.0, fails=True)
    with pytest.raises(NoSideError, match="the queue is lost"):
        lengthened(device)
    assert device.timed == [1]


def test_where_it_does_not_compile_with_repeats_single_calls_are_timed() -> None:
    device = Costly(100.0)
    side = lengthened(device, repeated=lambda repeat: replace(ONCE, repeat=repeat, failure="compile-timeout"))
    side.time(1)
    assert device.timed == [1, 1]
