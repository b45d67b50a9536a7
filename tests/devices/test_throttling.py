"""What slows a device down is told since the last look, and nothing where nobody knows."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from autotuner.devices.sampling import POWER, open_throttle

HEAT = "sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count"
SHARE = "sys/fs/cgroup/cpu.stat"


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_processor_is_slowed_down_where_a_count_has_grown_since_the_last_look(tmp_path: Path) -> None:
    write(tmp_path, HEAT, "3\n")
    write(tmp_path, SHARE, "usage_usec 5\nnr_throttled 7\n")
    look = open_throttle("local-task", root=tmp_path)
    assert look() == frozenset()
    write(tmp_path, HEAT, "4\n")
    assert look() == {"heat"}
    write(tmp_path, SHARE, "usage_usec 9\nnr_throttled 8\n")
    assert look() == {"the container's share of the processor"}
    assert look() == frozenset()


@pytest.mark.parametrize("uri", ["local-task", "hip://0", "nonsense"])
def test_where_nobody_tells_nothing_is_said(tmp_path: Path, uri: str) -> None:
    assert open_throttle(uri, root=tmp_path)() == frozenset()


@pytest.mark.parametrize(
    ("bits", "says"), [(0, set()), (1, set()), (0x04, {POWER}), (0x44, {POWER, "heat"}), (0x88, None)]
)
def test_a_gpus_reasons_are_named(bits: int, says: set[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for NVML, which needs a GPU."""
    nvml = ModuleType("pynvml")
    nvml.nvmlInit = lambda: None  # type: ignore[attr-defined]
    nvml.nvmlDeviceGetHandleByIndex = lambda index: index  # type: ignore[attr-defined]
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _: bits  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    wanted = {"a hardware slowdown", "the power brake"} if says is None else says
    assert open_throttle("cuda://1")() == wanted
