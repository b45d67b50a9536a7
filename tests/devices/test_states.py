"""Warm and cold caches, and load, on a real device that stays open: llvm-cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices import resident
from autotuner.devices.device import LiveRounds
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import LOAD_SECONDS, ResidentDevice, open_resident
from autotuner.devices.sampling import Sizes
from autotuner.errors import DeviceError
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.measure.contest import timed_by
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target

PROBLEM = Gemm.parse(shape="128x128x128", dtype="f32")
Open = Callable[..., ResidentDevice]


@dataclass(frozen=True)
class Case:
    """One problem with its module once and many times, long enough to be a load."""

    once: Compiled
    often: Compiled
    data: Data

    @property
    def benchmark(self) -> Benchmark:
        return Benchmark(self.data.invocation(), seconds=0.01, timeout=60)


@pytest.fixture
def case(builder: Builder, tmp_path: Path) -> Case:
    job = BuildJob(problem_mlir(PROBLEM), Target.parse("cpu").compile_flags, timeout=120)
    once, often = (builder.build(replace(job, repeat=repeat)) for repeat in (1, 512))
    return Case(once, often, Data.write(PROBLEM, tmp_path / "data", seed=0))


@pytest.fixture
def opened(tools: Tools, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def opening(*, under_load: bool = False) -> ResidentDevice:
            alone = ProcessDevice(tools, "local-sync", tmp_path)
            return stack.enter_context(open_resident(alone, under_load=under_load))

        yield opening


def load_of(device: ResidentDevice) -> Path | None:
    return device._load[0] if device._load else None


def test_cold_calls_go_over_more_than_the_cache_and_each_is_repeated_warm(opened: Open, case: Case) -> None:
    found = opened().call_pairs(case.once, case.benchmark, count=40)
    assert found is not None
    assert (found.failure, found.exceeds) == (None, True)
    assert (len(found.cold_us), len(found.warm_us)) == (40, 40)
    assert min(found.cold_us + found.warm_us) > 1
    assert abs(found.extra_us) < median(found.cold_us)


def test_live_calls_have_other_inputs_each_and_the_results_of_others_lie_in_the_storage(
    opened: Open, case: Case
) -> None:
    """Two parties of the same code agree on every round, and no two rounds on anything: also on one that none timed."""
    found = opened().live_calls(
        [case.once.vmfb] * 2, case.data.invocation(), LiveRounds(storage=1, rounds=6, seconds=9, seed=5, timeout=60)
    )
    assert found is not None
    assert (found.failure, found.changed) == (None, (False, False))
    assert [len(row) for row in found.us] == [6, 6]
    one, other = (np.stack([computed.arrays[0] for computed in row]) for row in found.results)
    assert np.array_equal(one, other)
    assert np.isfinite(one).all()
    assert len({computed.digest for computed in found.results[0]}) == 7


def test_where_the_memory_does_not_suffice_it_is_said(
    opened: Open, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "sizes_of", lambda _: Sizes(cache=2**40, memory=2**22))
    found = opened().call_pairs(case.once, case.benchmark, count=3)
    assert found is not None
    assert (found.failure, found.exceeds) == (None, False)


def test_a_cold_timing_is_of_single_calls_and_comes_from_the_device_that_stays_open(opened: Open, case: Case) -> None:
    device = opened()
    cold = replace(case.benchmark, cache="cold")
    assert device.time(case.once, cold, repetitions=2).ok
    takes = timed_by(device, cold, {"a": case.once})
    assert takes.confirm is takes.race
    assert timed_by(device, case.benchmark, {"a": case.once}).confirm is not takes.race


def test_a_process_for_each_call_has_no_cold_cache(tools: Tools, tmp_path: Path, case: Case) -> None:
    alone = ProcessDevice(tools, "local-sync", tmp_path)
    assert alone.call_pairs(case.once, case.benchmark, count=3) is None
    with pytest.raises(DeviceError, match=r"stays open\. Leave out --cache cold"):
        alone.time(case.once, replace(case.benchmark, cache="cold"))


def test_what_does_not_run_is_a_failure_cold_too(opened: Open, case: Case, tmp_path: Path) -> None:
    broken = replace(case.once, vmfb=tmp_path / "none.vmfb")
    found = opened().call_pairs(broken, case.benchmark, count=3)
    assert found is not None
    assert found.failure == "run-error"


def test_the_first_long_module_is_the_load_also_of_the_next_child(opened: Open, case: Case) -> None:
    device = opened(under_load=True)
    assert device.time(case.once, case.benchmark, repetitions=1).median < 1e6 * LOAD_SECONDS
    assert load_of(device) is None, "too short a call keeps nothing busy"
    for first in (case.often, case.once):  # by this child, and by the next
        assert device.time(first, case.benchmark, repetitions=1).ok
        assert load_of(device) == case.often.vmfb
        device.renew()
    assert device.connection.starts == 2


def test_results_stay_right_under_load(opened: Open, case: Case) -> None:
    device = opened(under_load=True)
    device.time(case.often, case.benchmark, repetitions=1)
    assert load_of(device) is not None
    checker = Checker(device, case.data, 60)
    assert all(checker.check(build.vmfb).ok for build in (case.once, case.often) * 3)


def test_what_only_irees_tools_can_call_is_timed_in_their_state(opened: Open, case: Case, tmp_path: Path) -> None:
    only_theirs = Invocation("main", ("i32=1",), ("f32",))
    device = opened()
    timing = device.time(case.once, Benchmark(only_theirs, 0.01, 60), repetitions=1)
    assert timing.conditions is not None
    assert timing.conditions.state == "process"
    assert device.call_pairs(case.once, Benchmark(only_theirs, 0.01, 60), count=1) is None
    assert not list(tmp_path.glob("*.bin"))
