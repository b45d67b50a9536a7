"""The bandwidth of a device: measured by a program of IREE, and never while a run has the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import BusyError
from autotuner.jobs import bandwidth
from autotuner.system.locks import device_lock
from autotuner.targets import Target
from tests.support.command_line import in_this_process

CPU = Target.parse("cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A few megabytes tell as much of the program as many."""
    monkeypatch.setattr(bandwidth, "_MOST", 2**22)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path))


def test_the_processors_bandwidth_is_a_number_of_gigabytes() -> None:
    assert 0.01 < bandwidth.measure_bandwidth(CPU.device, CPU) < 10_000


def test_a_run_that_has_the_device_is_not_disturbed(tmp_path: Path) -> None:
    with device_lock(CPU.device, tmp_path), pytest.raises(BusyError):
        bandwidth.measure_bandwidth(CPU.device, CPU)


def test_a_page_that_follows_a_run_measures_nothing(tmp_path: Path) -> None:
    done = in_this_process("report", "--serve", "--bandwidth", cwd=tmp_path)
    assert done.returncode == 2
    assert "would disturb" in done.stderr
