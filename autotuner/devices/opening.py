"""Which implementation a command's device gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import open_resident
from autotuner.devices.sampled import SampledDevice
from autotuner.devices.sampling import open_sampler
from autotuner.system.settings import usable_cores
from autotuner.targets.backends import backend_on

LOADERS = 4
"""Processes of a device that have the driver assemble modules ahead of their timing, at most."""


@contextmanager
def open_devices(
    alone: Sequence[ProcessDevice], *, isolate: bool, state: DeviceState, note: Callable[[str], None]
) -> Iterator[Devices]:
    """All devices of a command."""
    with ExitStack() as stack:
        yield Devices(tuple(stack.enter_context(open_device(one, isolate=isolate, state=state)) for one in alone), note)


@contextmanager
def open_device(alone: ProcessDevice, *, isolate: bool, state: DeviceState = "sustained") -> Iterator[Device]:
    """One that stays open, unless the user wants a process for every call or has programs of another build of IREE:
    Python's runtime may not read what that build's compiler writes."""
    sampler = open_sampler(alone.uri)
    if isolate or not alone.tools.share_the_runtime:
        yield SampledDevice(alone, sampler)
        return
    backend = backend_on(alone.uri)
    under_load = backend is not None and not backend.on_host
    loaders = min(LOADERS, usable_cores() // 4) if backend is not None and backend.assembled_on_load else 0
    with open_resident(alone, state=state, under_load=under_load, loaders=loaders) as resident:
        yield SampledDevice(resident, sampler)
