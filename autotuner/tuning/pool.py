"""Builds and timings: many builds at once, one timing at a time on each device.

On GPUs both go on at once: each device has a thread of its own and takes whichever build is finished first. On the
processor that is timed they take turns, and the turns are short; so do several devices that are this processor.
A device that fails is retired, and others do its work.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar

from autotuner.build import Compiled
from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.system.execution import local_executor
from autotuner.system.process import behind_timings
from autotuner.system.progress import clocked
from autotuner.tuning.outcome import Outcome

T = TypeVar("T")

WORK = ("device", "builders", "loop")
"""Seconds that a pool counts: all devices at work, all builds together, and the wall time of both."""
TURN_SECONDS = 1.0
"""Where builds and timings take turns: no build is begun so long after the first of its turn."""
AHEAD = 2
"""The work in a device's thread: one that runs, one that follows."""
_READY = 2
"""Finished builds that wait for each device beside those in its thread, so that it never waits for them."""
_GLANCE = 0.2
"""Seconds after which a request to stop is seen."""
_MARGIN = 1.5
"""Builds take unequally long: this much more than their mean is kept under way."""

Measure = Callable[[Device], Measured]
"""What a device does for one candidate; it is called in the device's thread."""


class Lane(Protocol):
    """What is built and measured."""

    @property
    def room(self) -> int:
        """How many candidates the search may propose now."""

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        """Candidates with their builds, which have begun."""

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure | None:
        """Records the build; returns the device's work if it is to be measured."""

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        """Records a device's answer, and gives it to the search."""


@dataclass(eq=False)
class _Built:
    """A candidate that is built, until a device has measured it."""

    outcome: Outcome
    build: Compiled
    measure: Measure | None = None
    lost: int = 0
    """Devices that were retired with it."""


@dataclass(eq=False)
class _Station:
    """A device at work in a thread of its own."""

    device: Device
    executor: Executor
    tasks: dict[Future[Measured], _Built] = field(default_factory=dict)


