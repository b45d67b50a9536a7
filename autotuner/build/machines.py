"""The machines of a command, which build and time, here or in a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from autotuner.build.builder import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.devices.environment import described
from autotuner.devices.many import Devices, open_device
from autotuner.devices.process import ProcessDevice
from autotuner.microkernels.variants import kernel_chip
from autotuner.system.locks import device_lock
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets import NO_DEVICE, Target
from autotuner.targets.naming import iree_uri, require_one_kind

_PROCESSOR = Target.parse("cpu").device
"""The processor, which is always there: it is not opened before the builds."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """The options of a command that choose machines."""

    target: Target
    device: str | None
    """The words of `--device`; None: the target's first device."""
    jobs: int | None
    """Builds at once; None: as many as there are usable cores."""
    isolate: bool


@dataclass(frozen=True)
class Machines:
    """The executor and the devices of a command."""

    named: str
    """The device's name in a run's row."""
    executor: BuildExecutor
    devices: Devices
    jobs: int
    """Builds at once."""
    shares_cores: bool
    """Builds and timings share the processor, so they take turns."""
    chip: str
    """The chip of microkernels."""
    waited: float = 0.0
    """Seconds that this run waited for a device; they do not count against its budget."""
    environment: Mapping[str, Any] | None = None
    """The environment of a remote device; None: it is this machine's."""


@runtime_checkable
class Elsewhere(Protocol):
    """Other machines: a cluster."""

    def machines(self, builder: Builder, wanted: Wanted, *, note: Note) -> AbstractContextManager[Machines]:
        """The machines, for the length of a command."""


@contextmanager
def machines_here(
    builder: Builder, wanted: Wanted, *, note: Note, given_up: Callable[[], bool] = lambda: False
) -> Iterator[Machines]:
    """This machine's processes; a device that another run has is waited for."""
    target = wanted.target
    names, jobs, waited = target.choose_devices(wanted.device), wanted.jobs or usable_cores(), 0.0
    with ExitStack() as stack:
        executor = stack.enter_context(BuildExecutor.local(builder, jobs))
        if names != (NO_DEVICE,):
            waiting = time.monotonic()
            for uri in sorted({iree_uri(name) for name in names}):
                stack.enter_context(device_lock(uri, cache_dir(), on_wait=note, given_up=given_up))
            waited = time.monotonic() - waiting
        scratch = stack.enter_context(builder.cache.scratch())
        shared = target.compiles_on_device
        alone = [ProcessDevice(builder.tools, name, scratch) for name in names]
        opened = (stack.enter_context(open_device(one, isolate=wanted.isolate)) for one in alone)
        devices = Devices(tuple(opened), note)
        if names not in ((NO_DEVICE,), (_PROCESSOR,)):
            devices.open()  # a missing device is reported before anything is compiled for it
        if devices.several:
            require_one_kind({device.uri: described(device.uri).name for device in devices.live})
        named = ",".join(map(iree_uri, names))
        yield Machines(named, executor, devices, jobs, shared, kernel_chip(target, names[0]), waited)
