"""Where a command's work is done: by processes of this machine, or by the workers of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.cluster.address import Scheduler, need_dask
from autotuner.devices.environment import described
from autotuner.devices.many import Devices, open_devices
from autotuner.devices.process import ProcessDevice
from autotuner.microkernels.variants import kernel_chip
from autotuner.system.execution import local_executor
from autotuner.system.locks import device_lock
from autotuner.system.progress import Stop
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets import NO_DEVICE, Target
from autotuner.targets.naming import iree_uri, require_one_kind
from autotuner.tuning.options import Options

_PROCESSOR = Target.parse("cpu").device
"""It is there: its process need not be waited for."""
_ANSWERS = 2
"""Threads that write modules that come from workers."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Machines:
    """Who builds and who times."""

    named: str
    """As a run's row names what is timed on."""
    executor: BuildExecutor
    devices: Devices
    jobs: int
    """Builds at once."""
    shares_cores: bool
    """Builds would disturb timings: they are on the same processor."""
    chip: str
    """What microkernels are for."""
    waited: float = 0.0
    """Seconds for a device that another run had: they are not this run's."""
    environment: Mapping[str, Any] | None = None
    """Of a device elsewhere; None: it is this machine's."""

    @classmethod
    @contextmanager
    def open(cls, builder: Builder, target: Target, options: Options, *, note: Note, stop: Stop) -> Iterator[Machines]:
        opened = (
            cls._here(builder, target, options, note, stop)
            if options.cluster is None
            else cls._elsewhere(options.cluster, builder, target, options, note)
        )
        with opened as machines:
            yield machines

    @classmethod
    @contextmanager
    def _here(cls, builder: Builder, target: Target, options: Options, note: Note, stop: Stop) -> Iterator[Machines]:
        names, jobs, waited = target.choose_devices(options.device), options.jobs or usable_cores(), 0.0
        with ExitStack() as stack:
            executor = stack.enter_context(BuildExecutor.local(builder, jobs))
            if names != (NO_DEVICE,):
                waiting = time.monotonic()
                for uri in sorted({iree_uri(name) for name in names}):
                    lock = device_lock(uri, cache_dir(), on_wait=note, given_up=lambda: stop.requested)
                    stack.enter_context(lock)
                waited = time.monotonic() - waiting
            scratch = stack.enter_context(builder.cache.scratch())
            shared = target.compiles_on_device
            alone = [ProcessDevice(builder.tools, name, scratch, starts_quickly=shared) for name in names]
            opening = open_devices(alone, isolate=options.isolate, note=note)
            devices = stack.enter_context(opening)
            if names not in ((NO_DEVICE,), (_PROCESSOR,)):
                devices.open()  # a device that is not there is told before anything is compiled for it
            if devices.several:
                require_one_kind({device.uri: described(device.uri).name for device in devices.live})
            chip = kernel_chip(target, names[0])
            yield cls(",".join(map(iree_uri, names)), executor, devices, jobs, shared, chip, waited)

    @classmethod
    @contextmanager
    def _elsewhere(
        cls, scheduler: Scheduler, builder: Builder, target: Target, options: Options, note: Note
    ) -> Iterator[Machines]:
        """With a cluster `--device` names a model of devices, not one of this machine's."""
        need_dask()
        from autotuner.cluster.coordinator import Cluster
        from autotuner.cluster.facts import Facts

        timed = target.choose_device(None if options.device != NO_DEVICE else NO_DEVICE) != NO_DEVICE
        wanted, tools = options.device or "" if timed else "", builder.tools
        with ExitStack() as stack:
            here = stack.enter_context(local_executor(options.jobs or usable_cores()))
            answers = stack.enter_context(local_executor(_ANSWERS))
            own = Facts.of_this_machine(tools, builds=0)
            cluster = stack.enter_context(Cluster.open(scheduler, own, target, timed=timed, wanted=wanted, note=note))
            executor, jobs = cluster.executor(builder, here, answers), options.jobs or cluster.jobs
            if not timed:
                nowhere = ProcessDevice(tools, NO_DEVICE, stack.enter_context(builder.cache.scratch()))
                yield cls(NO_DEVICE, executor, Devices((nowhere,)), jobs, shares_cores=False, chip=target.kernel_chip)
                return
            waiting = time.monotonic()
            devices = Devices(tuple(stack.enter_context(cluster.devices(isolate=options.isolate))), note)
            waited = time.monotonic() - waiting
            environment = {**cluster.environment, "cluster": scheduler.address}
            shares, chip = cluster.roster.shares_cores, cluster.chip or target.kernel_chip
            yield cls(target.device, executor, devices, jobs, shares, chip, waited, environment)
