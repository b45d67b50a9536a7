"""Several devices: their names, a baseline on each, and a run on two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import Device, Timing
from autotuner.errors import DeviceError, UsageError
from autotuner.measure.baselines import Baselines
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check
from autotuner.store.store import Store
from autotuner.targets import Target
from autotuner.targets.naming import iree_uri, require_one_kind
from tests.support.fake_tools import SPEC, FakeTools, run


def built(name: str) -> Compiled:
    return Compiled(None, "", 0.0, (), Path(name), binary=name, applied=1)


# --- baselines --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Timer:
    """A device that takes so many µs for each module, by its name."""

    uri: str
    us: dict[str, float]
    right: bool = True

    def time(self, module: Compiled, benchmark: Any, *, repetitions: int = 3, give_up_us: float = 0.0) -> Timing:
        del benchmark, give_up_us
        return Timing((self.us[module.binary],) * repetitions) if self.us else Timing((), "run-error", "it is broken")


@dataclass(frozen=True)
class Checks:
    """What a checker is to a calibration."""

    device: Timer

    def check(self, _: Path) -> Check:
        return Check(None, 0.0) if self.device.right else Check("wrong-result", 1.0, "relative error 1")


def baselines(home: Timer, us: float | None = 100.0) -> Baselines[Compiled]:
    calibration = Calibration(
        cast(Device, home), cast(Any, Checks(home)), cast(Any, None), 1, built("default"), 0.1, 0.1, Timing(()),
        Check(None, 0.0),
    )  # fmt: skip
    return Baselines(calibration, lambda: us)


def test_a_candidate_is_told_by_its_own_devices_default() -> None:
    """The second chip is 10 % slower: a candidate that halves the default is as good there as here."""
    first, second = Timer("cuda://0", {"default": 100.0, "c": 50.0}), Timer("cuda://1", {"default": 110.0, "c": 55.0})
    known = baselines(first)
    for device in (first, second):
        measured = known.measure(built("c"), cast(Device, device), best_us=90.0)
        assert measured.timing is not None
        assert measured.timing.median / known.ratio(measured.device) == pytest.approx(50.0)
        assert (measured.default.median if measured.default else None) == (110.0 if device is second else None)
    assert known.us() == pytest.approx({"cuda://0": 100.0, "cuda://1": 110.0})
    assert known.measure(built("c"), cast(Device, second), best_us=90.0).default is None, "it has arrived once"


@pytest.mark.parametrize("second", [Timer("cuda://1", {}), Timer("cuda://1", {"default": 100.0}, right=False)])
def test_a_device_on_which_the_default_does_not_run_or_is_wrong_is_at_fault(second: Timer) -> None:
    with pytest.raises(DeviceError, match="IREE's default runs on another device and not on 'cuda://1'"):
        baselines(Timer("cuda://0", {})).measure(built("c"), cast(Device, second), best_us=1.0)


# --- names ------------------------------------------------------------------------------------------------------------

CPU, SM_80 = Target.parse("cpu"), Target.parse("sm_80")


def test_twins_on_a_processor_have_names_of_their_own() -> None:
    found = CPU.choose_devices("local-task,local-task , local-task")
    assert found == ("local-task", "local-task#2", "local-task#3")
    assert {iree_uri(name) for name in found} == {"local-task"}


@pytest.mark.parametrize(
    ("target", "words", "expected"),
    [
        (SM_80, "cuda://0,cuda://0", "names cuda://0 twice"),
        (SM_80, "cuda,cuda://0", "names cuda://0 twice"),
        (SM_80, "cuda://0,local-task", ": local-task is not a device"),
        (CPU, "none,local-task", "names none beside a device"),
        (CPU, "local-task,none", "names none beside a device"),
        (CPU, "local-task,", "empty name"),
        (CPU, "local-task,nothing", ": nothing is not a device"),
        (CPU, "local-task,local-task#2", ": local-task#2 is not a device"),
        (CPU, "local-task,local-sync", "local-task is local-task, local-sync is local-sync"),
    ],
)
def test_lists_that_cannot_be_meant_are_refused(target: Target, words: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        target.choose_devices(words)


def test_devices_of_different_kinds_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="cuda://0 is NVIDIA H200, cuda://2 is NVIDIA A100"):
        require_one_kind({"cuda://0": "NVIDIA H200", "cuda://1": "", "cuda://2": "NVIDIA A100"})


# --- whole runs -------------------------------------------------------------------------------------------------------

TWINS = "local-task,local-task"


def test_two_twins_tune_a_gemm_to_a_verdict_that_tells_of_both(fake: Callable[..., FakeTools], workspace: Path) -> None:
    """Times are chosen: every spec takes a fifth of what all routes take."""
    result = run(fake(rules=[(SPEC, 20.0)]), workspace, device=TWINS)
    document = result.to_json()
    assert document["device"] == TWINS
    assert document["verdict"] == "win"
    assert [one["device"] for one in document["devices"]] == ["local-task", "local-task#2"]
    assert all((one["default_us"] or 0) > 0 and one["retired"] is None for one in document["devices"])
    with Store.open(None, workspace=workspace) as store:
        places = {(row.phase, row.conditions.device) for row in store.timings(result.run) if row.conditions}
    assert {device for phase, device in places if phase == "screen"} == {"local-task", "local-task#2"}
    assert {device for phase, device in places if phase in ("race", "confirm")} == {"local-task"}
