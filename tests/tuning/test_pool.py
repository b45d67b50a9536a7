"""Builds and timings: at once on a GPU, in short turns on the processor that is timed; one timing at a time on each
device, and what becomes of the work of one that fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import Device, Timing
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.targets import PLAIN
from autotuner.tuning import pool as pools
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate
from autotuner.tuning.pool import AHEAD, Measure, Pool
from tests.support.patience import ENOUGH

GOOD = Measured(Check(None, 0.0), Timing((1.0,)))
DIED = Measured(Check("run-error", 1.0, "killed by SIGSEGV"))
LATE = Measured(Check(None, 0.0), Timing((), "run-timeout", "killed after 60 s"))
both_ways = pytest.mark.parametrize("overlapped", [True, False])


@dataclass(eq=False)
class Fake:
    """A device that does as it is told."""

    uri: str = "cuda://0"
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
    """Candidates whose builds take no time, unless `build` waits for something, and say how long they took."""

    executor: Executor
    names: list[str]
    build: Callable[[str], object] = lambda _: None
    build_seconds: float = 0.0
    late: frozenset[str] = frozenset()
    """Builds that the deadline cuts off."""
    known: int = 0
    building: int = 0
    most_building: int = 0
    told: list[tuple[str, Measured]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def room(self) -> int:
        return len(self.names)

    @property
    def ahead(self) -> int:
        """Asked for, and not yet told."""
        return self.known - len(self.told)

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        taken, self.names = self.names[:count], self.names[count:]
        self.known += len(taken)
        return [
            (Outcome(Candidate(name, "codegen", PLAIN, 1), 0), self.executor.submit(self._build, name))
            for name in taken
        ]

    def _build(self, name: str) -> Compiled:
        if name in self.late:
            raise OutOfTimeError
        self._change(1)
        self.build(name)
        self._change(-1)
        return Compiled(None, "", self.build_seconds, (), Path(name), binary=name, applied=1)

    def _change(self, building: int) -> None:
        with self.changed:
            self.building += building
            self.most_building = max(self.most_building, self.building)
            self.changed.notify_all()

    def until(self, reached: Callable[[], bool]) -> None:
        """Waits for others, who come at once where the pool does what it promises."""
        with self.changed:
            assert self.changed.wait_for(reached, timeout=ENOUGH)

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure:
        del build
        return lambda device: cast(Fake, device).measure(outcome.candidate.id)

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        with self.changed:
            self.told.append((outcome.candidate.id, measured))
            self.changed.notify_all()


def names(count: int) -> list[str]:
    return [f"{number:03d}" for number in range(count)]


def some(*fakes: Fake) -> tuple[Devices, list[str]]:
    said: list[str] = []
    return Devices(tuple(cast(Device, fake) for fake in fakes), said.append), said


def tuned(
    devices: Devices,
    lane: Lane,
    *,
    jobs: int = 2,
    overlapped: bool = True,
    over: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """Its seconds."""
    seconds: dict[str, float] = {}
    Pool(jobs, overlapped, over, seconds, devices, lane).run()
    return seconds


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def once_each(lane: Lane, count: int) -> None:
    assert sorted(name for name, _ in lane.told) == names(count)


# --- one device -------------------------------------------------------------------------------------------------------


def test_the_next_builds_are_finished_while_the_device_times(executor: Executor) -> None:
    """A timing ends when another build has ended that waits for the device."""
    built: list[str] = []

    def waits(_: str) -> Measured:
        lane.until(lambda: len(built) >= min(len(fake.tried) + 1, 80))
        return GOOD

    fake = Fake(does=waits)
    lane = Lane(executor, names(80), build=built.append)
    tuned(some(fake)[0], lane, jobs=8)
    once_each(lane, 80)


def test_all_builders_are_busy_where_building_is_the_slower(executor: Executor) -> None:
    """A build ends when eight have begun that have not ended."""
    together = threading.Barrier(8, timeout=ENOUGH)
    lane = Lane(executor, names(64), build=lambda _: together.wait(), build_seconds=1000.0)
    assert tuned(some(Fake())[0], lane, jobs=8)["builders"] == 64 * 1000.0


def test_a_slow_device_is_not_asked_far_ahead(executor: Executor) -> None:
    """The search is told before it is asked again: what waits for the device was asked without knowing."""
    ahead = []
    lane = Lane(executor, names(60), build_seconds=1e-9)

    def over() -> bool:
        ahead.append(lane.ahead)
        return False

    tuned(some(Fake())[0], lane, jobs=8, over=over)
    assert max(ahead[len(ahead) // 2 :]) <= pools._READY + 2 * AHEAD + 2


def niceness(expected: int) -> str:
    """Of a program that ends when it is as expected, which it may become after its start."""
    loop = (
        f"for i in $(seq 400); do n=$(cut -d' ' -f19 /proc/self/stat); [ $n = {expected} ] && break; sleep 0.05; done"
    )
    return process.run(["sh", "-c", f"{loop}; echo $n"], timeout=ENOUGH).stdout.strip()


@pytest.mark.parametrize(("overlapped", "nicer"), [(True, 10), (False, 0)])
def test_compilers_give_way_to_what_is_timed_beside_them(overlapped: bool, nicer: int) -> None:
    """Also where all of it gives way to others (`nice autotune …`)."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    behind = min(own + nicer, 19)
    said: set[str] = set()
    timed: set[str] = set()

    def time_it(_: str) -> Measured:
        timed.add(niceness(own))
        return GOOD

    with local_executor(2) as executor:
        lane = Lane(executor, names(2), build=lambda _: said.add(niceness(behind)))
        tuned(some(Fake(does=time_it))[0], lane, overlapped=overlapped)
    assert (said, timed) == ({str(behind)}, {str(own)})


