"""The coordinator's side of a cluster: builds go to any worker, and devices are taken for this run alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

from distributed import Client, KilledWorker, Semaphore
from distributed.comm import CommClosedError

from autotuner.build.builder import Builder, BuildJob
from autotuner.build.executor import Answer, BuildExecutor
from autotuner.build.machines import Machines, Note, Wanted
from autotuner.cluster.address import JOIN_SECONDS, Scheduler, build, on_worker
from autotuner.cluster.facts import Facts, Member, Roster
from autotuner.cluster.remote import RemoteDevice
from autotuner.devices.many import Devices
from autotuner.devices.process import ProcessDevice
from autotuner.errors import AutotuneError, DeviceError, EnvironmentFailure, OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.system.settings import usable_cores
from autotuner.targets import NO_DEVICE, Target

TAKE_SECONDS = 0.1
"""The time limit for a lease that another coordinator may have."""


@dataclass(eq=False)
class Cluster:
    """A run's connection to a cluster. Dask gives builds to any worker with room, and again if it is lost."""

    client: Client
    scheduler: Scheduler
    roster: Roster
    note: Note
    _lost: set[str] = field(default_factory=set)
    """Addresses of lost workers."""
    _down: bool = False
    """The scheduler is gone."""
    _builders: bool = True
    """Whether there were builders at the last change."""
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _builds: set[Future[Any]] = field(default_factory=set)
    """Builds under way."""
    _joined: threading.Event = field(default_factory=threading.Event)
    _answers: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor)
    """Threads that write the modules of workers."""

    @classmethod
    @contextmanager
    def open(
        cls, scheduler: Scheduler, own: Facts, target: Target, *, timed: bool, wanted: str, note: Note
    ) -> Iterator[Cluster]:
        """Joins a cluster as a coordinator, with at least one usable worker."""
        # What Dask logs is for whoever runs the cluster: here an error is one line.
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        security = scheduler.security()
        try:
            client = Client(scheduler.address, security=security, set_as_default=False)
        except (OSError, ValueError) as error:  # a time-out is an OSError; certificates may be unreadable
            raise scheduler.unreachable(error) from error
        cluster = cls(client, scheduler, Roster(own, target, timed, wanted), note)
        try:
            client.subscribe_topic("all", lambda event: cluster._told(event[1]))
            cluster._gather()
            yield cluster
        finally:
            cluster._answers.shutdown(wait=False)
            with suppress(Exception):
                client.close()

    # --- who is there -------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """Builds at once."""
        return sum(member.facts.builds for member in self.roster.members)

    def _workers(self) -> Mapping[str, Mapping[str, Any]]:
        """What each worker has told the scheduler, by address; empty where the scheduler is gone."""

        async def ask() -> Any:
            asked = asyncio.ensure_future(self.client.scheduler.identity(n_workers=-1))
            while self.client.status == "running":  # once it is lost, Dask would knock for half a minute
                if (await asyncio.wait([asked], timeout=TAKE_SECONDS))[0]:
                    return asked.result()["workers"]
            asked.cancel()
            raise OSError

        with suppress(Exception):  # Dask has many for a connection that is lost
            if self.client.status == "running":
                workers: Mapping[str, Mapping[str, Any]] = self.client.sync(ask)
                return workers
        self._down = True
        return {}

    def _gather(self) -> None:
        """Reads the workers at the beginning, and waits for some where there are none."""
        ends = monotonic() + JOIN_SECONDS
        self.roster.update(self._workers())
        if self.roster.missing and not self.roster.refusals:
            self.note(f"waiting for a {self.roster.missing}")
        while self.roster.missing and not self.roster.refusals and (left := ends - monotonic()) > 0:
            self._joined.wait(left)
            self._joined.clear()
            self.roster.update(self._workers())
        for name, why in self.roster.refusals.items():
            self.note(f"worker {name} is refused: it {why}")
        if self.roster.missing:
            raise self._nobody()

    def _told(self, event: Any) -> None:
        """Handles the scheduler's event of a worker that joins or is lost."""
        action = event.get("action") if isinstance(event, dict) else None
        if action not in ("add-worker", "remove-worker"):
            return
        if action == "remove-worker":
            self._lost.add(event["worker"])
            for member in self.roster.members:
                if member.address == event["worker"]:
                    self.note(f"worker {member.name} is gone: its work goes to others")
        self._joined.set()
        self._answers.submit(self._end_builds)

    def _end_builds(self) -> None:
        """Ends all builds where no builder is left: Dask would keep them for workers to come."""
        with self._looking:
            workers = self._workers().values()
            self._builders = any(self.roster.own.build_resource in told["resources"] for told in workers)
            for build in list(self._builds) if not self._builders else ():
                build.cancel()

    def _nobody(self) -> EnvironmentFailure:
        """The error without usable workers, with those refused; or without the scheduler."""
        self._workers()  # Dask cancels calls before it is known why
        where = self.scheduler.address
        if self._down:
            remedy = "Start it and its workers again, and go on with --resume."
            return EnvironmentFailure(f"the scheduler {where} is gone: the connection is lost.", remedy=remedy)
        again = ", and go on with --resume" if self._lost else ""
        missing = self.roster.missing or "worker that can be used"
        reasons = "; ".join(f"{name} {why}" for name, why in self.roster.refusals.items())
        option = f" --device {self.roster.target.device}" if self.roster.timed else ""
        return EnvironmentFailure(
            f"{where} has no {missing}{' any more' if self._lost else ''}{': ' + reasons if reasons else ''}.",
            remedy=f"Start one with `autotune worker{option} {where}`{again}.",
        )

    # --- builds -------------------------------------------------------------------------------------------------

    def executor(self, builder: Builder, here: Executor) -> BuildExecutor:
        """An executor that builds on the workers."""
        return BuildExecutor(builder, here, here, self._build)

    def _build(self, job: BuildJob, key: str) -> Future[Answer]:
        if self.client.status != "running":
            raise self._nobody()
        executor = self.client.get_executor(resources={self.roster.own.build_resource: 1}, pure=False)
        run = executor.submit(build, job, key, process.seconds_left())
        self._builds.add(run)
        answer: Future[Answer] = Future()
        answer.add_done_callback(lambda ended: run.cancel() if ended.cancelled() else None)
        run.add_done_callback(lambda _: self._ended(answer, run))
        if not self._builders or self.client.status != "running":
            self._end_builds()
        return answer

    def _ended(self, answer: Future[Answer], run: Future[Any]) -> None:
        try:
            self._answers.submit(self._built, answer, run)
        except RuntimeError:  # the cluster was left meanwhile
            answer.cancel()

    def _built(self, answer: Future[Answer], run: Future[Any]) -> None:
        self._builds.discard(run)
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(run.result())
        except CancelledError:
            answer.set_exception(self._nobody())
        except KilledWorker as error:
            why = f"the workers that compiled it died, one after the other: {error}"
            answer.set_result((replace(Compiled.refused(why), lasting=False), None))
        except Exception as error:
            answer.set_exception(error)

    # --- devices ------------------------------------------------------------------------------------------------

    @contextmanager
    def devices(self, *, isolate: bool) -> Iterator[list[RemoteDevice]]:
        """Takes and opens all free devices; at least one."""
        with ExitStack() as stack:
            taken = [member for member in self.roster.devices if self._taken(member, stack, timeout=TAKE_SECONDS)]
            if not taken:
                self.note("waiting: another coordinator has the devices of this cluster")
                taken = [self.roster.devices[0]]
                self._taken(taken[0], stack)
            with ThreadPoolExecutor(len(taken), thread_name_prefix="open") as threads:
                found = threads.map(partial(self._opened, isolate=isolate), taken)
                opened = [device for device in found if device is not None]
            for device in opened:
                stack.callback(_close, device)
            if not opened:
                raise self._nobody()
            yield opened

    def _taken(self, member: Member, until: ExitStack, timeout: float | None = None) -> bool:
        """Takes the lease of a device; Dask ends the lease of a coordinator that dies."""
        name, client = f"autotune-device-{member.address}", self.client
        lease = Semaphore(max_leases=1, name=name, scheduler_rpc=client.scheduler, loop=client.loop)
        until.callback(lease.refresh_callback.stop)
        if taken := lease.acquire(timeout=timeout):
            until.callback(lambda: self._down or lease.release())
        return bool(taken)

    def _opened(self, member: Member, *, isolate: bool) -> RemoteDevice | None:
        """Opens a taken device; None, with a note, where it does not open."""
        try:
            return RemoteDevice.opened(member.name, partial(self._call, member), isolate=isolate)
        except AutotuneError as error:
            self.roster.refusals[member.name] = f"does not open its device: {error.message}"
            self.note(f"worker {member.name} does not open its device: {error.message}")
            return None

    def _call(self, member: Member, method: str, *words: Any) -> Any:
        """Calls a method of a device's worker: not as a task, which Dask would keep for a lost worker."""

        async def ask() -> Any:
            return await self.client.run(on_worker, method, *words, workers=[member.address])

        if member.address in self._lost or self.client.status != "running":
            raise self._lost_with(member)
        under_way = asyncio.run_coroutine_threadsafe(ask(), self.client.loop.asyncio_loop)
        try:
            left = process.seconds_left()
            return under_way.result(left if left < threading.TIMEOUT_MAX else None)[member.address]
        except TimeoutError:
            raise OutOfTimeError from None
        except OutOfTimeError:
            raise
        except AutotuneError as error:
            raise type(error)(f"worker {member.name}: {error.message}", remedy=error.remedy) from None
        except (OSError, CancelledError) as error:
            raise self._lost_with(member, "" if isinstance(error, CommClosedError) else str(error)) from None
        finally:
            under_way.cancel()  # where this thread was interrupted

    def _lost_with(self, member: Member, why: str = "") -> AutotuneError:
        """The error where a device's worker does not answer any more."""
        self._workers()
        device = member.facts.model or member.facts.device
        said = f"worker {member.name} is lost ({device}){f': {why}' if why else ''}."
        return self._nobody() if self._down else DeviceError(said, remedy="Start it again, and go on with --resume.")


