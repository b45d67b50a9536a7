"""Builds and timings: many builds at once, one timing at a time, for one search or for many that share a device.

On a GPU both go on at once: the device has a thread of its own and takes whichever build is finished first. On the
processor that is timed they take turns, and the turns are short.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from autotuner.build import Compiled
from autotuner.errors import OutOfTimeError
from autotuner.system.execution import in_a_thread, local_executor
from autotuner.system.process import behind_timings
from autotuner.system.progress import clocked
from autotuner.tuning.evaluate import Measured, Outcome
from autotuner.tuning.steps import Step, Steps

T = TypeVar("T")

WORK = ("device", "builders", "loop")
"""Seconds that a pool counts: the device at work, all builds together, and the wall time of both."""
TURN_SECONDS = 1.0
"""Where builds and timings take turns: no build is begun so long after the first of its turn."""
_READY = 4
"""Finished builds that wait for the device, so that it never waits for them."""
_ON_DEVICE = 2
"""Timings handed to the device's thread: one that runs, one that follows at once."""
_GLANCE = 0.2
"""Seconds after which a request to stop is seen."""
_MARGIN = 1.5
"""Builds take unequally long: so much more than their mean is kept under way."""


Measure = Callable[[], Measured]
"""What the device does for one candidate; it may be called in another thread."""


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
        """Writes the build down; what the device has to do for it, where it is to be measured."""

    def settle(self, outcome: Outcome, measured: Measured) -> None:
        """Writes down what the device said, and tells the search."""


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
    """The builders and the device, at work until nothing is left to ask or the time is over."""

    jobs: int
    overlapped: bool
    over: Callable[[], bool]
    seconds: dict[str, float]
    """Those of WORK are added to, and `build`: waiting for builds while the device is idle."""
    _lanes: list[Lane] = field(default_factory=list, init=False)
    _unopened: deque[Unopened] = field(default_factory=deque, init=False)
    _builds: dict[Future[Compiled], tuple[Lane, Outcome]] = field(default_factory=dict, init=False)
    _steps: dict[Future[Any], Opening] = field(default_factory=dict, init=False)
    _for_device: deque[tuple[Opening, Step]] = field(default_factory=deque, init=False)
    _for_builders: deque[tuple[Opening, Step]] = field(default_factory=deque, init=False)
    _ready: deque[_Built] = field(default_factory=deque, init=False)
    _put_off: set[int] = field(default_factory=set, init=False)
    """Rows of candidates that gave way to others because they spill."""
    _measured: int = field(default=0, init=False)
    _built_seconds: float = field(default=0.0, init=False)
    _device_seconds: float = field(default=0.0, init=False)

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
        running: dict[Future[Measured], _Built] = {}
        with local_executor(1) as device:
            while not self.over():
                with behind_timings():
                    self._begin(len(running))
                while len(running) < _ON_DEVICE and self._hand_over(device, running):
                    pass
                if not (self._builds or self._steps or running):
                    break
                with self._waiting(idle=not running):
                    done, _ = wait({*self._builds, *self._steps, *running}, _GLANCE, FIRST_COMPLETED)
                self._collect(done)
                for future in [future for future in running if future in done]:
                    self._settle(running.pop(future), future)
            for future in (*running, *self._steps):
                future.cancel()
        for future, built in running.items():
            if not future.cancelled():
                self._settle(built, future)

    def _hand_over(self, device: Executor, running: dict[Future[Measured], _Built]) -> bool:
        """Gives the device its next work; False when there is none."""
        if self._for_device:
            opening, step = self._for_device.popleft()
            self._steps[device.submit(self._timed, step.do)] = opening
            return True
        if (built := self._next()) is None:
            return False
        if (measure := built.lane.settle_build(built.outcome, built.build)) is not None:
            running[device.submit(self._timed, measure)] = built
        return True

    def _settle(self, built: _Built, future: Future[Measured]) -> None:
        try:
            measured = future.result()
        except OutOfTimeError:  # cut off by the deadline: --resume finishes it
            return
        self._measured += 1
        built.lane.settle(built.outcome, measured)

    @property
    def _depth(self) -> int:
        """Builds under way and waiting: as many as keep the device busy, and no more than keep the cores busy. A longer
        queue would only make the search ask before it has been told."""
        keep_up = math.inf
        if self._measured and self._device_seconds:
            keep_up = math.ceil(_MARGIN * self._built_seconds / self._device_seconds)
        return int(min(self.jobs, keep_up)) + _READY

    # --- in turns -----------------------------------------------------------------------------------------------

    def _in_turns(self) -> None:
        """Never compile on the cores that are being timed."""
        while True:
            begun = self._build_turn()
            if not begun and not self._ready and not self._for_device:
                return
            while self._for_device and not self.over():
                opening, step = self._for_device.popleft()
                self._advance(opening, partial(self._timed, step.do))
            while (built := self._next()) is not None:
                if not self._measure_here(built) or self.over():
                    return
            if self.over():
                return

    def _build_turn(self) -> int:
        """About as many builds as there are builders, and more only while the turn is young."""
        ends = time.monotonic() + TURN_SECONDS
        begun = 0
        while True:
            busy = len(self._builds) + len(self._steps)
            if busy < self.jobs and (begun < self.jobs or (time.monotonic() < ends and not self.over())):
                begun += self._begin_some(self.jobs - busy)
            if not (self._builds or self._steps):
                return begun
            with self._waiting(idle=True):
                done, _ = wait({*self._builds, *self._steps}, _GLANCE, FIRST_COMPLETED)
            self._collect(done)

    def _measure_here(self, built: _Built) -> bool:
        """False when the time is up."""
        if (measure := built.lane.settle_build(built.outcome, built.build)) is not None:
            try:
                measured = self._timed(measure)
            except OutOfTimeError:  # what is left in the queue stays a row that --resume finishes
                return False
            built.lane.settle(built.outcome, measured)
        return True

    # --- builds -------------------------------------------------------------------------------------------------

    def _begin(self, running: int) -> None:
        """As many openings and builds as the queue has room for."""
        self._begin_some(self._depth - len(self._builds) - len(self._steps) - len(self._ready) - running)

    def _begin_some(self, room: int) -> int:
        """What is worth most, each time; what is being opened goes on in any case."""
        begun = 0
        while begun < room and self._for_builders:
            opening, step = self._for_builders.popleft()
            self._steps[in_a_thread(step.do)] = opening
            begun += 1
        while begun < room:
            lane = max((lane for lane in self._lanes if lane.room > 0), key=lambda lane: lane.worth, default=None)
            may_open = self._unopened and len(self._steps) < self.jobs
            if may_open and (lane is None or self._unopened[0].worth() > lane.worth):
                begun += self._open(self._unopened.popleft().steps)
                continue
            if lane is None:
                break
            started = lane.ask(min(lane.room, max(1, (room - begun) // 2)))
            for outcome, future in started:
                self._builds[future] = (lane, outcome)
            begun += len(started)
        return begun

    def _open(self, opening: Opening) -> int:
        """Begins it; how many builders that takes."""
        self._advance(opening, None)
        if not self._for_builders:
            return 0
        _, step = self._for_builders.pop()
        self._steps[in_a_thread(step.do)] = opening
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
            if came_to is None:
                step = next(opening)
            else:
                try:
                    value = came_to()
                except Exception as error:
                    step = opening.throw(error)
                else:
                    step = opening.send(value)
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

    # --- the clock ----------------------------------------------------------------------------------------------

    def _timed(self, work: Callable[[], T]) -> T:
        """The device at work."""
        started = time.monotonic()
        try:
            return work()
        finally:
            spent = time.monotonic() - started
            self._device_seconds += spent
            self.seconds["device"] += spent

    @contextmanager
    def _waiting(self, *, idle: bool) -> Iterator[None]:
        """For builds, where the device has nothing to do meanwhile."""
        with clocked(self.seconds if idle else {"build": 0.0}, "build"):
            yield
