"""Builds and timings: at once on a GPU, in short turns on the processor that is timed; one timing at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autotuner.build import Compiled
from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.errors import OutOfTimeError
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.targets import PLAIN
from autotuner.tuning import pool as pools
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate
from autotuner.tuning.pool import AHEAD, Measure, Pool
from tests.support.bare_device import BareDevice

ENOUGH = 120.0
"""Seconds after which nobody comes any more: only a test that fails waits so long."""


@dataclass
class Workshop:
    """How many build and time at this moment."""

    building: int = 0
    timing: int = 0
    most_building: int = 0
    both: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def change(self, *, building: int = 0, timing: int = 0) -> None:
        with self._changed:
            self.building += building
            self.timing += timing
            self.most_building = max(self.most_building, self.building)
            self.both |= self.building > 0 and self.timing > 0
            assert self.timing <= 1, "two timings at once"
            self._changed.notify_all()

    def until(self, reached: Callable[[Workshop], bool]) -> None:
        """Waits for others, who come at once where the pool does what it promises."""
        with self._changed:
            assert self._changed.wait_for(lambda: reached(self), timeout=ENOUGH)


@dataclass
class FakeLane:
    """Builds and timings that take no time, and say how long they took."""

    executor: Executor
    names: list[str]
    build: Callable[[str], object] = lambda _: None
    time: Callable[[], object] = lambda: None
    build_seconds: float = 0.0
    workshop: Workshop = field(default_factory=Workshop)
    asked: list[int] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    late: frozenset[str] = frozenset()
    known: int = 0

    @property
    def room(self) -> int:
        return len(self.names)

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        taken, self.names = self.names[:count], self.names[count:]
        self.asked.append(len(taken))
        self.known += len(taken)
        return [
            (Outcome(Candidate(name, "codegen", PLAIN, 1), hash(name)), self.executor.submit(self._build, name))
            for name in taken
        ]

    def _build(self, name: str) -> Compiled:
        if name in self.late:
            raise OutOfTimeError
        self.workshop.change(building=1)
        self.build(name)
        self.workshop.change(building=-1)
        return Compiled(None, "", self.build_seconds, (), Path(name), binary=name, applied=1)

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure | None:
        del outcome
        return self.on_device(build)

    def on_device(self, build: Compiled) -> Measure:
        def measure(device: Device) -> Measured:
            del device
            self.workshop.change(timing=1)
            self.time()
            self.order.append(build.binary)
            self.workshop.change(timing=-1)
            return Measured(Check(None, 0.0))

        return measure

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        del outcome, measured


def work(lane: FakeLane, jobs: int, *, overlapped: bool, over: Callable[[], bool] = lambda: False) -> dict[str, float]:
    """Its seconds."""
    seconds: dict[str, float] = {}
    Pool(jobs, overlapped, over, seconds, Devices((BareDevice(),)), lane).run()
    return seconds


def names(count: int) -> list[str]:
    return [f"{number:03d}" for number in range(count)]


@pytest.mark.parametrize("overlapped", [True, False])
def test_every_candidate_is_built_and_timed_once(overlapped: bool) -> None:
    with ThreadPoolExecutor(2) as executor:
        lane = FakeLane(executor, names(23))
        work(lane, 2, overlapped=overlapped)
    assert sorted(lane.order) == names(23)


def test_the_next_builds_are_finished_while_the_device_times() -> None:
    """A timing ends when another build has ended that waits for the device."""
    built: list[str] = []
    with ThreadPoolExecutor(8) as executor:
        lane = FakeLane(executor, names(80), build=built.append)
        lane.time = lambda: lane.workshop.until(lambda _: len(built) >= min(len(lane.order) + 2, 80))
        work(lane, 8, overlapped=True)
    assert sorted(lane.order) == names(80)


def test_all_builders_are_busy_where_building_is_the_slower() -> None:
    """A build ends when eight have begun that have not ended."""
    together = threading.Barrier(8, timeout=ENOUGH)
    with ThreadPoolExecutor(8) as executor:
        lane = FakeLane(executor, names(64), build=lambda _: together.wait(), build_seconds=1000.0)
        seconds = work(lane, 8, overlapped=True)
    assert seconds["builders"] == 64 * 1000.0


def test_a_slow_device_is_not_asked_far_ahead() -> None:
    """The search is told before it is asked again: what waits for the device was asked without knowing."""
    ahead = []
    with ThreadPoolExecutor(8) as executor:
        lane = FakeLane(executor, names(60), build_seconds=1e-9)

        def over() -> bool:
            ahead.append(lane.known - len(lane.order))
            return False

        work(lane, 8, overlapped=True, over=over)
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
    with local_executor(2) as executor:
        lane = FakeLane(
            executor, names(2), build=lambda _: said.add(niceness(behind)), time=lambda: timed.add(niceness(own))
        )
        work(lane, 2, overlapped=overlapped)
    assert (said, timed) == ({str(behind)}, {str(own)})


def test_the_device_takes_whichever_build_is_finished_first() -> None:
    with ThreadPoolExecutor(4) as executor:
        lane = FakeLane(executor, names(6))
        lane.build = lambda name: lane.workshop.until(lambda _: name != "000" or len(lane.order) == 5)
        work(lane, 4, overlapped=True)
    assert lane.order[-1] == "000"


def test_on_the_processor_that_is_timed_nothing_is_built_meanwhile_and_turns_are_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two builders that begin another build every tenth of a turn."""
    with ThreadPoolExecutor(2) as executor:
        lane = FakeLane(executor, names(40), build=lambda _: lane.workshop.until(lambda now: now.most_building == 2))
        monkeypatch.setattr(pools, "monotonic", lambda: 0.1 * pools.TURN_SECONDS * lane.known)
        ahead = []

        def over() -> bool:
            ahead.append(lane.known - len(lane.order))
            return False

        work(lane, 2, overlapped=False, over=over)
    assert not lane.workshop.both
    assert lane.workshop.most_building == 2
    assert max(ahead) <= 12  # what two builders can build in a turn, not all forty


def test_a_turn_is_as_many_builds_as_builders_where_these_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "TURN_SECONDS", 0.0)
    with ThreadPoolExecutor(2) as executor:
        lane = FakeLane(executor, names(6))
        sizes = []

        def over() -> bool:
            sizes.append(lane.known)
            return False

        work(lane, 2, overlapped=False, over=over)
    assert sorted(set(sizes)) == [0, 2, 4, 6]


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_request_to_stop_is_seen_soon_and_what_is_left_is_not_timed(overlapped: bool) -> None:
    with ThreadPoolExecutor(2) as executor:
        lane = FakeLane(executor, names(500))
        work(lane, 2, overlapped=overlapped, over=lambda: len(lane.order) >= 5)
    assert len(lane.order) < 50


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_build_that_the_deadline_cuts_off_is_not_timed(overlapped: bool) -> None:
    with ThreadPoolExecutor(2) as executor:
        lane = FakeLane(executor, names(6), late=frozenset({"001", "004"}))
        work(lane, 2, overlapped=overlapped)
    assert sorted(lane.order) == ["000", "002", "003", "005"]