def _close(device: RemoteDevice) -> None:
    with suppress(AutotuneError), process.however_late(latest=monotonic() + JOIN_SECONDS):
        device.close()


@contextmanager
def machines(scheduler: Scheduler, builder: Builder, wanted: Wanted, note: Note) -> Iterator[Machines]:
    """The workers of a cluster as machines. Here `--device` names a model of devices."""
    target, tools = wanted.target, builder.tools
    timed = target.choose_device(None if wanted.device != NO_DEVICE else NO_DEVICE) != NO_DEVICE
    model = wanted.device or "" if timed else ""
    with ExitStack() as stack:
        here = stack.enter_context(local_executor(wanted.jobs or usable_cores()))
        own = Facts.of_this_machine(tools, builds=0)
        cluster = stack.enter_context(Cluster.open(scheduler, own, target, timed=timed, wanted=model, note=note))
        executor, jobs, chip = cluster.executor(builder, here), wanted.jobs or cluster.jobs, target.kernel_chip
        if not timed:
            nowhere = ProcessDevice(tools, NO_DEVICE, stack.enter_context(builder.cache.scratch()))
            yield Machines(NO_DEVICE, executor, Devices((nowhere,)), jobs, shares_cores=False, chip=chip)
            return
        waiting = monotonic()
        devices = Devices(tuple(stack.enter_context(cluster.devices(isolate=wanted.isolate))), note)
        first = cluster.roster.devices[0].facts  # all are of one model
        environment, shares = {**first.environment, "cluster": scheduler.address}, target.compiles_on_device
        yield Machines(
            target.device, executor, devices, jobs, shares, first.chip or chip, monotonic() - waiting, environment
        )
