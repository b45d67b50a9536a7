"""A space is recorded on a device that stays open, whatever its process does."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.render import problem_mlir
from autotuner.iree.tools import Tools
from autotuner.measure.check import poison
from autotuner.problems import Gemm
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.plan import BASELINE
from benchmarks.device_process import DeviceProcess
from benchmarks.record import Request, parse, record
from benchmarks.recording import Row, Rows
from benchmarks.replay import load
from benchmarks.resident import Message

WORDS = ["gemm", "--shape", "16x16x32", "--dtype", "f32", "--target", "cpu", "--device", "local-task", "--jobs", "2"]
ROWS = 4


def request(out: Path, *more: str) -> Request:
    return parse([*WORDS, "--limit", str(ROWS), "--seconds", "300", "--timeout", "20", "--out", str(out), *more])


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IREE's default for the problem, compiled."""
    folder, target = tmp_path_factory.mktemp(BASELINE), Target.parse("cpu")
    problem = request(folder).problem
    job = BuildJob(problem_mlir(problem), target.compile_flags, timeout=120.0)
    return Builder(Tools.find(), Cache(folder / "cache")).build(job).vmfb


@pytest.fixture
def device(tmp_path: Path) -> DeviceProcess:
    problem = Gemm.parse(shape="16x16x32", dtype="f32")
    paths = [tmp_path / f"{i}.bin" for i in range(3)]
    for path, array in zip(paths, [*problem.inputs(0), poison(problem)], strict=True):
        array.tofile(path)
    return DeviceProcess("local-task", problem.operands, paths, tmp_path, timeout=20.0)


def test_a_device_process_gives_the_result_once_and_the_time_every_time(device: DeviceProcess, module: Path) -> None:
    problem = Gemm.parse(shape="16x16x32", dtype="f32")
    first, second = device.measure(module), device.measure(module)
    device.close()
    assert first.failure is None
    assert first.output is not None
    out = np.fromfile(first.output, np.float32).reshape(16, 16)
    reference = problem.reference(problem.inputs(0))
    assert reference is not None
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-5)
    assert (second.digest, second.output) == (first.digest, None)
    assert min(*first.calls_s, *second.calls_s) > 0
    assert len(first.calls_s) >= 3
    assert device.started == 1


def test_a_module_that_does_not_load_costs_its_row_and_no_process(
    device: DeviceProcess, module: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.vmfb"
    broken.write_bytes(b"no module")
    assert device.measure(broken).failure == "run-error"
    assert device.measure(module).failure is None
    device.close()
    assert device.started == 1


def test_a_device_process_that_hangs_is_a_timeout_and_is_replaced(device: DeviceProcess, module: Path) -> None:
    device.open()
    assert device.pid is not None
    os.kill(device.pid, signal.SIGSTOP)
    device.timeout = 0.5
    assert device.measure(module).failure == "run-timeout"
    device.timeout = 20.0
    assert device.measure(module).failure is None
    device.close()
    assert device.started == 2


def test_a_run_whose_device_process_is_killed_has_that_row_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    ask = DeviceProcess._ask

    def ask_one_that_dies(self: DeviceProcess, message: Message, *, end: float) -> Message:
        if message["ask"] == "time" and rows and not killed and self.pid is not None:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return ask(self, message, end=end)

    rows: list[Row] = []
    monkeypatch.setattr(DeviceProcess, "_ask", ask_one_that_dies)
    packed = record(request(tmp_path), on_row=lambda _recorder, row: rows.append(row))
    recording = load(packed)
    about = json.loads((tmp_path / "gemm_16x16x32_f32_f32_nn-cpu.json").read_text())
    assert len(killed) == 1
    assert len(rows) == ROWS
    assert len(recording.space) == about["rows"] == ROWS
    assert np.isnan(recording.times).sum() == 1
    assert about["failures"] == {"run-error": 1}
    assert about["runs"][0]["device_processes"] == 2
    assert min(about["runs"][0]["baseline_ms"]) > 0
    # The rows that are there are not done again; the next of the same order are.
    record(request(tmp_path, "--limit", str(ROWS + 1)))
    about = json.loads((tmp_path / "gemm_16x16x32_f32_f32_nn-cpu.json").read_text())
    assert about["rows"] == ROWS + 1
    assert [run["candidates"] for run in about["runs"]] == [ROWS, 1]


def test_half_a_row_of_a_killed_run_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("tile,time_ms,failure,binary\n1,0.5,,aa\n2,0.")
    with Rows.open(tmp_path, "x", knobs=["tile"]) as rows:
        assert len(rows) == 1
    assert (tmp_path / "x.csv").read_text() == "tile,time_ms,failure,binary\n1,0.5,,aa\n"


def test_a_recorded_space_keeps_words_numbers_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    text = "order,tile,time_ms,failure,binary\nnone,16,0.5,,aa\n-1,8,,run-error,bb\ntranspose,8,0.25,,cc\n"
    path.write_bytes(gzip.compress(text.encode()))
    recording = load(path)
    assert [knob.values for knob in recording.space.knobs] == [(-1, "none", "transpose"), (8, 16)]
    found = {tuple(c.as_dict().values()): t for c, t in zip(recording.space, recording.times, strict=True)}
    assert found["none", 16] == 0.5
    assert found["transpose", 8] == 0.25
    assert math.isnan(found[-1, 8])
