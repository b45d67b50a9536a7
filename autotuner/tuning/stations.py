"""The devices of a pool at work, each with a thread of its own, and what becomes of a candidate when one of them fails.

A module that does not run to its end says little where there are several devices: the module may be at fault, or the
device. Another device tries it. If it fails there too, the module is at fault; if it runs there, that counts against
the first device, which is retired when it has happened often enough.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.errors import DeviceError, OutOfTimeError
from autotuner.iree.run import failed_because
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.system.execution import local_executor

T = TypeVar("T")

FAULTS = 3
"""Candidates that failed on a device and ran on another, after which it is retired."""
AHEAD = 2
"""What is handed to a device's thread: one that runs, one that follows at once."""

Measure = Callable[[Device], Measured]
"""What a device does for one candidate; it may be called in another thread."""


@dataclass(eq=False)
class Task(Generic[T]):
    """A candidate that is built, until a device has measured it."""

    candidate: T
    measure: Measure
    tried: list[Station[T]] = field(default_factory=list)
    """Devices on which it did not come to its end."""
    failed: Measured | None = None
    """What the first of them said of it."""


@dataclass(eq=False)
class Station(Generic[T]):
    """A device at work."""

    device: Device
    executor: Executor | None = None
    """Its thread; None where devices take turns."""
    tasks: dict[Future[Measured], Task[T]] = field(default_factory=dict)
    steps: dict[Future[Any], Any] = field(default_factory=dict)
    """What is done before a search, and for which."""
    doubted: int = 0
    """Candidates that failed here, and that another device has not tried yet."""
    faults: int = 0
    """Candidates that failed here and ran elsewhere."""

    @property
    def load(self) -> int:
        return len(self.tasks) + len(self.steps)

    @property
    def trusted(self) -> bool:
        """Otherwise it gets nothing new until others have tried what failed here."""
        return self.faults + self.doubted < FAULTS


@dataclass(eq=False)
class Stations(Generic[T]):
    """All of them, with what goes from one to another."""

    devices: Devices
    settle: Callable[[T, Measured], None]
    """Is told what a device said of a candidate, once for each."""
    all: list[Station[T]] = field(init=False)
    moved: deque[Task[T]] = field(default_factory=deque, init=False)
    """Candidates that a device other than those that have tried them is to try."""
    _stack: ExitStack | None = field(default=None, init=False)
    """Ends the threads."""

    def __post_init__(self) -> None:
        self.all = [Station(device) for device in self.devices.all]

    @property
    def live(self) -> list[Station[T]]:
        """The least busy first; of these the one that has worked least."""
        known = {device.uri for device in self.devices.live}
        worked = self.devices.seconds
        found = [station for station in self.all if station.device.uri in known]
        return sorted(found, key=lambda one: (one.load, worked.get(one.device.uri, 0.0)))

    @property
    def load(self) -> int:
        return sum(station.load for station in self.all)

    def futures(self) -> set[Future[Any]]:
        return {future for station in self.all for future in (*station.tasks, *station.steps)}

    def start(self, stack: ExitStack) -> None:
        """Gives each its thread."""
        self._stack = stack
        for station in self.all:
            station.executor = stack.enter_context(local_executor(1))

    def take_in(self) -> None:
        """Devices that have joined since."""
        for device in self.devices.all[len(self.all) :]:
            executor = self._stack.enter_context(local_executor(1)) if self._stack else None
            self.all.append(Station(device, executor))

    def take_moved(self, station: Station[T]) -> Task[T] | None:
        """What this one is to try after another has failed."""
        task = next((task for task in self.moved if station not in task.tried), None)
        if task is not None:
            self.moved.remove(task)
        return task

    def came(self, station: Station[T], task: Task[T], result: Callable[[], Measured], *, last: bool = False) -> bool:
        """Takes up what a device came to; False where the deadline cut it off. With `last` no other device tries it: it
        stays a row that --resume finishes."""
        try:
            measured = result()
        except OutOfTimeError:
            return False
        except DeviceError as error:
            self._lost(station, task, error)
            return True
        if measured.died and not task.tried and self._another(station):
            task.failed = measured
            task.tried.append(station)
            station.doubted += 1
            if not last:
                self.moved.append(task)
            return True
        self._end(task, measured)
        return True

    def evacuate(self) -> list[Any]:
        """Moves what retired devices have not begun; gives the openings among it, which must know."""
        openings: list[Any] = []
        if not (self.devices.retired or self.moved):
            return openings
        live = self.live
        for station in self.all:
            if station in live:
                continue
            for future in [future for future in station.tasks if future.cancel()]:
                self.moved.append(station.tasks.pop(future))
            openings += [station.steps.pop(future) for future in list(station.steps) if future.cancel()]
        for task in [task for task in self.moved if all(station in task.tried for station in live)]:
            self.moved.remove(task)
            self._end(task, task.failed or _nowhere("the devices that tried it are retired"))
        return openings

    def cancel(self) -> None:
        """What has not begun does not."""
        for future in self.futures():
            future.cancel()

    def _another(self, station: Station[T]) -> bool:
        return any(one is not station for one in self.live)

    def _lost(self, station: Station[T], task: Task[T], error: DeviceError) -> None:
        """One candidate may take two devices down, not all of them."""
        if not self.devices.retire(station.device, error.message):
            raise error
        task.tried.append(station)
        if len(task.tried) > 1:
            self._end(task, task.failed or _nowhere(error.message))
        else:
            self.moved.append(task)

    def _end(self, task: Task[T], measured: Measured) -> None:
        if task.failed is not None:
            first = task.tried[0]
            first.doubted -= 1
            if not measured.died:
                self._blame(first, task.failed)
        self.settle(task.candidate, measured)

    def _blame(self, station: Station[T], failed: Measured) -> None:
        station.faults += 1
        if station.faults >= FAULTS:
            why = f"{FAULTS} candidates that failed there run on others; the last: {failed_because(failed.why)}"
            self.devices.retire(station.device, why)


def _nowhere(detail: str) -> Measured:
    return Measured(Check("run-error", math.inf, detail))
