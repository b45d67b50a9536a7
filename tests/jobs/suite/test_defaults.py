"""Defaults that shares are made of: all on one device, and on the next where that one is lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

from autotuner.build import Compiled
from autotuner.devices.device import Device, Timing
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError
from autotuner.jobs.suite.defaults import DefaultTimer
from autotuner.problems import Gemm
from autotuner.system.cache import Cache
from autotuner.system.execution import done
from autotuner.system.progress import Stop
from autotuner.targets import Target
from autotuner.tuning.options import parse_effort

SECOND_US = 1e6


@dataclass
class Fake:
    """A device that takes a second, or is lost after so many calls."""

    uri: str
    left: float = float("inf")
    invocation_us: float = 1.0

    def time(self, module: Any, benchmark: Any, *, repetitions: int) -> Timing:
        del module, benchmark
        if self.left <= 0:
            raise DeviceError(f"{self.uri} is lost", remedy="Look at it.")
        self.left -= 1
        return Timing((SECOND_US,) * repetitions)


def timer(folder: Path, *fakes: Fake) -> tuple[DefaultTimer, Devices]:
    devices = Devices(tuple(cast(Device, one) for one in fakes))
    built = Compiled(None, "", 0.0, (), folder / "module.vmfb", binary="one", applied=1)
    session = MagicMock(devices=devices, runner=fakes[0], jobs=2, stop=Stop())
    session.executor.start = lambda _: done(built)
    session.builder.cache = Cache(folder / "cache")
    made = DefaultTimer(Target.parse("cpu"), session, parse_effort("quick"), seed=0)
    return made, devices


PROBLEMS = [Gemm.parse(shape=f"{size}x8x8", dtype="f32") for size in (8, 16, 24)]


def test_when_the_first_device_is_lost_the_next_one_times_what_is_left(tmp_path: Path) -> None:
    first, second = Fake("cuda://0", left=2), Fake("cuda://1")
    made, devices = timer(tmp_path, first, second)
    found = [default for _, default in made.time(PROBLEMS)]
    assert found == [SECOND_US] * len(PROBLEMS)
    assert devices.retired == {"cuda://0": "cuda://0 is lost"}


def test_when_the_last_device_is_lost_each_problem_says_so(tmp_path: Path) -> None:
    made, devices = timer(tmp_path, Fake("cuda://0", left=2))
    found = [default for _, default in made.time(PROBLEMS)]
    assert found[0] == SECOND_US
    assert all("cuda://0 is lost" in str(default) for default in found[1:])
    assert devices.retired == {}
