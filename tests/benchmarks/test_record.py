"""A space is recorded on a device that stays open, whatever its process does."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
from pathlib import Path

import pytest

from autotuner.devices.child_base import Message
from autotuner.devices.connection import Connection
from benchmarks.record import Request, parse, record
from benchmarks.recording import Row, Rows
from benchmarks.replay import load

WORDS = ["gemm", "--shape", "64x64x64", "--dtype", "f32", "--target", "cpu", "--device", "local-task", "--jobs", "2"]
ROWS = 2


def request(out: Path, *more: str) -> Request:
    return parse([*WORDS, "--limit", str(ROWS), "--seconds", "300", "--timeout", "20", "--out", str(out), *more])


@pytest.mark.long
def test_a_run_whose_device_process_is_killed_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    ask = Connection.ask

    def ask_one_that_dies(self: Connection, request: Message, *, timeout: float) -> Message:
        if request["ask"] == "time" and rows and not killed and self.pid is not None:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return ask(self, request, timeout=timeout)

    rows: list[Row] = []
    monkeypatch.setattr(Connection, "ask", ask_one_that_dies)
    packed = record(request(tmp_path), on_row=lambda _recorder, row: rows.append(row))
    recording = load(packed)
    about = json.loads((tmp_path / "gemm_64x64x64_f32_f32_nn-cpu.json").read_text())
    assert len(killed) == 1
    assert len(rows) == ROWS
    assert len(recording.space) == about["rows"] == ROWS
    assert about["failures"] == {}
    assert about["runs"][0]["device_processes"] == 2
    assert min(about["runs"][0]["baseline_ms"]) > 0
    # The rows that are there are not done again; the next of the same order are.
    record(request(tmp_path, "--limit", str(ROWS + 1)))
    about = json.loads((tmp_path / "gemm_64x64x64_f32_f32_nn-cpu.json").read_text())
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
