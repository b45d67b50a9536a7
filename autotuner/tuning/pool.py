"""Builds and timings: many builds at once, one timing at a time on each device, for one search or for many.

On GPUs both go on at once: each device has a thread of its own and takes whichever build is finished first. On the
processor that is timed they take turns, and the turns are short; so do several devices that are this processor.
A device that fails is retired, and others do its work.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
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
from autotuner.system.execution import in_a_thread, local_executor
from autotuner.system.process import behind_timings
from autotuner.system.progress import clocked
from autotuner.tuning.outcome import Outcome

T = TypeVar("T")

WORK = ("device", "builders", "loop")
"""Seconds that a pool counts: all devices at work, all builds together, and the wall time of both."""
TURN_SECONDS = 1.0
"""Where builds and timings take turns: no build is begun so long after the first of its turn."""
AHEAD = 2
"""What is handed to a device's thread: one that runs, one that follows at once."""
_READY = 2
"""Finished builds that wait for each device beside those in its thread, so that it never waits for them."""
_GLANCE = 0.2
"""Seconds after which a request to stop is seen."""
_MARGIN = 1.5
"""Builds take unequally long: so much more than their mean is kept under way."""

Measure = Callable[[Device], Measured]
"""What a device does for one candidate; it is called in the device's thread."""


class Lane(Protocol):
    """One search that takes part."""

    @property
    def room(self) -> int:
        """How many candidates may be asked for now."""

    @property
    def worth(self) -> float:
        """What another candidate of it is expected to gain, for each second that it takes."""

    def ask(self, count: int) -> list[tuple[Outcome, Future[Compiled]]]:
        """Candidates with their builds, which have begun."""

    def settle_build(self, outcome: Outcome, build: Compiled) -> Measure | None:
        """Writes the build down; what a device has to do for it, where it is to be measured."""

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        """Writes down what a device said, and tells the search."""


@dataclass(frozen=True, eq=False)
class ForDevice:
    """A call that this device makes (any other, where it is retired), and then what that gives."""

    do: Callable[[Device], Next]
    device: Device


@dataclass(frozen=True, eq=False)
class ForBuilder:
    """A call that a builder makes, and then what that gives; `worth` is compared with that of lanes."""

    do: Callable[[], Next]
    worth: Callable[[], float] = lambda: math.inf


Next = ForDevice | ForBuilder | Lane | None
"""What follows: another call, a lane that is searched, or nothing."""


