"""Builds and timings: many builds at once, one timing at a time on each device, for one search or for many.

On GPUs both go on at once: each device has a thread of its own and takes whichever build is finished first. On the
processor that is timed they take turns, and the turns are short; so do several devices that are this processor.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar

from autotuner.build import Compiled
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.measure.screening import Measured
from autotuner.measure.steps import Step, Steps, following
from autotuner.system.execution import in_a_thread
from autotuner.system.process import behind_timings
from autotuner.system.progress import clocked
from autotuner.tuning.ahead import Ahead
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.stations import AHEAD, Measure, Station, Stations, Task

T = TypeVar("T")

WORK = ("device", "builders", "loop")
"""Seconds that a pool counts: all devices at work, all builds together, and the wall time of both."""
TURN_SECONDS = 1.0
"""Where builds and timings take turns: no build is begun so long after the first of its turn."""
_READY = 2
"""Finished builds that wait for each device beside those in its thread, so that it never waits for them."""
_GLANCE = 0.2
"""Seconds after which a request to stop is seen."""
_MARGIN = 1.5
"""Builds take unequally long: so much more than their mean is kept under way."""


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


Opening = Steps[Lane | None]
"""What must be done before a lane can be asked; it comes to nothing where there is nothing to search."""


@dataclass(frozen=True)
class Unopened:
    """A lane that can be opened, and what that is worth now; a lane's worth is compared with it."""

    steps: Opening
    worth: Callable[[], float] = lambda: math.inf


