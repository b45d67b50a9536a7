"""A device that stays open: what it keeps, what it loses and does not lose, and that its times are the right ones."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices import resident
from autotuner.devices.device import INVOCATION_US, Device, LiveRounds, choose_repeat
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import LOAD_SECONDS, ResidentDevice, open_resident, read_call
from autotuner.devices.sampling import Sizes
from autotuner.errors import DeviceError, EnvironmentFailure
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.measure.contest import timed_by
from autotuner.problems import Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.patience import ENOUGH, alive, wait_until

HUNGRY = Path(__file__).parent / "hungry.mlir"
PROBLEM = Gemm.parse(shape="128x128x128", dtype="f32")


@dataclass(frozen=True)
class Case:
    """One problem with its module once and many times, long enough to be a load."""

    once: Compiled
    often: Compiled
    data: Data

    @property
    def benchmark(self) -> Benchmark:
        return Benchmark(self.data.invocation(), seconds=0.01, timeout=60)


@pytest.fixture(scope="module")
def device(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResidentDevice]:
    """One for all tests that do not look at how it begins."""
    with open_resident(ProcessDevice(tools, "local-task", tmp_path_factory.mktemp("scratch"))) as opened:
        yield opened


@pytest.fixture
def under_load(tools: Tools, tmp_path: Path) -> Iterator[ResidentDevice]:
    with open_resident(ProcessDevice(tools, "local-sync", tmp_path), under_load=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def case(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Case:
    data = Data.write(PROBLEM, tmp_path_factory.mktemp("data"), seed=1)
    return Case(build(builder), build(builder, repeat=512), data)


def build(builder: Builder, problem: Problem = PROBLEM, *, repeat: int = 1) -> Compiled:
    made = builder.build(BuildJob(problem_mlir(problem), Target.parse("cpu").compile_flags, timeout=120, repeat=repeat))
    assert made.ok, made.stderr
    return made


def load_of(device: ResidentDevice) -> Path | None:
    return device._load[0] if device._load else None


def test_one_process_serves_many_calls(device: ResidentDevice, case: Case) -> None:
    device.open()
    before, checker = device.connection.starts, Checker(device, case.data, 60)
    for _ in range(5):
        assert checker.check(case.once.vmfb).ok
        assert device.time(case.once, case.benchmark).ok
    assert device.connection.starts == before


def test_a_process_that_is_killed_between_calls_is_replaced_unseen(device: ResidentDevice, case: Case) -> None:
    checker = Checker(device, case.data, 60)
    assert checker.check(case.once.vmfb).ok
    before, pid = device.connection.starts, device.connection.pid
    assert pid is not None
    os.kill(pid, signal.SIGSEGV)
    assert wait_until(lambda: not alive(pid))
    assert checker.check(case.once.vmfb).ok
    assert device.connection.starts == before + 1


def test_a_call_during_which_it_is_killed_is_made_again(device: ResidentDevice, case: Case) -> None:
    assert Checker(device, case.data, 60).check(case.once.vmfb).ok
    pid, before = device.connection.pid, device.connection.starts
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # the call is under way until it is killed
    killer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    killer.start()
    assert device.time(case.once, replace(case.benchmark, timeout=ENOUGH), repetitions=1).ok
    killer.join()
    assert device.connection.starts == before + 1


def test_a_module_that_lacks_memory_fails_alone(device: ResidentDevice, builder: Builder, case: Case) -> None:
    made = builder.build(BuildJob(HUNGRY.read_text(), Target.parse("cpu").compile_flags, timeout=120))
    assert made.ok, made.stderr
    words = Invocation("main", ("1xi64=9000000000000",), ("f32",))
    (computed,) = device.check(made.vmfb, [words], timeout=60)
    assert computed.failure == "run-error"
    assert Checker(device, case.data, 60).check(case.once.vmfb).ok, "the next one runs"


def test_inputs_that_a_module_wrote_over_are_whole_again(device: ResidentDevice, case: Case) -> None:
    # The storage of the result is an input: after a call it holds the result, not the poison.
    calls = (device.check(case.once.vmfb, [case.data.invocation()], timeout=60)[0] for _ in range(2))
    first, second = calls
    assert first.digest == second.digest
    assert Checker(device, case.data, 60).check(case.once.vmfb).ok


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_disk_is_the_machines_fault_and_not_the_modules(
    device: ResidentDevice, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotuner.devices.connection.confinement", lambda *_: None)  # /dev/full would be refused
    device.renew()
    (computed,) = device.check(case.once.vmfb, [case.data.invocation()], timeout=60)
    before, file = device.connection.starts, device.folder / f"{computed.digest}.bin"
    file.unlink()
    file.with_suffix(".part").symlink_to("/dev/full")
    with pytest.raises(EnvironmentFailure, match=r"cannot write .*\.part: No space left on device"):
        device.check(case.once.vmfb, [case.data.invocation()], timeout=60)
    file.with_suffix(".part").unlink()
    (again,) = device.check(case.once.vmfb, [case.data.invocation()], timeout=60)
    assert again.digest == computed.digest, "no part of a result is taken for it"
    assert device.connection.starts == before
    device.renew()


def test_a_file_that_is_written_anew_is_read_anew(device: ResidentDevice, case: Case, tmp_path: Path) -> None:
    data = Data.write(PROBLEM, tmp_path, seed=1)
    (before,) = device.check(case.once.vmfb, [data.invocation()], timeout=60)
    path = data.paths("input")[0]
    np.zeros(path.stat().st_size, np.uint8).tofile(path)
    (after,) = device.check(case.once.vmfb, [data.invocation()], timeout=60)
    assert np.asarray(before.arrays[0]).any()
    assert not np.asarray(after.arrays[0]).any()


def test_a_wrong_result_is_wrong_on_a_device_begun_anew(device: ResidentDevice, case: Case) -> None:
    device.open()
    before = device.connection.starts
    wrong = Checker(device, replace(case.data, seed=2), 60).check(case.once.vmfb)
    assert wrong.failure == "wrong-result"
    assert device.connection.starts == before + 1


def test_a_device_that_does_not_open_says_so(tools: Tools, tmp_path: Path, case: Case) -> None:
    with (
        open_resident(ProcessDevice(tools, "nonsense", tmp_path)) as made,
        pytest.raises(DeviceError, match="does not open"),
    ):
        made.check(case.once.vmfb, [case.data.invocation()], timeout=60)


def test_loaders_load_beside_and_are_ended(tools: Tools, tmp_path: Path, case: Case) -> None:
    with open_resident(ProcessDevice(tools, "local-sync", tmp_path), loaders=2) as device:
        for vmfb in (case.once.vmfb, case.once.vmfb, tmp_path / "missing.vmfb"):
            device.prepare(vmfb).result(timeout=ENOUGH)
        pids = [one.pid for one in device.loaders]
        assert any(pid is not None for pid in pids)
        assert device.connection.starts == 0
    assert not any(alive(pid) for pid in pids)


# --- cold and live calls, and a device under load -------------------------------------------------------------------


def test_cold_calls_go_over_more_than_the_cache_and_each_is_repeated_warm(device: ResidentDevice, case: Case) -> None:
    found = device.call_pairs(case.once, case.benchmark, count=40)
    assert found is not None
    assert (found.failure, found.exceeds) == (None, True)
    assert (len(found.cold_us), len(found.warm_us)) == (40, 40)
    assert min(found.cold_us + found.warm_us) > 1
    assert abs(found.extra_us) < median(found.cold_us)


def test_live_calls_have_other_inputs_each_and_the_results_of_others_lie_in_the_storage(
    device: ResidentDevice, case: Case
) -> None:
    """Two parties of the same code agree on every round, and no two rounds on anything: also on one that none timed."""
    found = device.live_calls(
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
    under_load: ResidentDevice, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "sizes_of", lambda _: Sizes(cache=2**40, memory=2**22))
    found = under_load.call_pairs(case.once, case.benchmark, count=3)
    assert found is not None
    assert (found.failure, found.exceeds) == (None, False)


def test_a_cold_timing_is_of_single_calls_and_comes_from_the_device_that_stays_open(
    device: ResidentDevice, case: Case
) -> None:
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


def test_what_does_not_run_is_a_failure_cold_too(device: ResidentDevice, case: Case, tmp_path: Path) -> None:
    broken = replace(case.once, vmfb=tmp_path / "none.vmfb")
    found = device.call_pairs(broken, case.benchmark, count=3)
    assert found is not None
    assert found.failure == "run-error"


def test_the_first_long_module_is_the_load_also_of_the_next_child_and_results_stay_right(
    under_load: ResidentDevice, case: Case
) -> None:
    device, checker = under_load, Checker(under_load, case.data, 60)
    assert device.time(case.once, case.benchmark, repetitions=1).median < 1e6 * LOAD_SECONDS
    assert load_of(device) is None, "too short a call keeps nothing busy"
    for first in (case.often, case.once):  # by this child, and by the next
        assert device.time(first, case.benchmark, repetitions=1).ok
        assert load_of(device) == case.often.vmfb
        assert all(checker.check(build.vmfb).ok for build in (case.once, case.often) * 2)
        device.renew()
    assert device.connection.starts == 2


def test_what_only_irees_tools_can_call_is_timed_in_their_state(device: ResidentDevice, case: Case) -> None:
    only_theirs = Benchmark(Invocation("main", ("i32=1",), ("f32",)), 0.01, 60)
    timing = device.time(case.once, only_theirs, repetitions=1)
    assert timing.conditions is not None
    assert timing.conditions.state == "process"
    assert device.call_pairs(case.once, only_theirs, count=1) is None


# --- inputs in words, and the times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2x2xf32=1 2 3 4", [[1, 2], [3, 4]]),
        ("2x2xi32=[1 2][3 4]", [[1, 2], [3, 4]]),
        ("2x2xf32=5", [[5, 5], [5, 5]]),
        ("2x2xf32", [[0, 0], [0, 0]]),
    ],
)
def test_values_in_the_words_of_the_tools_are_read(text: str, values: list[list[float]], tmp_path: Path) -> None:
    call = read_call(Invocation("main", (text,), ("f32",)), tmp_path)
    assert call is not None
    (one,) = call.inputs
    kind = np.float32 if one.element == "f32" else np.int32
    assert np.fromfile(one.file, kind).reshape(one.shape).tolist() == values


@pytest.mark.parametrize(
    "text", ["5", "2xf32=a b", "2xf32=1 2 3", "2xf4=1 2", "2xi8=300", "2xf32=@missing.bin", "@missing.npy", "f32=1"]
)
def test_what_only_the_tools_understand_is_left_to_them(text: str, tmp_path: Path) -> None:
    assert read_call(Invocation("main", (text,), ("f32",)), tmp_path) is None


def test_numpy_files_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float16).reshape(2, 3))
    call = read_call(Invocation("main", (f"@{tmp_path / 'a.npy'}",), ("f32",)), tmp_path)
    assert call is not None
    assert (call.inputs[0].shape, call.inputs[0].element) == ((2, 3), "f16")
    assert np.fromfile(call.inputs[0].file, np.float16).tolist() == list(range(6))


def test_its_times_are_those_of_iree_benchmark_module(tools: Tools, builder: Builder, tmp_path: Path) -> None:
    """In turns, the best of each: on a machine that does other things, too, both find a moment of their own in time."""
    problem = Gemm.parse(shape="256x256x128", dtype="f32")
    benchmark = Benchmark(Data.write(problem, tmp_path / "data", seed=0).invocation(), seconds=0.005, timeout=120)
    with open_resident(ProcessDevice(tools, "local-sync", tmp_path)) as device:
        rough = device.time(build(builder, problem, repeat=64), benchmark)
        module = build(builder, problem, repeat=choose_repeat(rough.median, invocation_us=INVOCATION_US / 4))
        best: dict[Device, float] = {device: math.inf, device.isolated: math.inf}
        for _ in range(80):
            if _near(*best.values()):
                break
            for one in best:
                timing = one.time(module, benchmark, repetitions=20)
                assert timing.ok, timing.detail
                best[one] = min(best[one], *timing.us)
        assert _near(*best.values()), best


def _near(a: float, b: float) -> bool:
    return max(a, b) <= 1.15 * min(a, b) < math.inf
