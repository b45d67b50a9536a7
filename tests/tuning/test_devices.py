"""Several devices: one queue, a baseline on each, and what becomes of the work of one that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import Device, Timing
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError, OutOfTimeError, UsageError
from autotuner.measure.baselines import Baselines
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.store.store import Store
from autotuner.targets import PLAIN, Target
from autotuner.targets.naming import iree_uri, require_one_kind
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate
from autotuner.tuning.pool import Measure, Pool
from tests.support.fake_tools import SPEC, FakeTools, run
from tests.support.patience import ENOUGH

GOOD = Measured(Check(None, 0.0), Timing((1.0,)))
DIED = Measured(Check("run-error", 1.0, "killed by SIGSEGV"))
LATE = Measured(Check(None, 0.0), Timing((), "run-timeout", "killed after 60 s"))


@dataclass(eq=False)
class Fake:
    """A device that does as it is told."""

    uri: str
    does: Callable[[str], Measured] = lambda _: GOOD
    seconds: float = 0.0
    gone: bool = False
    tried: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> None:
        if self.gone:
            lost("")

    def measure(self, name: str) -> Measured:
        assert self.lock.acquire(blocking=False), f"two timings at once on {self.uri}"
        try:
            time.sleep(self.seconds)
            self.tried.append(name)
            return self.does(name)
        finally:
            self.lock.release()


def lost(_: str) -> Measured:
    raise DeviceError("the device is gone", remedy="Look at it.")


def after(count: int, then: Callable[[str], Measured]) -> Callable[[str], Measured]:
    """Right for so many candidates, and then otherwise."""
    left = iter(range(count))
    return lambda name: GOOD if next(left, None) is not None else then(name)


@dataclass
class Lane:
    """Candidates that are built at once."""

    executor: ThreadPoolExecutor
    names: list[str]
    told: list[tuple[str, Measured]] = field(default_factory=list)

    @property
    def room(self) -> int:
        return len(self.names)

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        taken, self.names = self.names[:count], self.names[count:]
        return [(Outcome(Candidate(name, "codegen", PLAIN, 1), 0), self.executor.submit(built, name)) for name in taken]

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure:
        del build
        return lambda device: cast(Fake, device).measure(outcome.candidate.id)

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        self.told.append((outcome.candidate.id, measured))


def built(name: str) -> Compiled:
    return Compiled(None, "", 0.0, (), Path(name), binary=name, applied=1)


def names(count: int) -> list[str]:
    return [f"{number:03d}" for number in range(count)]


def some(*fakes: Fake) -> tuple[Devices, list[str]]:
    said: list[str] = []
    return Devices(tuple(cast(Device, fake) for fake in fakes), said.append), said


def tuned(devices: Devices, count: int, *, overlapped: bool = True, over: Callable[[], bool] = lambda: False) -> Lane:
    with ThreadPoolExecutor(2) as executor:
        lane = Lane(executor, names(count))
        Pool(2, overlapped, over, {}, devices, lane).run()
    return lane


def once_each(lane: Lane, count: int) -> None:
    assert sorted(name for name, _ in lane.told) == names(count)


# --- the queue --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlapped", [True, False])
def test_all_devices_work_and_each_candidate_is_told_once(overlapped: bool) -> None:
    fakes = [Fake(f"cuda://{number}", seconds=0.002) for number in range(3)]
    devices, said = some(*fakes)
    lane = tuned(devices, 40, overlapped=overlapped)
    once_each(lane, 40)
    assert all(len(fake.tried) >= 5 for fake in fakes)
    assert sum(len(fake.tried) for fake in fakes) == 40
    assert said == []


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_device_that_is_gone_is_retired_and_no_candidate_is_lost_or_told_twice(overlapped: bool) -> None:
    devices, said = some(Fake("cuda://0", seconds=0.002), Fake("cuda://1", after(3, lost), seconds=0.002))
    lane = tuned(devices, 30, overlapped=overlapped)
    once_each(lane, 30)
    assert all(measured is GOOD for _, measured in lane.told)
    assert said == ["device cuda://1 is retired, and the others do its work: the device is gone"]
    assert devices.to_json()[1]["retired"] == "the device is gone"


def test_a_device_that_hangs_does_not_hold_up_the_others() -> None:
    released = threading.Event()

    def hangs(_: str) -> Measured:
        assert released.wait(ENOUGH)
        return LATE

    devices, _ = some(Fake("cuda://0"), Fake("cuda://1", hangs))
    done: list[int] = []
    with ThreadPoolExecutor(2) as executor:
        lane = Lane(executor, names(20))

        def over() -> bool:
            done.append(len(lane.told))
            if len(lane.told) >= 18:  # all but what the thread of the other one has
                released.set()
            return False

        Pool(2, True, over, {}, devices, lane).run()
    once_each(lane, 20)
    assert sum(measured is LATE for _, measured in lane.told) <= 2, "what the thread of the other one had"


@pytest.mark.parametrize("overlapped", [True, False])
def test_when_the_last_device_is_gone_its_error_ends_the_run(overlapped: bool) -> None:
    devices, said = some(Fake("cuda://0", after(4, lost)), Fake("cuda://1", after(2, lost)))
    with pytest.raises(DeviceError, match="the device is gone"):
        tuned(devices, 30, overlapped=overlapped)
    assert len(said) == 1


def test_one_candidate_takes_at_most_two_devices_down() -> None:
    fakes = [Fake(f"cuda://{n}", lambda name: lost(name) if name == "005" else GOOD, 0.002) for n in range(4)]
    devices, said = some(*fakes)
    lane = tuned(devices, 20)
    once_each(lane, 20)
    assert [name for name, measured in lane.told if measured.check.failure] == ["005"]
    assert len(said) == 2


@pytest.mark.parametrize("overlapped", [True, False])
def test_what_the_deadline_cuts_off_is_not_told(overlapped: bool) -> None:
    def late(_: str) -> Measured:
        raise OutOfTimeError

    devices, said = some(Fake("cuda://0", late), Fake("cuda://1", late))
    assert tuned(devices, 6, overlapped=overlapped).told == []
    assert said == []


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_candidate_that_does_not_run_is_a_failure_of_its_own_and_no_device_is_retired(overlapped: bool) -> None:
    fakes = [Fake(f"cuda://{n}", lambda name: DIED if int(name) % 3 == 0 else GOOD) for n in range(2)]
    devices, said = some(*fakes)
    lane = tuned(devices, 24, overlapped=overlapped)
    once_each(lane, 24)
    assert {name for name, measured in lane.told if measured.check.failure} == {
        name for name in names(24) if int(name) % 3 == 0
    }
    assert said == []


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


# --- where a problem is at home ---------------------------------------------------------------------------------------


def on_one(devices: Devices, *broken: str) -> str:
    def work(device: Device) -> str:
        device.open()
        if device.uri in broken:
            raise DeviceError(f"{device.uri} does not run the baseline", remedy="Look at it.")
        return device.uri

    return devices.on_one(devices.first, work)


def test_what_runs_on_another_device_speaks_against_the_first_which_is_retired() -> None:
    devices, _ = some(Fake("cuda://0"), Fake("cuda://1"))
    assert on_one(devices, "cuda://0") == "cuda://1"
    assert list(devices.retired) == ["cuda://0"]
    assert devices.on_one(devices.all[0], lambda device: device.uri) == "cuda://1", "a retired one is not asked"


def test_what_runs_nowhere_is_at_fault_itself_and_no_device_is_retired() -> None:
    devices, said = some(Fake("cuda://0"), Fake("cuda://1"), Fake("cuda://2"))
    with pytest.raises(DeviceError, match="cuda://1 does not run the baseline"):
        on_one(devices, "cuda://0", "cuda://1", "cuda://2")
    assert said == []


def test_what_is_left_when_the_last_device_is_lost_is_no_verdict() -> None:
    devices, _ = some(Fake("cuda://0", gone=True))
    with pytest.raises(DeviceError, match="is gone"):
        on_one(devices)


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
    require_one_kind({"cuda://0": "NVIDIA H200", "cuda://1": ""})


def test_a_device_that_does_not_open_is_retired_and_the_last_one_is_the_runs_error() -> None:
    devices, said = some(Fake("cuda://0"), Fake("cuda://9", gone=True))
    devices.open()
    assert said == ["device cuda://9 is retired, and the others do its work: the device is gone"]
    with pytest.raises(DeviceError, match="is gone"):
        some(Fake("cuda://9", gone=True))[0].open()


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
