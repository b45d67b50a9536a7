"""A worker process: joins a scheduler, says what it is, builds, and has its device check and time for a coordinator."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import dask
import numpy as np
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import get_ip

from autotuner.build.builder import Builder
from autotuner.build.jobs import Document, work
from autotuner.cluster.address import PLUGIN, Scheduler
from autotuner.cluster.facts import BUILD, FACTS, Facts
from autotuner.cluster.remote import Result, is_content, moved
from autotuner.devices.connection import OPEN_SECONDS
from autotuner.devices.device import Computed, Device
from autotuner.devices.many import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import AutotuneError, DeviceError, EnvironmentFailure, UsageError
from autotuner.iree.tools import Tools
from autotuner.problems import Array
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.locks import device_lock
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.system.text import clean
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
_JOIN_SECONDS = 60.0
_LATE_SECONDS = 20.0
"""How long a run of this very machine is waited for that has the device, and what should have ended."""
_COMPILES = 4
"""Compiles that a build is made of at the most, each with its own time-out, and one that it waited for."""
T = TypeVar("T")


@dataclass(eq=False)
class Workplace(WorkerPlugin):  # type: ignore[misc]
    """A worker's builder, its files and its device, as `on_worker` calls them. An AutotuneError is an answer, too."""

    builder: Builder
    uri: str = ""
    """Of the device; empty: there is none."""
    folder: Path = Path()
    """Where files that were sent lie: Dask's, which goes with the worker, at the next start at the latest."""
    name: str = PLUGIN
    _open: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _device: Device | None = field(default=None, init=False, repr=False)
    _for: str = field(default="", init=False, repr=False)
    """The coordinator that has the device."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def setup(self, worker: Worker) -> None:
        self.folder = Path(worker.local_directory)

    def teardown(self, worker: Worker) -> None:
        """Ends the device's process."""
        del worker
        self.close(self._for)

    def build(self, job: Document, left: float) -> Document | AutotuneError:
        """The answer to a build; `left` are the seconds of the coordinator's time."""
        return _guarded(lambda: work(job, self.builder), left, longest=_COMPILES * job["timeout"])

    def put(self, name: str, offset: int, data: bytes, last: bool) -> None:
        """A piece of a file. With its last piece it is kept, if it is what its name says."""
        if not is_content(name):
            raise ValueError(f"{name!r} is no name of a file's content")
        part = self.folder / f"{name}.part"
        with part.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)
        if not last:
            return
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != name[:64]:
            part.unlink()
            raise ValueError(f"{name} arrived damaged")
        part.rename(self.folder / name)

    def open(self, session: str, isolate: bool) -> tuple[Any, ...] | AutotuneError:
        """For a coordinator: it has taken the device's lease, so whoever had it before is gone."""
        with self._lock:
            return _guarded(lambda: self._opened(session, isolate), longest=2 * OPEN_SECONDS)

    def close(self, session: str) -> None:
        """Ends the device's process, unless another coordinator has it by now."""
        with self._lock:
            if self._for == session:
                self._let_go()

    def ask(
        self,
        session: str,
        method: str,
        words: tuple[Any, ...],
        named: Mapping[str, Any],
        isolated: bool,
        left: float,
        longest: float,
        files: Mapping[str, bytes],
        known: frozenset[str],
    ) -> Any:
        """A method of the device, one after the other; with files that are new here, and digests of results whose
        bytes need not come back."""
        for name, data in files.items():
            self.put(name, 0, data, True)

        def answer() -> Any:
            if self._device is None or self._for != session:
                raise DeviceError("it has given its device to another.", remedy="Go on with --resume.")
            device = self._device.isolated if isolated else self._device
            found = getattr(device, method)(*moved(words, lambda name: self.folder / name.name), **named)
            return [_results(one, known) for one in found] if method == "check" else found

        with self._lock:
            return _guarded(answer, left, longest=longest)

    def _opened(self, session: str, isolate: bool) -> tuple[Any, ...]:
        """Its URI, state and figures; and those of the isolated one, where that is another."""
        self._let_go()
        backend, cache = backend_on(self.uri), self.builder.cache
        with ExitStack() as stack:
            stack.enter_context(device_lock(self.uri, cache.root, timeout=_LATE_SECONDS))
            on_host = backend is not None and backend.on_host
            alone = ProcessDevice(
                self.builder.tools, self.uri, stack.enter_context(cache.scratch()), starts_quickly=on_host
            )
            device = stack.enter_context(open_device(alone, isolate=isolate))
            device.open()
            self._open = stack.pop_all()
        self._device, self._for = device, session
        return self.uri, _described(device), None if device.isolated is device else _described(device.isolated)

    def _let_go(self) -> None:
        self._device, self._for = None, ""
        self._open.close()