@dataclass
class Pool:
    """The builders and the devices, at work until nothing is left to ask or the time is over."""

    jobs: int
    overlapped: bool
    over: Callable[[], bool]
    seconds: dict[str, float]
    """Those of WORK are added to, and `build`: waiting for builds while all devices are idle."""
    devices: Devices
    """Whatever they are; each is handed what it measures in its own thread."""
    lane: Lane
    _builds: dict[Future[Compiled], Outcome] = field(default_factory=dict, init=False)
    """What builders do, in the order in which it was begun."""
    _ready: deque[_Built] = field(default_factory=deque, init=False)
    _stations: list[_Station] = field(default_factory=list, init=False)
    _ended: SimpleQueue[Future[Any]] = field(default_factory=SimpleQueue, init=False)
    _turn: tuple[float, int] = field(default=(0.0, 0), init=False)
    """When the builders' turn ends, and how many builds it has begun."""
    _measured: int = field(default=0, init=False)
    _built_seconds: float = field(default=0.0, init=False)
    _spent: dict[str, float] = field(default_factory=lambda: {"device": 0.0}, init=False)

    def run(self) -> None:
        for step in ("build", *WORK):
            self.seconds.setdefault(step, 0.0)
        with clocked(self.seconds, "loop"):
            try:
                with ExitStack() as stack:
                    threads = [stack.enter_context(local_executor(1)) for _ in self.devices.all]
                    self._stations = [_Station(*pair) for pair in zip(self.devices.all, threads, strict=True)]
                    self._work()
                    for future in self._tasks:
                        future.cancel()
                self._collect({future for future in self._tasks if not future.cancelled()}, last=True)
            finally:
                running = [future for future in self._builds if not future.cancel()]
                if not self.overlapped:
                    wait(running)  # what comes next is timed on their cores

    def _work(self) -> None:
        while not self.over():
            waited = bool(self._ready)
            self._begin()
            self._hand_over()
            if not (self._builds or self._tasks):
                if waited and not self._ready:  # none of it was to be measured: the lane may have more
                    continue
                return
            idle = not self._tasks
            with clocked(self.seconds if idle else {"build": 0.0}, "build"):
                done = self._wait()
            self._collect(done)

    @property
    def _tasks(self) -> list[Future[Any]]:
        """What devices have been handed."""
        return [future for station in self._stations for future in station.tasks]

    # --- builders -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """As many builds as there is room for; never on cores that are being timed."""
        busy, load = len(self._builds), len(self._tasks)
        if self.overlapped:
            with behind_timings():
                self._begin_some(self._depth - busy - len(self._ready) - load)
            return
        if load or (not busy and self._ready):
            return
        ends, begun = self._turn if busy else (monotonic() + TURN_SECONDS, 0)
        if begun < self.jobs or monotonic() < ends:
            begun += self._begin_some(self.jobs - busy)
        self._turn = ends, begun

    @property
    def _depth(self) -> int:
        """Builds under way and waiting: as many as keep the devices busy, and no more than keep the cores busy. A
        longer queue would only make the search ask before it has been told."""
        keep_up, devices, spent = math.inf, len(self.devices.live), self._spent["device"]
        if self._measured and spent:
            keep_up = math.ceil(_MARGIN * devices * self._built_seconds / spent)
        return int(min(self.jobs, keep_up)) + (AHEAD + _READY) * max(devices, 1)

    def _begin_some(self, room: int) -> int:
        begun = 0
        while begun < room and (free := self.lane.room) > 0:
            started = self.lane.ask(min(free, max(1, (room - begun) // 2)))
            for outcome, future in started:
                self._builds[self._watched(future)] = outcome
            begun += len(started)
        return begun

    # --- devices ------------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Gives devices their next work: the least busy first; of these the one that has worked least."""
        retired, worked = self.devices.retired, self.devices.seconds
        live = [station for station in self._stations if station.device.uri not in retired]
        for station in sorted(live, key=lambda one: (len(one.tasks), worked.get(one.device.uri, 0.0))):
            while len(station.tasks) < AHEAD and (self.overlapped or not (self._builds or self._tasks)):
                if (built := self._next()) is None or built.measure is None:
                    break
                work = partial(self._timed, station.device, built.measure)
                station.tasks[self._watched(station.executor.submit(work))] = built

    def _next(self) -> _Built | None:
        """The next build that is to be measured."""
        while self._ready:
            built = self._ready.popleft()
            built.measure = built.measure or self.lane.settle_build(built.outcome, built.build)
            if built.measure is not None:
                return built
        return None

    def _timed(self, device: Device, measure: Measure) -> Measured:
        """A device at work."""
        with clocked(self.seconds, "device"), clocked(self._spent, "device"), self.devices.busy(device):
            return measure(device)

    # --- results ------------------------------------------------------------------------------------------------

    def _collect(self, done: set[Future[Any]], *, last: bool = False) -> None:
        """Takes finished work in the order of its start; what is cut off stays a row for --resume."""
        for future in [future for future in self._builds if future in done]:
            outcome = self._builds.pop(future)
            with suppress(OutOfTimeError):
                build = future.result()
                self._built_seconds += build.seconds
                self.seconds["builders"] += build.seconds
                self._ready.append(_Built(outcome, build))
        for station in self._stations:
            for task in [task for task in station.tasks if task in done]:
                built = station.tasks.pop(task)
                with suppress(OutOfTimeError):
                    self._on_result(station.device, built, task.result, last=last)

    def _on_result(self, device: Device, built: _Built, result: Callable[[], Measured], *, last: bool) -> None:
        """One candidate may take two devices down, not all of them."""
        try:
            measured = result()
        except DeviceError as error:
            if not self.devices.retire(device, error.message):
                raise
            built.lost += 1
            if built.lost == 1:
                if not last:
                    self._ready.appendleft(built)
                return
            measured = Measured(Check("run-error", math.inf, error.message))
        self._measured += 1
        self.lane.settle(built.outcome, measured)

    # --- waiting ------------------------------------------------------------------------------------------------

    def _watched(self, future: Future[T]) -> Future[T]:
        """Its end wakes the pool."""
        future.add_done_callback(self._ended.put)
        return future

    def _wait(self) -> set[Future[Any]]:
        """What has ended since the last time; after a glance, nothing."""
        done: set[Future[Any]] = set()
        with suppress(Empty):
            done.add(self._ended.get(timeout=_GLANCE))
            while True:
                done.add(self._ended.get_nowait())
        return done
