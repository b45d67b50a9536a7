"""All devices of a command: how they are opened, which are at work, and which were retired and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from autotuner.devices.device import Device
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import open_resident
from autotuner.devices.sampling import open_sampler
from autotuner.errors import DeviceError
from autotuner.system.progress import clocked
from autotuner.system.settings import usable_cores
from autotuner.targets.backends import backend_on

T = TypeVar("T")
LOADERS = 4
"""Processes of a device that have the driver assemble modules ahead of their timing, at most."""


@dataclass(eq=False)
class Devices:
    """Devices of one kind, of which each has its own URI. A race stays on one of them: the first that is at work."""

    all: tuple[Device, ...]
    note: Callable[[str], None] = lambda _: None
    """Who is told of a device that is retired."""
    seconds: dict[str, float] = field(default_factory=dict, init=False)
    """By URI: how long each was at work."""
    _retired: dict[str, str] = field(default_factory=dict, init=False)
    _turns: count[int] = field(default_factory=count, init=False)

    @property
    def several(self) -> bool:
        """There is, or was, more than one."""
        return len(self.all) > 1

    @property
    def live(self) -> tuple[Device, ...]:
        return tuple(device for device in self.all if device.uri not in self._retired)

    @property
    def first(self) -> Device:
        """The one for what must stay on one device."""
        return self.live[0]

    @property
    def retired(self) -> Mapping[str, str]:
        """By URI: why."""
        return self._retired

    def in_turn(self) -> Device:
        """Another one each time: for work that any of them can do."""
        return self.live[next(self._turns) % len(self.live)]

    def retire(self, device: Device, why: str) -> bool:
        """It gets no more work; False where it is the last: then what it says is the end of the run."""
        if device.uri in self._retired:
            return True
        if len(self.live) == 1:
            return False
        self._retired[device.uri] = why
        self.note(_words(device.uri, why))
        return True

    def on_one(self, device: Device, work: Callable[[Device], T]) -> T:
        """What must stay on one device: on this one, or on another that works where this does not."""
        if device.uri in self._retired:
            device = self.first
        try:
            return work(device)
        except DeviceError as error:
            other = next((one for one in self.live if one.uri != device.uri), None)
            if other is None:
                raise
            found = work(other)
            self.retire(device, error.message)
            return found

    @contextmanager
    def busy(self, device: Device) -> Iterator[None]:
        """Counts the time of a block as this device's; one thread has it at a time."""
        self.seconds.setdefault(device.uri, 0.0)
        with clocked(self.seconds, device.uri):
            yield

    def open(self) -> None:
        """Makes sure that they are there; those that do not answer are retired, DeviceError where none does."""
        for device in self.all:
            try:
                device.open()
            except DeviceError as error:
                if not self.retire(device, error.message):
                    raise

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user must know of them."""
        return tuple(_words(uri, why) for uri, why in self._retired.items())

    def to_json(self) -> list[dict[str, Any]]:
        """What became of each."""
        return [
            {
                "device": device.uri,
                "seconds": round(self.seconds.get(device.uri, 0.0), 3),
                "retired": self._retired.get(device.uri),
            }
            for device in self.all
        ]


def _words(uri: str, why: str) -> str:
    return f"device {uri} is retired, and the others do its work: {why}"


@contextmanager
def open_device(alone: ProcessDevice, *, isolate: bool) -> Iterator[Device]:
    """One that stays open, unless the user wants a process for every call or has programs of another build of IREE:
    Python's runtime may not read what that build's compiler writes."""
    watched = replace(alone, sampler=open_sampler(alone.uri))
    if isolate or not alone.tools.share_the_runtime:
        yield watched
        return
    backend = backend_on(alone.uri)
    under_load = backend is not None and not backend.on_host
    loaders = min(LOADERS, usable_cores() // 4) if backend is not None and backend.assembled_on_load else 0
    with open_resident(watched, under_load=under_load, loaders=loaders) as resident:
        yield resident
