"""A device that stays open: what it keeps, what it loses and does not lose, and that its times are the right ones."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.connection import Connection
from autotuner.devices.device import INVOCATION_US, Device, choose_repeat
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import ResidentDevice, open_resident, read_call
from autotuner.errors import DeviceError, EnvironmentFailure
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.problems import Gemm, Problem
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.patience import ENOUGH, wait_until

HUNGRY = Path(__file__).parent / "hungry.mlir"
PROBLEM = Gemm.parse(shape="64x64x64", dtype="f32")


@pytest.fixture
def device(tools: Tools, tmp_path: Path) -> Iterator[ResidentDevice]:
    made = ResidentDevice(
        ProcessDevice(tools, "local-task", tmp_path), tmp_path, Connection("local-task", tmp_path / "stderr.txt")
    )
    yield made
    made.close()


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data.write(PROBLEM, tmp_path / "data", seed=1)


def build(builder: Builder, problem: Problem = PROBLEM, *, repeat: int = 1) -> Compiled:
    made = builder.build(BuildJob(problem_mlir(problem), Target.parse("cpu").compile_flags, timeout=120, repeat=repeat))
    assert made.ok, made.stderr
    return made


def test_one_process_serves_many_calls(device: ResidentDevice, builder: Builder, data: Data) -> None:
    module, checker = build(builder), Checker(device, data, 60)
    benchmark = Benchmark(data.invocation(), seconds=0.005, timeout=60)
    for _ in range(5):
        assert checker.check(module.vmfb).ok
        assert device.time(module, benchmark).ok
    assert device.connection.starts == 1


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_is_killed_between_calls_is_replaced_unseen(
    device: ResidentDevice, builder: Builder, data: Data, signal_: signal.Signals
) -> None:
    module, checker = build(builder), Checker(device, data, 60)
    assert checker.check(module.vmfb).ok
    assert device.connection.pid is not None
    os.kill(device.connection.pid, signal_)
    assert wait_until(lambda: not _runs(device.connection.pid))
    assert checker.check(module.vmfb).ok
    assert device.connection.starts == 2


def test_a_call_during_which_it_is_killed_is_made_again(device: ResidentDevice, builder: Builder, data: Data) -> None:
    module = build(builder)
    assert Checker(device, data, 60).check(module.vmfb).ok
    pid, before = device.connection.pid, device.connection.starts
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # the call is under way until it is killed
    killer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    killer.start()
    assert device.time(module, Benchmark(data.invocation(), seconds=0.01, timeout=ENOUGH), repetitions=1).ok
    killer.join()
    assert device.connection.starts == before + 1


def test_a_module_that_lacks_memory_fails_alone(device: ResidentDevice, builder: Builder, data: Data) -> None:
    module = build(builder)
    assert Checker(device, data, 60).check(module.vmfb).ok
    made = builder.build(BuildJob(HUNGRY.read_text(), Target.parse("cpu").compile_flags, timeout=120))
    assert made.ok, made.stderr
    words = Invocation("main", ("1xi64=9000000000000",), ("f32",))
    (computed,) = device.check(made.vmfb, [words], timeout=60)
    assert computed.failure == "run-error"
    assert Checker(device, data, 60).check(module.vmfb).ok, "the next one runs"


def test_inputs_that_a_module_wrote_over_are_whole_again(device: ResidentDevice, builder: Builder, data: Data) -> None:
    module, checker = build(builder), Checker(device, data, 60)
    # The storage of the result is an input: after a call it holds the result, not the poison.
    first, second = (device.check(module.vmfb, [data.invocation()], timeout=60)[0] for _ in range(2))
    assert first.digest == second.digest
    assert checker.check(module.vmfb).ok


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_disk_is_the_machines_fault_and_not_the_modules(
    device: ResidentDevice, builder: Builder, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotuner.devices.connection.confinement", lambda *_: None)  # /dev/full would be refused
    module = build(builder)
    (computed,) = device.check(module.vmfb, [data.invocation()], timeout=60)
    file = tmp_path / f"{computed.digest}.bin"
    file.unlink()
    file.with_suffix(".part").symlink_to("/dev/full")
    with pytest.raises(EnvironmentFailure, match=r"cannot write .*\.part: No space left on device"):
        device.check(module.vmfb, [data.invocation()], timeout=60)
    file.with_suffix(".part").unlink()
    (again,) = device.check(module.vmfb, [data.invocation()], timeout=60)
    assert again.digest == computed.digest, "no part of a result is taken for it"
    assert device.connection.starts == 1


def test_a_file_that_is_written_anew_is_read_anew(device: ResidentDevice, builder: Builder, data: Data) -> None:
    module = build(builder)
    (before,) = device.check(module.vmfb, [data.invocation()], timeout=60)
    path = data.paths("input")[0]
    np.zeros(path.stat().st_size, np.uint8).tofile(path)
    (after,) = device.check(module.vmfb, [data.invocation()], timeout=60)
    assert np.asarray(before.arrays[0]).any()
    assert not np.asarray(after.arrays[0]).any()


def test_a_wrong_result_is_wrong_on_a_device_begun_anew(
    device: ResidentDevice, builder: Builder, data: Data, tmp_path: Path
) -> None:
    module, other = build(builder), Data.write(PROBLEM, tmp_path / "other", seed=2)
    wrong = Checker(device, Data(PROBLEM, data.folder, seed=other.seed), 60).check(module.vmfb)
    assert wrong.failure == "wrong-result"
    assert device.connection.starts == 2


def test_a_device_that_does_not_open_says_so(tools: Tools, tmp_path: Path, builder: Builder, data: Data) -> None:
    made = ResidentDevice(
        ProcessDevice(tools, "nonsense", tmp_path), tmp_path, Connection("nonsense", tmp_path / "stderr.txt")
    )
    with pytest.raises(DeviceError, match="does not open"):
        made.check(build(builder).vmfb, [data.invocation()], timeout=60)


def test_loaders_load_beside_and_are_ended(tools: Tools, tmp_path: Path, builder: Builder) -> None:
    connections = [Connection("local-sync", tmp_path / f"{n}.txt") for n in range(3)]
    device = ResidentDevice(
        ProcessDevice(tools, "local-sync", tmp_path), tmp_path, connections[0], tuple(connections[1:])
    )
    module = build(builder)
    for wait in [device.prepare(module.vmfb), device.prepare(module.vmfb), device.prepare(tmp_path / "missing.vmfb")]:
        wait.result(timeout=ENOUGH)
    pids = [one.pid for one in device.loaders]
    assert any(pid is not None for pid in pids)
    assert device.connection.starts == 0
    device.close()
    assert not any(_runs(pid) for pid in pids)


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


@pytest.mark.parametrize("shape", ["256x256x128"])
def test_its_times_are_those_of_iree_benchmark_module(
    tools: Tools, builder: Builder, tmp_path: Path, shape: str
) -> None:
    """In turns, the best of each: on a machine that does other things, too, both find a moment of their own in time."""
    problem = Gemm.parse(shape=shape, dtype="f32")
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


def _runs(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False
