"""A worker process: joins a scheduler, reports its facts, builds, and lends its device to a coordinator."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import get_ip

from autotuner.build.builder import Builder, BuildJob
from autotuner.build.executor import Answer, work
from autotuner.cluster.address import JOIN_SECONDS, PLUGIN, Scheduler
from autotuner.cluster.facts import FACTS, Facts
from autotuner.devices.conditions import DeviceState
from autotuner.devices.device import Computed, Device, LiveCalls
from autotuner.devices.many import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import DeviceError, UsageError
from autotuner.iree.tools import Tools
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.locks import device_lock
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets.backends import BACKENDS, backend_on

QUIET = {
    # Nothing but the scheduler's and the coordinators' connections is listened for, and nobody looks at profiles.
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    # Dask looks fifty times a second whether it is late, and twice how much memory there is: a device is timed here.
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}
"""Dask's settings for a worker."""


@dataclass(eq=False)
class WorkerState(WorkerPlugin):  # type: ignore[misc]
    """A worker's builder, its files and its device, as `on_worker` calls them."""

    builder: Builder
    uri: str = ""
    """The device's URI; empty: there is none."""
    folder: Path = Path()
    """The folder of sent files, in Dask's, which is removed with the worker, at the latest at the next start."""
    name: str = PLUGIN
    _open: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _device: Device | None = field(default=None, init=False, repr=False)
    _for: str = field(default="", init=False, repr=False)
    """The coordinator that has the device."""
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def setup(self, worker: Worker) -> None:
        self.folder = Path(worker.local_directory)

    def teardown(self, worker: Worker) -> None:
        """Ends the device's process."""
        del worker
        self.close(self._for)

    def build(self, job: BuildJob, key: str, left: float) -> Answer:
        """Builds a job; `left` are the coordinator's remaining seconds."""
        with process.until(time.monotonic() + left):
            return work(job, key, self.builder)

    def put(self, name: str, offset: int, data: bytes, last: bool) -> None:
        """Writes a piece of a file, which gets its name with the last piece."""
        part = self.folder / f"{name}.part"
        with part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)
        if last:
            part.rename(self.folder / name)

    def open(self, session: str, isolate: bool) -> tuple[Path, str, DeviceState, float]:
        """Opens the device for a coordinator with the lease, so its predecessor is gone.

        Returns the folder of files, the device's URI, its state, and the shortest invocation.
        """
        cache = self.builder.cache
        with self._lock, ExitStack() as stack:
            self.close(self._for)
            stack.enter_context(device_lock(self.uri, cache.root, timeout=1.0))
            alone = ProcessDevice(self.builder.tools, self.uri, stack.enter_context(cache.scratch()))
            device = stack.enter_context(open_device(alone, isolate=isolate))
            device.open()
            self._device, self._for, self._open = device, session, stack.pop_all()
            return self.folder, self.uri, device.state, device.invocation_us

    def close(self, session: str) -> None:
        """Ends the device's process, unless another coordinator has it by now."""
        with self._lock:
            if self._for == session:
                self._device, self._for = None, ""
                self._open.close()

    def ask(
        self,
        session: str,
        method: str,
        words: tuple[Any, ...],
        named: Mapping[str, Any],
        isolated: bool,
        left: float,
        known: frozenset[str],
    ) -> Any:
        """Calls methods of the device, one at a time; results of `known` digests come without their bytes."""
        with self._lock, process.until(time.monotonic() + left):
            if self._device is None or self._for != session:
                raise DeviceError("it has given its device to another.", remedy="Go on with --resume.")
            device = self._device.isolated if isolated else self._device
            found = getattr(device, method)(*words, **named)
            if isinstance(found, LiveCalls):
                rows = tuple(tuple(_sent(one, frozenset()) for one in row) for row in found.results)
                return replace(found, results=rows)
            return [_sent(one, known) for one in found] if method == "check" else found


def _sent(computed: Computed, known: frozenset[str]) -> Computed:
    """A result for the coordinator: with its bytes unless they are known there, without its file's name."""
    return replace(computed, arrays=() if computed.digest in known else tuple(map(np.array, computed.arrays)))


# --- the process ------------------------------------------------------------------------------------------------


def serve(
    scheduler: Scheduler,
    *,
    device: str | None,
    jobs: int | None,
    name: str | None,
    iree_tools: Path | None,
    say: Callable[[str], None],
) -> None:
    """Runs a worker until a signal or the scheduler ends it."""
    if device and backend_on(device) is None:
        known = ", ".join(driver for backend in BACKENDS for driver in backend.drivers)
        raise UsageError(f"--device {device} is no device that is tuned for.", remedy=f"URIs begin with: {known}.")
    tools = Tools.find(iree_tools)
    facts = Facts.of_this_machine(tools, builds=jobs or usable_cores(), device=device or "")
    state = WorkerState(Builder(tools, Cache(cache_dir())), facts.device)
    with dask.config.set(QUIET):
        asyncio.run(_serve(scheduler, facts, state, name or f"{platform.node()}-{os.getpid()}", say))


def dask_worker(scheduler: Scheduler, facts: Facts, state: WorkerState, name: str) -> Worker:
    """A Dask worker, not yet started."""
    return Worker(
        scheduler.address,
        nthreads=facts.builds,
        resources={facts.build_resource: facts.builds},
        name=name,
        host="127.0.0.1" if scheduler.on_loopback else get_ip(scheduler.host),
        dashboard_address="127.0.0.1:0",
        security=scheduler.security(),
        startup_information={FACTS: lambda _: asdict(facts)},
        plugins=(state,),
        memory_limit=0,
        death_timeout=JOIN_SECONDS,
    )


async def _serve(scheduler: Scheduler, facts: Facts, state: WorkerState, name: str, say: Callable[[str], None]) -> None:
    worker = dask_worker(scheduler, facts, state, name)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(worker.close(nanny=False)))
    try:
        await worker
    except (OSError, TimeoutError, ValueError) as error:
        raise scheduler.unreachable(error) from error
    device = f", {facts.device} ({facts.called})" if facts.device else ", no device"
    say(f"worker {name} of {scheduler.address}: {facts.builds} builds at once{device}")
    await worker.finished()
