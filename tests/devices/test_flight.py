"""Calls in flight at once: each has a thread, a context and inputs of its own; what goes wrong in one is told."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree import runtime

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.child import Device
from autotuner.devices.child_base import Message
from autotuner.devices.load import as_many_as_fit, in_flight
from autotuner.devices.loaded import Memory
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import ResidentDevice, open_resident
from autotuner.iree.run import Benchmark, Invocation
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.patience import ENOUGH, one_of_three

HERE = Path(__file__).parent
PROBLEM = Gemm.parse(shape="64x64x64", dtype="f32")
NAP = 0.004
WEIGHTS = 1 << 28
"""Bytes of weighty.mlir's."""


def napping() -> float:
    time.sleep(NAP)
    return NAP


def build(builder: Builder, program: str, *flags: str) -> Compiled:
    made = builder.build(BuildJob(program, (*Target.parse("cpu").compile_flags, *flags), timeout=120))
    assert made.ok, made.stderr
    return made


@pytest.fixture
def device(tools: Tools, tmp_path: Path) -> Iterator[ResidentDevice]:
    with open_resident(ProcessDevice(tools, "local-task", tmp_path)) as opened:
        yield opened


def test_one_alone_is_called_until_its_calls_have_lasted() -> None:
    with in_flight([lambda: NAP], begin=list) as alone:
        seconds, calls = alone(2.5 * NAP)
    assert (seconds, calls) == (3 * NAP, 3)


def test_several_are_called_at_once() -> None:
    together = threading.Barrier(2)

    def call() -> float:
        together.wait(ENOUGH)
        return NAP

    with in_flight([call, call], begin=list) as both:
        assert both(0.0)[1] == 2


def test_each_thread_begins_with_what_the_device_wants() -> None:
    began: list[int] = []
    called: set[int] = set()

    def call() -> float:
        called.add(threading.get_ident())
        return napping()

    with in_flight([call, call, call], begin=lambda: began.append(threading.get_ident())) as lasting:
        assert lasting(0.0)[1] == 3
        lasting(0.0)
    assert sorted(began) == sorted(called)
    assert threading.get_ident() not in called


def test_what_one_raises_ends_the_others_and_is_raised() -> None:
    calls = iter(range(3))

    def fails() -> float:
        if next(calls, None) is None:
            raise RuntimeError("the queue is lost")
        return napping()

    began = time.monotonic()
    with in_flight([napping, fails], begin=list) as lasting, pytest.raises(RuntimeError, match="the queue is lost"):
        lasting(300.0)
    assert time.monotonic() - began < 100


def test_only_for_want_of_memory_there_are_fewer() -> None:
    memory, tried = Memory(runtime.get_device("local-task")), []

    def work(count: int) -> int:
        tried.append(count)
        memory.allocate(1 if count < 3 else 1 << 62)
        return count

    assert as_many_as_fit(4, work) == 2
    assert tried == [4, 3, 2]
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        as_many_as_fit(1, lambda _: work(3))
    with pytest.raises(KeyError):
        as_many_as_fit(4, {1: 1}.__getitem__)


# --- on IREE's runtime ------------------------------------------------------------------------------------------------


def asked(module: Compiled, inputs: list[tuple[Path, bool]], **others: Any) -> Message:
    """A request to time a module whose inputs are four numbers each."""
    given = [{"file": str(file), "shape": [4], "element": "f32", "buffer": bare} for file, bare in inputs]
    call = {"function": "main", "inputs": given, "parameters": []}
    known = {"repetitions": 2, "seconds": 0.01, "sets": 1, "pause": 0.0, "give_up": None, "flight": 1}
    return {**known, "module": str(module.vmfb), "call": call, **others}


def stored(device: Device) -> list[list[float]]:
    """What each copy's storage holds."""
    assert device._copied is not None
    return [device._memory.download(views[1].get_buffer()).view(np.float32).tolist() for views in device._copied[1]]


@pytest.mark.parametrize("model", ["async-internal", "async-external"])
def test_each_writes_its_results_into_storage_of_its_own(model: str, builder: Builder, tmp_path: Path) -> None:
    module = build(builder, (HERE / "storage.mlir").read_text(), f"--iree-execution-model={model}")
    numbers, storage = tmp_path / "x.bin", tmp_path / "out.bin"
    np.arange(4, dtype=np.float32).tofile(numbers)
    np.full(4, np.nan, np.float32).tofile(storage)
    device = Device("local-task")
    request = asked(module, [(numbers, False), (storage, True)], flight=2)
    answer = device.time(request)
    assert (answer["flight"], answer["sets"], len(answer["seconds"])) == (2, 2, 2)
    assert stored(device) == [[0.0, 2.0, 4.0, 6.0]] * 2
    contexts = device.loaded(module.vmfb).beside
    device.time({**request, "flight": 3})
    assert stored(device) == [[0.0, 2.0, 4.0, 6.0]] * 3
    assert device.loaded(module.vmfb).beside[0] is contexts[0], "what is open stays"


@one_of_three
def test_two_calls_in_flight_take_no_longer_than_one_after_the_other(
    device: ResidentDevice, builder: Builder, tmp_path: Path
) -> None:
    data = Data.write(PROBLEM, tmp_path / "data", seed=1)
    module = build(builder, problem_mlir(PROBLEM))
    alone = device.time(module, Benchmark(data.invocation(), 0.1, 60.0))
    both = device.time(module, Benchmark(data.invocation(), 0.1, 60.0, flight=2))
    assert (alone.flight, both.flight) == (1, 2)
    assert len(both.us) == 3
    assert 0.3 * alone.median < both.median < 1.5 * alone.median
    assert Checker(device, data, 60).check(module.vmfb).ok
    assert device.connection.starts == 1


def test_what_fails_in_a_thread_is_the_answer(device: ResidentDevice, builder: Builder) -> None:
    module = build(builder, (HERE / "storage.mlir").read_text())
    wrong = Invocation("main", ("4xi32=1", "&4xf32=0"), ("f32",))
    found = device.time(module, Benchmark(wrong, 0.01, 60.0, flight=2))
    assert found.failure == "run-error"
    assert "INVALID_ARGUMENT" in found.detail


def limit(device: ResidentDevice, more: int) -> None:
    """The child may take so many bytes more."""
    pid = device.connection.pid
    assert pid is not None
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def test_where_the_memory_holds_the_weights_once_there_is_one_call_at_a_time(
    device: ResidentDevice, builder: Builder
) -> None:
    module = build(builder, (HERE / "weighty.mlir").read_text())
    benchmark = Benchmark(Invocation("main", ("1xf32=1",), ("f32",)), 0.01, 60.0, flight=2)
    assert device.time(module, benchmark).flight == 2
    device.renew()
    device.open()
    limit(device, 2 * WEIGHTS - (WEIGHTS >> 2))
    found = device.time(module, benchmark)
    assert (found.failure, found.flight) == (None, 1)


def test_where_the_memory_holds_what_one_call_needs_there_is_one_at_a_time(
    device: ResidentDevice, builder: Builder
) -> None:
    module = build(builder, (HERE / "hungry.mlir").read_text())
    numbers = WEIGHTS >> 2
    benchmark = Benchmark(Invocation("main", (f"1xi64={numbers}",), ("f32",)), 0.5, 60.0, flight=2)
    assert device.time(module, benchmark, repetitions=1).flight == 2
    device.renew()
    device.open()
    limit(device, 2 * WEIGHTS - (WEIGHTS >> 2))
    found = device.time(module, benchmark, repetitions=1)
    assert (found.failure, found.flight) == (None, 1)