def test_the_device_takes_whichever_build_is_finished_first(executor: Executor) -> None:
    lane = Lane(executor, names(6))
    lane.build = lambda name: lane.until(lambda: name != "000" or len(lane.told) == 5)
    tuned(some(Fake())[0], lane, jobs=4)
    assert lane.told[-1][0] == "000"


def test_on_the_processor_that_is_timed_nothing_is_built_meanwhile_and_turns_are_short(
    monkeypatch: pytest.MonkeyPatch, executor: Executor
) -> None:
    """Two builders that begin another build every tenth of a turn."""
    beside, ahead = [], []

    def time_it(_: str) -> Measured:
        beside.append(lane.building)
        return GOOD

    lane = Lane(executor, names(40))
    lane.build = lambda _: lane.until(lambda: lane.most_building == 2)
    monkeypatch.setattr(pools, "monotonic", lambda: 0.1 * pools.TURN_SECONDS * lane.known)

    def over() -> bool:
        ahead.append(lane.ahead)
        return False

    tuned(some(Fake(does=time_it))[0], lane, overlapped=False, over=over)
    assert set(beside) == {0}
    assert lane.most_building == 2
    assert max(ahead) <= 12  # what two builders can build in a turn, not all forty


def test_a_turn_is_as_many_builds_as_builders_where_these_take_long(
    monkeypatch: pytest.MonkeyPatch, executor: Executor
) -> None:
    monkeypatch.setattr(pools, "TURN_SECONDS", 0.0)
    lane, sizes = Lane(executor, names(6)), []

    def over() -> bool:
        sizes.append(lane.known)
        return False

    tuned(some(Fake())[0], lane, overlapped=False, over=over)
    assert sorted(set(sizes)) == [0, 2, 4, 6]


@both_ways
def test_a_request_to_stop_is_seen_soon_and_what_is_left_is_not_timed(overlapped: bool, executor: Executor) -> None:
    lane = Lane(executor, names(500))
    tuned(some(Fake())[0], lane, overlapped=overlapped, over=lambda: len(lane.told) >= 5)
    assert len(lane.told) < 50


@both_ways
def test_a_build_that_the_deadline_cuts_off_is_not_timed(overlapped: bool, executor: Executor) -> None:
    lane = Lane(executor, names(6), late=frozenset({"001", "004"}))
    tuned(some(Fake())[0], lane, overlapped=overlapped)
    assert sorted(name for name, _ in lane.told) == ["000", "002", "003", "005"]