@dataclass(frozen=True)
class _Built:
    lane: Lane
    outcome: Outcome
    build: Compiled


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
    ahead: Ahead | None = None
    """Kernels that are made where builders have nothing else to do."""
    _lanes: list[Lane] = field(default_factory=list, init=False)
    _unopened: deque[Unopened] = field(default_factory=deque, init=False)
    _builds: dict[Future[Compiled], tuple[Lane, Outcome]] = field(default_factory=dict, init=False)
    _steps: dict[Future[Any], Opening] = field(default_factory=dict, init=False)
    _for_device: deque[tuple[Opening, Step]] = field(default_factory=deque, init=False)
    _for_builders: deque[tuple[Opening, Step]] = field(default_factory=deque, init=False)
    _ready: deque[_Built] = field(default_factory=deque, init=False)
    _put_off: set[int] = field(default_factory=set, init=False)
    """Rows of candidates that gave way to others because they spill."""
    _ended: SimpleQueue[Future[Any]] = field(default_factory=SimpleQueue, init=False)
    _stations: Stations[_Built] = field(init=False)
    _measured: int = field(default=0, init=False)
    _built_seconds: float = field(default=0.0, init=False)
    _spent: dict[str, float] = field(default_factory=lambda: {"device": 0.0}, init=False)

    def __post_init__(self) -> None:
        self._stations = Stations(self.devices, self._settle)

    def run(self, lanes: Iterable[Lane] = (), unopened: Iterable[Unopened] = ()) -> None:
        """Works on these lanes, and on those that are opened meanwhile, the first first."""
        self._lanes, self._unopened = [*lanes], deque(unopened)
        for step in ("build", *WORK):
            self.seconds.setdefault(step, 0.0)
        with clocked(self.seconds, "loop"):
            try:
                self._side_by_side() if self.overlapped else self._in_turns()
            finally:
                for future in (*self._builds, *self._steps):
                    future.cancel()

    # --- at once ------------------------------------------------------------------------------------------------

    def _side_by_side(self) -> None:
        stations = self._stations
        with ExitStack() as stack:
            stations.start(stack)
            while not self.over():
                self._evacuate()
                with behind_timings():
                    self._begin()
                self._make_ahead()
                for station in stations.live if self._for_device or self._ready or stations.moved else ():
                    while station.load < AHEAD and self._hand_over(station):
                        pass
                if not (self._builds or self._steps or stations.load or stations.moved):
                    break
                with self._waiting(idle=not stations.load):
                    done = self._wait()
                self._collect(done)
                self._take_up(done)
            stations.cancel()
        for station in stations.all:
            for future, task in station.tasks.items():
                if not future.cancelled():
                    stations.came(station, task, future.result, last=True)

    def _hand_over(self, station: Station[_Built]) -> bool:
        """Gives a device its next work; False when there is none."""
        if station.executor is None:
            return False
        if (waiting := self._step_for(station)) is not None:
            opening, step = waiting
            station.steps[self._watched(station.executor.submit(self._timed, station, step.do))] = opening
            return True
        if (task := self._task_for(station)) is None:
            return False
        work = partial(task.measure, station.device)
        station.tasks[self._watched(station.executor.submit(self._timed, station, work))] = task
        return True

    def _take_up(self, done: set[Future[Any]]) -> None:
        """What devices have come to."""
        for station in self._stations.all:
            for future in [future for future in station.steps if future in done]:
                self._advance(station.steps.pop(future), future.result)
            for future in [future for future in station.tasks if future in done]:
                self._stations.came(station, station.tasks.pop(future), future.result)

    @property
    def _depth(self) -> int:
        """Builds under way and waiting: as many as keep the devices busy, and no more than keep the cores busy. A
        longer queue would only make the search ask before it has been told."""
        keep_up, devices = math.inf, len(self.devices.live)
        spent = self._spent["device"]
        if self._measured and spent:
            keep_up = math.ceil(_MARGIN * devices * self._built_seconds / spent)
        return int(min(self.jobs, keep_up)) + (AHEAD + _READY) * max(devices, 1)

    # --- in turns -----------------------------------------------------------------------------------------------

    def _in_turns(self) -> None:
        """Never compile on the cores that are being timed."""
        while True:
            begun = self._build_turn()
            if not (begun or self._ready or self._for_device or self._stations.moved):
                return
            if not self._device_turn() or self.over():
                return

    def _build_turn(self) -> int:
        """About as many builds as there are builders, and more only while the turn is young."""
        ends = monotonic() + TURN_SECONDS
        begun = 0
        while True:
            busy = len(self._builds) + len(self._steps)
            if busy < self.jobs and (begun < self.jobs or (monotonic() < ends and not self.over())):
                begun += self._begin_some(self.jobs - busy)
            if self._builds or self._steps:
                self._make_ahead()
            elif self.ahead is None or not self.ahead.under_way:
                return begun
            with self._waiting(idle=True):
                done = self._wait()
            self._collect(done)

    def _device_turn(self) -> bool:
        """One device after another, each with one thing, until nothing is left; False when the time is up."""
        busy = True
        while busy:
            busy = False
            for station in self._stations.live:
                self._evacuate()
                if station.device.uri in self.devices.retired:
                    continue
                if (waiting := self._step_for(station)) is not None:
                    opening, step = waiting
                    self._advance(opening, partial(self._timed, station, step.do))
                elif (task := self._task_for(station)) is not None:
                    measure = partial(self._timed, station, partial(task.measure, station.device))
                    if not self._stations.came(station, task, measure):
                        return False  # what is left in the queue stays a row that --resume finishes
                else:
                    continue
                busy = True
                if self.over():
                    return False
        return True

    # --- what devices do ----------------------------------------------------------------------------------------

    def _step_for(self, station: Station[_Built]) -> tuple[Opening, Step] | None:
        """What this device is to do before a search can begin."""
        for waiting in self._for_device:
            if (waiting[1].device or self.devices.first).uri == station.device.uri:
                self._for_device.remove(waiting)
                return waiting
        return None

    def _task_for(self, station: Station[_Built]) -> Task[_Built] | None:
        """What another device has failed at, else the next build that is to be measured."""
        if (task := self._stations.take_moved(station)) is not None:
            return task
        trusted = station.trusted or len(self.devices.live) == 1
        while trusted and (built := self._next()) is not None:
            if (measure := built.lane.settle_build(built.outcome, built.build)) is not None:
                return Task(built, measure)
        return None

    def _evacuate(self) -> None:
        """What retired devices were to do goes to others, and to those that have joined."""
        self._stations.take_in()
        lost = self._stations.evacuate()
        for waiting in [one for one in self._for_device if one[1].device and one[1].device.uri in self.devices.retired]:
            self._for_device.remove(waiting)
            lost.append(waiting[0])
        for opening in lost:
            self._advance(opening, _retired)

    def _settle(self, built: _Built, measured: Measured) -> None:
        self._measured += 1
        built.lane.settle(built.outcome, measured)

    # --- builds -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """As many openings and builds as the queue has room for."""
        stations = self._stations
        waiting = len(self._ready) + stations.load + len(stations.moved)
        self._begin_some(self._depth - len(self._builds) - len(self._steps) - waiting)

    def _begin_some(self, room: int) -> int:
        """What is worth most, each time; what is being opened goes on in any case."""
        begun = 0
        while begun < room and self._for_builders:
            opening, step = self._for_builders.popleft()
            self._steps[self._watched(in_a_thread(step.do))] = opening
            begun += 1
        while begun < room:
            lane = max((lane for lane in self._lanes if lane.room > 0), key=lambda lane: lane.worth, default=None)
            if self._may_open and (lane is None or self._unopened[0].worth() > lane.worth):
                begun += self._open(self._unopened.popleft().steps)
                continue
            if lane is None:
                break
            started = lane.ask(min(lane.room, max(1, (room - begun) // 2)))
            for outcome, future in started:
                self._builds[self._watched(future)] = (lane, outcome)
            begun += len(started)
        return begun

    def _make_ahead(self) -> None:
        """On the cores that are left: nothing waits for these, but for the next timing on the same cores."""
        if self.ahead is not None and not self.over():
            for future in self.ahead.begin(self.jobs - len(self._builds) - len(self._steps)):
                self._watched(future)

    @property
    def _may_open(self) -> bool:
        stations = self._stations.all
        return bool(self._unopened) and len(self._steps) + sum(len(one.steps) for one in stations) < self.jobs

    def _open(self, opening: Opening) -> int:
        """Begins it; how many builders that takes."""
        self._advance(opening, None)
        if not self._for_builders:
            return 0
        _, step = self._for_builders.pop()
        self._steps[self._watched(in_a_thread(step.do))] = opening
        return 1

    def _collect(self, done: Iterable[Future[Any]]) -> None:
        """Takes up what is finished, in the order in which it was begun."""
        finished = set(done)
        for future in [future for future in self._builds if future in finished]:
            lane, outcome = self._builds.pop(future)
            try:
                build = future.result()
            except OutOfTimeError:  # cut off by the deadline: --resume finishes it
                continue
            self._built_seconds += build.seconds
            self.seconds["builders"] += build.seconds
            self._ready.append(_Built(lane, outcome, build))
        for step in [step for step in self._steps if step in finished]:
            self._advance(self._steps.pop(step), step.result)

    def _advance(self, opening: Opening, came_to: Callable[[], Any] | None) -> None:
        """The next step of an opening, given what the last one came to."""
        try:
            step = next(opening) if came_to is None else following(opening, came_to)
        except StopIteration as end:
            if end.value is not None:
                self._lanes.append(end.value)
            return
        waiting = self._for_device if step.where == "device" else self._for_builders
        waiting.append((opening, step))

    def _next(self) -> _Built | None:
        """The build that is measured next. One that spills badly gives way, once, when a better one is finished."""
        if not self._ready:
            return None
        first = self._ready.popleft()
        if first.build.isa.spills_badly and first.outcome.row not in self._put_off:
            better = next((i for i, other in enumerate(self._ready) if not other.build.isa.spills_badly), None)
            if better is not None:
                self._put_off.add(first.outcome.row)
                self._ready.append(first)
                first = self._ready[better]
                del self._ready[better]
        return first

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

    # --- the clock ----------------------------------------------------------------------------------------------

    def _timed(self, station: Station[_Built], work: Callable[[], T]) -> T:
        """A device at work."""
        with clocked(self.seconds, "device"), clocked(self._spent, "device"), self.devices.busy(station.device):
            return work()

    @contextmanager
    def _waiting(self, *, idle: bool) -> Iterator[None]:
        """For builds, where the device has nothing to do meanwhile."""
        with clocked(self.seconds if idle else {"build": 0.0}, "build"):
            yield


def _retired() -> None:
    """What a step comes to whose device was retired before it began."""
    raise DeviceError("the device is retired.", remedy="Another one does its work.")
