"""What every device must do, whatever it is made of: the same tests for each, with real modules on llvm-cpu."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.devices.device import Device
from autotuner.devices.many import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.check import RANDOM, WHOLE, Checker, Data
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.targets import Target
from autotuner.targets.naming import iree_uri
from tests.support.near_worker import near_device

Open = Callable[[Tools, Path], AbstractContextManager[Device]]
URI = "local-sync"


def _process(tools: Tools, scratch: Path) -> AbstractContextManager[Device]:
    return open_device(ProcessDevice(tools, URI, scratch), isolate=True)


def _resident(tools: Tools, scratch: Path) -> AbstractContextManager[Device]:
    return open_device(ProcessDevice(tools, URI, scratch), isolate=False)


@contextmanager
def _remote(tools: Tools, scratch: Path) -> Iterator[Device]:
    with near_device(tools, scratch / "worker", URI) as device:
        yield device
    shutil.rmtree(scratch / "worker")


IMPLEMENTATIONS: dict[str, Open] = {"process": _process, "resident": _resident, "remote": _remote}
"""A new implementation of the protocol is one more line here."""


@dataclass(frozen=True)
class Vmfb:
    vmfb: Path
    repeat: int = 1


def gather(*, steps: int = 1, index: str = "3 2 1 0", shape: str = "4") -> Invocation:
    """Of `gather.mlir`: it hangs for many steps, and crashes where an index is far away."""
    return Invocation("main", (f"1xi32={steps}", f"{shape}xi32={index}", "4xf32=1 2 3 4"), ("f32",))


HANGS, CRASHES = gather(steps=2_000_000_000), gather(index="3 2000000000 1 0")
REFUSED = gather(index="3 2 1 0 0", shape="5")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Vmfb:
    folder = tmp_path_factory.mktemp("gather")
    source = Path(__file__).parent / "gather.mlir"
    flags = Target.parse("cpu").compile_flags
    done = process.run([Tools.find().iree_compile, source, *flags, "-o", "module.vmfb"], timeout=120, cwd=folder)
    assert done.ok, done.stderr
    return Vmfb(folder / "module.vmfb")


@pytest.fixture(scope="module", params=list(IMPLEMENTATIONS.values()), ids=list(IMPLEMENTATIONS))
def device(request: pytest.FixtureRequest, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    """One for all tests: whatever a module has done to it, it serves the next one."""
    scratch = tmp_path_factory.mktemp("scratch")
    opening: Open = request.param
    with opening(tools, scratch) as opened:
        yield opened
    assert not list(scratch.iterdir()), "what it wrote is left behind"


def benchmark(invocation: Invocation, *, timeout: float = 60.0) -> Benchmark:
    return Benchmark(invocation, seconds=0.01, timeout=timeout)


def test_a_device_says_its_name(device: Device) -> None:
    assert iree_uri(device.uri) == URI


def test_the_right_output_comes_back_for_each_set_of_inputs(device: Device, example: Vmfb) -> None:
    both = device.check(example.vmfb, [gather(), gather(index="0 0 3 3")], timeout=60)
    assert [one.failure for one in both] == [None, None]
    assert [one.arrays[0].tolist() for one in both] == [[4, 3, 2, 1], [1, 1, 4, 4]]
    assert both[0].arrays[0].dtype == np.float32


def test_a_result_that_is_no_tensor_comes_back_too(device: Device, builder: Builder) -> None:
    program = (Path(__file__).parent / "numbers.mlir").read_text()
    build = builder.build(BuildJob(program, Target.parse("cpu").compile_flags, timeout=120))
    call = Invocation("main", ("4xf32=1 3 2.5 4",), ("f32", "f32", "i32"))
    (computed,) = device.check(build.vmfb, [call], timeout=60)
    assert computed.failure is None, computed.detail
    assert [array.tolist() for array in computed.arrays] == [3.0, [2, 6, 5, 8], 3]
    assert [str(array.dtype) for array in computed.arrays] == ["float32", "float32", "int32"]
    assert device.time(build, benchmark(call), repetitions=1).ok


def test_a_result_may_be_computed_in_the_place_of_a_constant(device: Device, builder: Builder) -> None:
    program = (Path(__file__).parent / "accumulated.mlir").read_text()
    build = builder.build(BuildJob(program, Target.parse("cpu").compile_flags, timeout=120))
    call = Invocation("main", ("3x4xi8=1 2 0 5 3 4 -1 -3 5 6 -7 0",), ("i32",))
    (computed,) = device.check(build.vmfb, [call], timeout=60)
    assert computed.failure is None, computed.detail
    assert [array.tolist() for array in computed.arrays] == [[0, 7, -17]]
    assert device.time(build, benchmark(call), repetitions=1).ok


def test_what_the_check_compares_is_right(device: Device, builder: Builder, tmp_path: Path) -> None:
    for dtype in ("f32", "bf16"):
        problem = Gemm.parse(shape="16x24x32", dtype=dtype)
        flags = Target.parse("cpu").compile_flags
        build = builder.build(BuildJob(problem_mlir(problem), flags, timeout=120))
        data = Data.write(problem, tmp_path / f"data-{dtype}", seed=3)
        assert set(data.inputs) == {RANDOM, WHOLE}
        assert Checker(device, data, 60).check(build.vmfb).ok


@pytest.mark.parametrize(
    "words", [REFUSED, replace(gather(), function="other"), replace(gather(), inputs=("1xi32=1",))]
)
def test_wrong_inputs_are_refused_with_a_reason(device: Device, example: Vmfb, words: Invocation) -> None:
    (computed,) = device.check(example.vmfb, [words], timeout=60)
    timing = device.time(example, benchmark(words), repetitions=1)
    for answer in (computed, timing):
        assert answer.failure == "run-error"
        assert answer.detail
    assert (computed.arrays, timing.us) == ((), ())


def test_one_refused_set_of_inputs_does_not_spoil_the_other(device: Device, example: Vmfb) -> None:
    refused, right = device.check(example.vmfb, [REFUSED, gather()], timeout=60)
    assert refused.failure == "run-error"
    assert right.arrays[0].tolist() == [4, 3, 2, 1]


def test_what_is_no_module_is_a_failure(device: Device, tmp_path: Path) -> None:
    broken = Vmfb(tmp_path / "broken.vmfb")
    for _ in ("missing", "broken"):
        (computed,) = device.check(broken.vmfb, [gather()], timeout=60)
        assert computed.failure == "run-error"
        assert device.time(broken, benchmark(gather()), repetitions=1).failure == "run-error"
        broken.vmfb.write_bytes(b"no module")


def test_a_module_that_hangs_is_a_time_out(device: Device, example: Vmfb) -> None:
    (computed,) = device.check(example.vmfb, [HANGS], timeout=0.5)
    timing = device.time(example, benchmark(HANGS, timeout=0.5), repetitions=1)
    assert (computed.failure, timing.failure) == ("run-timeout", "run-timeout")
    assert device.check(example.vmfb, [gather()], timeout=60)[0].failure is None, "the device goes on"


def test_a_module_that_crashes_is_a_failure_and_the_device_goes_on(device: Device, example: Vmfb) -> None:
    crashed, right = device.check(example.vmfb, [CRASHES, gather()], timeout=60)
    assert (crashed.failure, right.failure) == ("run-error", None)
    assert "SIGSEGV" in crashed.detail
    assert device.time(example, benchmark(CRASHES), repetitions=1).failure == "run-error"
    assert device.time(example, benchmark(gather()), repetitions=1).ok


def test_the_runs_deadline_cuts_it_off_and_blames_no_module(device: Device, example: Vmfb) -> None:
    for moment in (time.monotonic() - 1, time.monotonic() + 0.5):
        with process.until(moment), pytest.raises(OutOfTimeError):
            device.check(example.vmfb, [HANGS], timeout=60)
    with process.until(time.monotonic() + 0.5), pytest.raises(OutOfTimeError):
        device.time(example, benchmark(HANGS), repetitions=1)
    assert device.time(example, benchmark(gather()), repetitions=1).ok


def test_a_timing_says_where_and_in_which_state_it_was_taken(device: Device, example: Vmfb) -> None:
    for one in (device, device.isolated):
        conditions = one.time(example, benchmark(gather()), repetitions=1).conditions
        assert conditions is not None
        assert (conditions.state, conditions.cache, conditions.device) == (one.state, "warm", URI)
    assert device.isolated.state == "process"


@pytest.mark.parametrize("repetitions", [1, 4])
def test_there_are_as_many_repetitions_as_are_asked_for(device: Device, example: Vmfb, repetitions: int) -> None:
    timing = device.time(example, benchmark(gather()), repetitions=repetitions)
    assert timing.ok
    assert len(timing.us) == repetitions
    assert min(timing.us) > 0


def test_the_time_is_that_of_one_of_the_repeated_dispatches(device: Device, builder: Builder, tmp_path: Path) -> None:
    problem = Gemm.parse(shape="256x256x256", dtype="f32")
    job = BuildJob(problem_mlir(problem), Target.parse("cpu").compile_flags, timeout=120)
    once, often = (builder.build(replace(job, repeat=repeat)) for repeat in (1, 64))
    asked = benchmark(Data.write(problem, tmp_path / "data", seed=0).invocation())
    times = {build.repeat: device.time(build, asked, repetitions=5).us for build in (once, often)}
    # Else one of them would be 64 times the other. A busy machine is not so much slower.
    assert 1 / 16 < min(times[64]) / min(times[1]) < 16
    # 2·256³ operations in less than 10 µs would be 3 TFLOP/s from one core.
    assert min(times[1]) > 10


def test_dispatches_are_told_apart_where_the_device_keeps_statistics(device: Device, example: Vmfb) -> None:
    found = device.dispatch_times(example.vmfb, gather(), timeout=60)
    assert found is not None
    ((name, taken),) = found.items()
    assert name.startswith("main_dispatch_0")
    assert (taken.us > 0, taken.calls) == (True, 1)
    assert device.dispatch_times(example.vmfb, CRASHES, timeout=60) is None
