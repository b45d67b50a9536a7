"""All devices of a command: opens them, shares out work, and retires those that fail."""

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
"""The most processes of a device that load modules before their timing, so that the driver has assembled them."""


@dataclass(eq=False)
class Devices:
    """Devices of one kind, each with its own URI. A race stays on one: the first that is not retired."""

    all: tuple[Device, ...]
    note: Callable[[str], None] = lambda _: None
    """Reports a retired device."""
    seconds: dict[str, float] = field(default_factory=dict, init=False)
    """Busy seconds by URI."""
    _retired: dict[str, str] = field(default_factory=dict, init=False)
    _turns: count[int] = field(default_factory=count, init=False)

    @property
    def several(self) -> bool:
        """Whether there is, or was, more than one."""
        return len(self.all) > 1

    @property
    def live(self) -> tuple[Device, ...]:
        return tuple(device for device in self.all if device.uri not in self._retired)

    @property
    def first(self) -> Device:
        """The device for work that must stay on one."""
        return self.live[0]

    @property
    def retired(self) -> Mapping[str, str]:
        """Reasons by URI."""
        return self._retired

    def in_turn(self) -> Device:
        """The next device, in turn, for work that any can do."""
        return self.live[next(self._turns) % len(self.live)]

    def retire(self, device: Device, why: str) -> bool:
        """Retires a device; False where it is the last, whose error ends the run."""
        if device.uri in self._retired:
            return True
        if len(self.live) == 1:
            return False
        self._retired[device.uri] = why
        self.note(_words(device.uri, why))
        return True

    def on_one(self, device: Device, work: Callable[[Device], T]) -> T:
        """Does work that must stay on one device; on the next where this one fails."""
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
        """Counts the time of a block as this device's, for one thread at a time."""
        self.seconds.setdefault(device.uri, 0.0)
        with clocked(self.seconds, device.uri):
            yield

    def open(self) -> None:
        """Opens all devices, and retires those that do not answer; DeviceError where none does."""
        for device in self.all:
            try:
                device.open()
            except DeviceError as error:
                if not self.retire(device, error.message):
                    raise

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on retired devices."""
        return tuple(_words(uri, why) for uri, why in self._retired.items())

    def to_json(self) -> list[dict[str, Any]]:
        """The state of each device."""
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
    """Opens a device that stays open, unless the user wants a process for every call or has another build of IREE,
    whose modules Python's runtime may not read."""
    watched = replace(alone, sampler=open_sampler(alone.uri))
    if isolate or not alone.tools.share_the_runtime:
        yield watched
        return
    backend = backend_on(alone.uri)
    under_load = backend is not None and not backend.on_host
    loaders = min(LOADERS, usable_cores() // 4) if backend is not None and backend.assembled_on_load else 0
    with open_resident(watched, under_load=under_load, loaders=loaders) as resident:
        yield resident