def _described(device: Device) -> dict[str, Any]:
    return {name: getattr(device, name) for name in ("state", "invocation_us")}


def _guarded(do: Callable[[], T], left: float = math.inf, *, longest: float) -> T | AutotuneError:
    """A worker in which something hangs far beyond its own time-out ends, so that its work goes to others."""
    ended = threading.Event()
    threading.Thread(target=_end_unless, args=(ended, longest + _LATE_SECONDS), daemon=True).start()
    try:
        with process.until(time.monotonic() + left):
            return do()
    except AutotuneError as error:
        return error
    finally:
        ended.set()


def _end_unless(ended: threading.Event, seconds: float) -> None:
    if ended.wait(min(seconds, threading.TIMEOUT_MAX)):
        return
    said = f"autotune: this worker ends: what it does has not ended in {seconds:.0f} s"
    print(clean(said), file=sys.stderr, flush=True)
    os._exit(EnvironmentFailure.exit_code)


def _results(computed: Computed, known: frozenset[str]) -> tuple[Computed, list[Result]]:
    """The bytes that the coordinator has are not sent."""
    bare: list[Array] = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in computed.arrays]
    digests = computed.digest.split() or [hashlib.sha256(one.data).hexdigest() for one in bare]
    results = [
        Result(digest, one.shape, one.dtype.name, None if digest in known else np.array(data))
        for digest, one, data in zip(digests, computed.arrays, bare, strict=True)
    ]
    return replace(computed, arrays=()), results


# --- the process ------------------------------------------------------------------------------------------------


def serve(
    scheduler: Scheduler,
    *,
    device: str | None,
    resource: str | None,
    jobs: int | None,
    name: str | None,
    iree_tools: Path | None,
    say: Callable[[str], None],
) -> None:
    """Works until it is asked to end, by a signal or by the scheduler."""
    if device and backend_on(device) is None:
        known = ", ".join(driver for backend in BACKENDS for driver in backend.drivers)
        raise UsageError(f"--device {device} is no device that is tuned for.", remedy=f"URIs begin with: {known}.")
    if resource and not device:
        raise UsageError("--resource names a device, and there is none.", remedy="Give --device too.")
    tools = Tools.find(iree_tools)
    facts = Facts.of_this_machine(tools, builds=jobs or usable_cores(), device=device or "", resource=resource or "")
    workplace = Workplace(Builder(tools, Cache(cache_dir())), facts.device)
    with dask.config.set(QUIET):
        asyncio.run(_serve(scheduler, facts, workplace, name or f"{platform.node()}-{os.getpid()}", say))


def dask_worker(scheduler: Scheduler, facts: Facts, workplace: Workplace, name: str) -> Worker:
    """Not yet started."""
    return Worker(
        scheduler.address,
        # One more than builds: a call of the device never waits for them.
        nthreads=facts.builds + 1,
        resources={BUILD: facts.builds, **({facts.resource: 1} if facts.device else {})},
        name=name,
        host="127.0.0.1" if scheduler.on_loopback else get_ip(scheduler.host),
        dashboard_address="127.0.0.1:0",
        security=scheduler.security(),
        startup_information={FACTS: lambda _: facts.to_json()},
        plugins=(workplace,),
        memory_limit=0,
        death_timeout=_JOIN_SECONDS,
    )


async def _serve(
    scheduler: Scheduler, facts: Facts, workplace: Workplace, name: str, say: Callable[[str], None]
) -> None:
    worker = dask_worker(scheduler, facts, workplace, name)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(worker.close(nanny=False)))
    try:
        await worker
    except (OSError, TimeoutError, ValueError) as error:
        raise scheduler.unreachable(error) from error
    device = f", {facts.device} ({facts.model}) as {facts.resource}=1" if facts.device else ", no device"
    say(f"worker {name} of {scheduler.address}: {facts.builds} builds at once{device}")
    await worker.finished()
