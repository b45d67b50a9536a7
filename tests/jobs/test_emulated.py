"""Jobs on an emulated device: what is built is executed and checked, and nothing is timed; races are refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from autotuner.devices.environment import is_emulated
from tests.support.command_line import in_this_process

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def autotune(tmp_path: Path) -> Command:
    return partial(in_this_process, cwd=tmp_path, cache=tmp_path / "cache", NO_COLOR="1", COLUMNS="120")


def test_both_arms_are_executed_and_never_timed(autotune: Command, tmp_path: Path) -> None:
    (tmp_path / "o3.flags").write_text("--iree-hal-target-device=local\n--iree-opt-level=O3\n")
    words = ("ab", "default", "o3.flags", "--shape", "16x16x16", "--dtype", "f32", "--emulated", "--json")
    document = json.loads(autotune(*words).stdout)
    assert (document["verdict"], document["speedup"], document["baseline"]["us"]) == ("compile-only", None, None)
    assert document["reason"] == "executed on an emulated device: both arms are right, and not timed"


def test_bench_only_times_and_is_refused(autotune: Command) -> None:
    done = autotune("bench", "--shape", "16x16x16", "--dtype", "f32", "--emulated")
    assert done.returncode == 2
    assert "bench times, and this device is emulated" in done.stderr


def test_a_gpu_in_the_environment_of_an_emulator_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_emulated("hip://0")
    monkeypatch.setenv("MIRAGE_PROFILE", "gfx942")
    assert is_emulated("hip://0")
    assert not is_emulated("local-task")


@pytest.mark.long
def test_a_suite_says_how_many_binaries_are_right(autotune: Command, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("op,shape,dtype\ngemm,16x16x16,f32\n")
    document = json.loads(autotune("suite", "one.csv", "--emulated", "--trials", "2", "--json").stdout)
    checked = document["counts"]["checked"]
    assert document["counts"]["timed"] == 0 < checked
    assert document["reason"].startswith(f"executed on an emulated device: {checked} of {checked} right")