# --- several ----------------------------------------------------------------------------------------------------------


@both_ways
def test_a_device_that_is_gone_is_retired_and_no_candidate_is_lost_or_told_twice(
    overlapped: bool, executor: Executor
) -> None:
    devices, said = some(Fake("cuda://0", seconds=0.002), Fake("cuda://1", after(3, lost), seconds=0.002))
    lane = Lane(executor, names(30))
    tuned(devices, lane, overlapped=overlapped)
    once_each(lane, 30)
    assert all(measured is GOOD for _, measured in lane.told)
    assert said == ["device cuda://1 is retired, and the others do its work: the device is gone"]
    assert devices.to_json()[1]["retired"] == "the device is gone"


def test_a_device_that_hangs_does_not_hold_up_the_others(executor: Executor) -> None:
    released = threading.Event()

    def hangs(_: str) -> Measured:
        assert released.wait(ENOUGH)
        return LATE

    def over() -> bool:
        if len(lane.told) >= 18:  # all but what the thread of the other one has
            released.set()
        return False

    lane = Lane(executor, names(20))
    tuned(some(Fake("cuda://0"), Fake("cuda://1", hangs))[0], lane, over=over)
    once_each(lane, 20)
    assert sum(measured is LATE for _, measured in lane.told) <= 2, "what the thread of the other one had"


@both_ways
def test_when_the_last_device_is_gone_its_error_ends_the_run(overlapped: bool, executor: Executor) -> None:
    devices, said = some(Fake("cuda://0", after(4, lost)), Fake("cuda://1", after(2, lost)))
    with pytest.raises(DeviceError, match="the device is gone"):
        tuned(devices, Lane(executor, names(30)), overlapped=overlapped)
    assert len(said) == 1


def test_one_candidate_takes_at_most_two_devices_down(executor: Executor) -> None:
    fakes = [Fake(f"cuda://{n}", lambda name: lost(name) if name == "005" else GOOD, 0.002) for n in range(4)]
    devices, said = some(*fakes)
    lane = Lane(executor, names(20))
    tuned(devices, lane)
    once_each(lane, 20)
    assert [name for name, measured in lane.told if measured.check.failure] == ["005"]
    assert len(said) == 2


@both_ways
def test_what_the_deadline_cuts_off_is_not_told(overlapped: bool, executor: Executor) -> None:
    def late(_: str) -> Measured:
        raise OutOfTimeError

    devices, said = some(Fake("cuda://0", late), Fake("cuda://1", late))
    lane = Lane(executor, names(6))
    tuned(devices, lane, overlapped=overlapped)
    assert (lane.told, said) == ([], [])


@both_ways
def test_a_candidate_that_does_not_run_is_a_failure_of_its_own_and_no_device_is_retired(
    overlapped: bool, executor: Executor
) -> None:
    fakes = [Fake(f"cuda://{n}", lambda name: DIED if int(name) % 3 == 0 else GOOD, 0.002) for n in range(3)]
    devices, said = some(*fakes)
    lane = Lane(executor, names(40))
    tuned(devices, lane, overlapped=overlapped)
    once_each(lane, 40)
    assert {name for name, measured in lane.told if measured.check.failure} == {*names(40)[::3]}
    assert all(len(fake.tried) >= 5 for fake in fakes), "all of them work"
    assert said == []


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
    devices, said = some(Fake("cuda://0"), Fake("cuda://1"), Fake("cuda://2"))
    with pytest.raises(DeviceError, match="cuda://1 does not run the baseline"):
        on_one(devices, "cuda://0", "cuda://1", "cuda://2")
    assert said == [], "what runs nowhere is at fault itself"


def test_a_device_that_does_not_open_is_retired_and_the_last_one_is_the_runs_error() -> None:
    devices, said = some(Fake("cuda://0"), Fake("cuda://9", gone=True))
    devices.open()
    assert said == ["device cuda://9 is retired, and the others do its work: the device is gone"]
    alone, _ = some(Fake("cuda://9", gone=True))
    with pytest.raises(DeviceError, match="is gone"):
        on_one(alone)
    with pytest.raises(DeviceError, match="is gone"):
        alone.open()