@dataclass(eq=False)
class _Built:
    """A candidate that is built, until a device has measured it."""

    lane: Lane
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
    tasks: dict[Future[Any], _Built | ForDevice] = field(default_factory=dict)


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
    _lanes: list[Lane] = field(default_factory=list, init=False)
    _waiting: deque[ForBuilder] = field(default_factory=deque, init=False)
    _for_devices: deque[ForDevice] = field(default_factory=deque, init=False)
    _builds: dict[Future[Any], tuple[Lane, Outcome] | None] = field(default_factory=dict, init=False)
    """What builders do, in the order in which it was begun; None: a call that is no candidate's."""
    _ready: deque[_Built] = field(default_factory=deque, init=False)
    _stations: list[_Station] = field(default_factory=list, init=False)
    _ended: SimpleQueue[Future[Any]] = field(default_factory=SimpleQueue, init=False)
    _turn: tuple[float, int] = field(default=(0.0, 0), init=False)
    """When the builders' turn ends, and how many builds it has begun."""
    _measured: int = field(default=0, init=False)
    _built_seconds: float = field(default=0.0, init=False)
    _spent: dict[str, float] = field(default_factory=lambda: {"device": 0.0}, init=False)

    def run(self, lanes: Iterable[Lane] = (), calls: Iterable[ForBuilder | ForDevice] = ()) -> None:
        """Works on these lanes, and on what calls come to, the first first."""
        self._lanes = [*lanes]
        for call in calls:
            self._waiting.append(call) if isinstance(call, ForBuilder) else self._for_devices.append(call)
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
                if waited and not self._ready:  # none of it was to be measured: lanes may have more
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
        """As many calls and builds as there is room for; never on cores that are being timed."""
        busy, load = len(self._builds), len(self._tasks)
        if self.overlapped:
            with behind_timings():
                self._begin_some(self._depth - busy - len(self._ready) - load)
            return
        if load or (not busy and (self._ready or self._for_devices)):
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
        """What is worth most, each time."""
        begun = 0
        while begun < room:
            lane = max((lane for lane in self._lanes if lane.room > 0), key=lambda lane: lane.worth, default=None)
            if self._may_call and (lane is None or self._waiting[0].worth() > lane.worth):
                self._call(self._waiting.popleft())
                begun += 1
                continue
            if lane is None:
                break
            started = lane.ask(min(lane.room, max(1, (room - begun) // 2)))
            for outcome, future in started:
                self._builds[self._watched(future)] = (lane, outcome)
            begun += len(started)
        return begun

    def _call(self, call: ForBuilder) -> None:
        self._builds[self._watched(in_a_thread(call.do))] = None

    @property
    def _may_call(self) -> bool:
        """As many problems as there are builders are opened at once."""
        calls = sum(candidate is None for candidate in self._builds.values()) + len(self._for_devices)
        calls += sum(isinstance(task, ForDevice) for station in self._stations for task in station.tasks.values())
        return bool(self._waiting) and calls < self.jobs

    # --- devices ------------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Gives devices their next work: the least busy first; of these the one that has worked least."""
        retired, worked = self.devices.retired, self.devices.seconds
        live = [station for station in self._stations if station.device.uri not in retired]
        for station in sorted(live, key=lambda one: (len(one.tasks), worked.get(one.device.uri, 0.0))):
            while len(station.tasks) < AHEAD and (self.overlapped or not (self._builds or self._tasks)):
                if (task := self._task_for(station.device)) is None:
                    break
                do = task.do if isinstance(task, ForDevice) else task.measure
                work = partial(self._timed, station.device, do)
                station.tasks[self._watched(station.executor.submit(work))] = task

    def _task_for(self, device: Device) -> _Built | ForDevice | None:
        """A call that this device is to make, else the next build that is to be measured."""
        for call in self._for_devices:
            if device.uri == call.device.uri or call.device.uri in self.devices.retired:
                self._for_devices.remove(call)
                return call
        while self._ready:
            # What spills badly gives way to what does not.
            place = next((n for n, one in enumerate(self._ready) if not one.build.isa.spills_badly), 0)
            built = self._ready[place]
            del self._ready[place]
            built.measure = built.measure or built.lane.settle_build(built.outcome, built.build)
            if built.measure is not None:
                return built
        return None

    def _timed(self, device: Device, work: Callable[[Device], T] | None) -> T | None:
        """A device at work."""
        with clocked(self.seconds, "device"), clocked(self._spent, "device"), self.devices.busy(device):
            return work(device) if work is not None else None

    # --- what came of it ----------------------------------------------------------------------------------------

    def _follow(self, then: Next) -> None:
        """What a call comes to."""
        if isinstance(then, ForDevice):
            self._for_devices.append(then)
        elif isinstance(then, ForBuilder):
            self._call(then)
        elif then is not None:
            self._lanes.append(then)

    def _collect(self, done: set[Future[Any]], *, last: bool = False) -> None:
        """Takes up what is finished, in the order in which it was begun; what is cut off stays a row for --resume."""
        for future in [future for future in self._builds if future in done]:
            candidate = self._builds.pop(future)
            with suppress(OutOfTimeError):
                self._built(candidate, future.result())
        for station in self._stations:
            for future in [future for future in station.tasks if future in done]:
                task = station.tasks.pop(future)
                with suppress(OutOfTimeError):
                    self._came(station.device, task, future.result, last=last)

    def _built(self, candidate: tuple[Lane, Outcome] | None, came_to: Any) -> None:
        if candidate is None:
            self._follow(came_to)
            return
        self._built_seconds += came_to.seconds
        self.seconds["builders"] += came_to.seconds
        self._ready.append(_Built(*candidate, came_to))

    def _came(self, device: Device, task: _Built | ForDevice, result: Callable[[], Any], *, last: bool) -> None:
        """One candidate may take two devices down, not all of them."""
        try:
            came_to = result()
        except DeviceError as error:
            if isinstance(task, ForDevice) or not self.devices.retire(device, error.message):
                raise
            task.lost += 1
            if task.lost == 1:
                if not last:
                    self._ready.appendleft(task)
                return
            came_to = Measured(Check("run-error", math.inf, error.message))
        if isinstance(task, ForDevice):
            self._follow(came_to)
            return
        self._measured += 1
        task.lane.settle(task.outcome, came_to)

    # --- waiting ------------------------------------------------------------------------------------------------

    def _watched(self, future: Future[T]) -> Future[T]:
        """Its end wakes the pool, which looks at nothing that has not ended."""
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
