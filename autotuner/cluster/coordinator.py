"""The coordinator's side of a cluster: builds go to any worker, and devices are taken for this run alone."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any, TypeVar, cast

import dask
from distributed import Client, KilledWorker, Semaphore

from autotuner.build.builder import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.build.jobs import Document, failed_answer
from autotuner.build.machines import Machines, Note, Wanted
from autotuner.cluster.address import Scheduler, on_worker
from autotuner.cluster.facts import BUILD, Facts
from autotuner.cluster.remote import RemoteDevice
from autotuner.cluster.roster import Member, Roster
from autotuner.devices.many import Devices
from autotuner.devices.process import ProcessDevice
from autotuner.errors import AutotuneError, DeviceError, EnvironmentFailure, OutOfTimeError
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.system.settings import usable_cores
from autotuner.targets import NO_DEVICE, Target

CONNECT_SECONDS = 15.0
LOOK_SECONDS = 1.0
"""How often the scheduler is asked who is there."""
JOIN_SECONDS = 30.0
"""How long workers are waited for where none can be used."""
_ANSWERS = 2
"""Threads that write modules that come from workers."""
T = TypeVar("T")


class WorkerLostError(DeviceError):
    """The worker of a device does not answer any more."""


@contextmanager
def connected(scheduler: Scheduler) -> Iterator[Client]:
    """A client of the scheduler, until the end of the command."""
    # What Dask logs is for whoever runs the cluster: here an error is one line.
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    security = scheduler.security()
    with dask.config.set({"distributed.comm.timeouts.connect": CONNECT_SECONDS}):
        try:
            client = Client(scheduler.address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:  # a time-out is an OSError; certificates may be unreadable
            raise scheduler.unreachable(error) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=CONNECT_SECONDS / 3)


@dataclass(eq=False)
class _Sent:
    """A build that was asked for."""

    job: Document
    end: float
    """The run's deadline."""
    answer: Future[Any] = field(default_factory=Future)
    workers: frozenset[str] = frozenset()
    """Addresses of those that may take it."""
    run: Future[Any] | None = None
    """At a worker, or on the way to one; None: nobody can take it."""


@dataclass(eq=False)
class Builds(Executor):
    """Where a BuildExecutor's jobs go: to whichever worker has room. What a lost worker had, Dask gives to others."""

    client: Client
    roster: Roster
    pending: set[_Sent] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def submit(self, fn: Callable[..., T], /, *words: Any, **named: Any) -> Future[T]:
        del fn, named
        (job,) = words
        sent = _Sent(job, monotonic() + process.seconds_left())
        sent.answer.add_done_callback(partial(self._answered, sent))
        with self._lock:
            self.pending.add(sent)
            self._send(sent)
        return sent.answer

    def send_anew(self) -> None:
        """What all those are lost with that could take it: Dask would keep it for them, for ever."""
        there = {one.address for one in self.roster.builders()}
        with self._lock:
            for sent in list(self.pending):
                if sent.run is not None and sent.workers.isdisjoint(there):
                    sent.run.cancel()
                if sent.run is None:
                    self._send(sent)

    def fail(self, error: EnvironmentFailure) -> None:
        """There is nobody to build any more."""
        for sent in list(self.pending):
            self._end(sent, error)

    def _send(self, sent: _Sent) -> None:
        workers, left = [one.address for one in self.roster.builders()], sent.end - monotonic()
        sent.workers = frozenset(workers)
        if left <= 0:
            self._end(sent, OutOfTimeError())
        elif workers:
            executor = self.client.get_executor(workers=workers, resources={BUILD: 1}, pure=False)
            sent.run = executor.submit(on_worker, "build", sent.job, left)
            sent.run.add_done_callback(partial(self._came, sent))

    def _came(self, sent: _Sent, run: Future[Any]) -> None:
        if run.cancelled():
            sent.run = None  # it is sent at the next look
        elif isinstance(error := run.exception(), KilledWorker):
            why = f"the workers that compiled it died, one after the other: {error}"
            self._end(sent, failed_answer(sent.job, why))
        else:
            self._end(sent, error or run.result())

    def _answered(self, sent: _Sent, answer: Future[Any]) -> None:
        """Or whoever asked does not want it any more."""
        self.pending.discard(sent)
        if answer.cancelled() and sent.run is not None:
            sent.run.cancel()

    def _end(self, sent: _Sent, answer: Any) -> None:
        if sent not in self.pending or not sent.answer.set_running_or_notify_cancel():
            return
        if isinstance(answer, BaseException):
            sent.answer.set_exception(answer)
        else:
            sent.answer.set_result(answer)


@dataclass(eq=False)
class Cluster:
    """What a run has of a cluster."""

    client: Client
    scheduler: Scheduler
    roster: Roster
    builds: Builds
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    down: str = ""
    """Why the scheduler is gone."""
    _leases: dict[str, Semaphore] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _looks: int = 0
    """How often somebody was missing."""

    @classmethod
    @contextmanager
    def open(
        cls, scheduler: Scheduler, own: Facts, target: Target, *, timed: bool, wanted: str, note: Callable[[str], None]
    ) -> Iterator[Cluster]:
        """Joined as its coordinator, with at least one worker that can be used."""
        with connected(scheduler) as client:
            roster = Roster(own, target, timed, wanted, note)
            cluster = cls(client, scheduler, roster, Builds(client, roster))
            watch = threading.Thread(target=cluster._watch, name="cluster", daemon=True)
            try:
                cluster._look()
                cluster._wait_for_workers()
                watch.start()
                yield cluster
            finally:
                cluster._ended.set()
                cluster._give_back()
                if watch.ident is not None:
                    watch.join(CONNECT_SECONDS)

    # --- who is there -------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """Builds at once."""
        return sum(member.facts.builds for member in self.roster.builders())

    @property
    def environment(self) -> Mapping[str, Any]:
        """Of the devices that are used: of the first, for all are of one model."""
        return next((member.facts.environment for member in self.roster.devices()), {})

    @property
    def chip(self) -> str:
        """What microkernels for these devices are made for; empty: the target says."""
        return next((member.facts.chip for member in self.roster.devices()), "")

    def executor(self, builder: Builder, here: Executor, answers: Executor | None = None) -> BuildExecutor:
        """Builds there. Modules that come are written by threads of `answers`: meanwhile others are talked to."""
        work = cast(Callable[[Document], Document], on_worker)
        return BuildExecutor(builder, self.builds, here, work, answers)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self._look()
            except Exception as error:  # Dask has many for a connection that is lost
                self.down = str(error) or type(error).__name__
                for member in list(self.roster.members.values()):
                    self.roster.lose(member)
                self.builds.fail(self.gone())
                return

    def _look(self) -> None:
        """Who has come and who is gone, by what the scheduler says; and the builds that it changes."""
        told = self.client.sync(self.client.scheduler.identity, n_workers=-1)
        for member in self.roster.update(told["workers"]):
            self.client.sync(self.client.scheduler.unregister, address=member.address, stimulus_id=self.session)
        self.builds.send_anew()
        if not self.roster.missing:
            self._looks = 0
        if self.builds.pending and not self.roster.builders() and not self._patient():
            self.builds.fail(self.nobody())

    def _patient(self) -> bool:
        """Somebody may still join; who is there is told at once, and may be refused."""
        if not self._looks:
            self.roster.note(f"waiting for a {self.roster.missing}")
        self._looks += 1
        told = self.roster.refusals and not self.roster.dropped
        return self._looks * LOOK_SECONDS < (JOIN_SECONDS / 10 if told else JOIN_SECONDS)

    def _wait_for_workers(self) -> None:
        """At the beginning: until there is all that a run needs."""
        while self.roster.missing:
            if not self._patient():
                raise self.nobody()
            sleep(LOOK_SECONDS)
            self._look()

    def nobody(self) -> EnvironmentFailure:
        """What a run lacks, and who was refused."""
        where, reasons, lost = self.scheduler.address, self.roster.reasons, bool(self.roster.dropped)
        option = f" --device {self.roster.target.device}" if self.roster.timed else ""
        return EnvironmentFailure(
            f"{where} has no {self.roster.missing}{' any more' if lost else ''}{': ' + reasons if reasons else ''}.",
            remedy=f"Start one with `autotune worker{option} {where}`{', and go on with --resume' if lost else ''}.",
        )

    def gone(self) -> EnvironmentFailure:
        """The scheduler does not answer any more."""
        return EnvironmentFailure(
            f"the scheduler {self.scheduler.address} is gone: {self.down}.",
            remedy="Start it and its workers again, and go on with --resume.",
        )

    # --- devices ------------------------------------------------------------------------------------------------

    @contextmanager
    def devices(self, *, isolate: bool) -> Iterator[list[RemoteDevice]]:
        """All devices that no other coordinator has, open; at least one."""
        taken, opened = self._take(), list[RemoteDevice]()
        try:
            with ThreadPoolExecutor(len(taken), thread_name_prefix="open") as threads:
                found = threads.map(lambda member: self._opened(member, isolate), taken)
                opened += [device for device in found if device is not None]
            if not opened:
                raise self.nobody()
            yield opened
        finally:
            for device in opened:
                with suppress(AutotuneError):
                    device.close()
            self._give_back()

    def _opened(self, member: Member, isolate: bool) -> RemoteDevice | None:
        """A device that was taken; None where it does not open, which is said."""
        try:
            return RemoteDevice.opened(_Dask(self, member), session=self.session, isolate=isolate)
        except AutotuneError as error:
            member.times = False
            self.roster.refusals[member.name] = f"does not open its device: {error.message}"
            self.roster.note(f"worker {member.name} does not open its device: {error.message}")
            return None

    def _take(self) -> list[Member]:
        """The leases of the devices; waits while others have all of them."""
        told = False
        while True:
            devices = self.roster.devices()
            if not devices:
                raise self.gone() if self.down else self.nobody()
            if free := [member for member in devices if self._lease(member)]:
                return free
            if not told:
                told = True
                self.roster.note("waiting: another coordinator has the devices of this cluster")
            sleep(LOOK_SECONDS)

    def _lease(self, member: Member) -> bool:
        """Takes its device, unless another coordinator has it."""
        name, client = f"autotune-device-{member.address}", self.client
        lease = Semaphore(max_leases=1, name=name, scheduler_rpc=client.scheduler, loop=client.loop)
        if not lease.acquire(timeout=LOOK_SECONDS / 10):
            lease.refresh_callback.stop()
            return False
        self._leases[member.address] = lease
        return True

    def _give_back(self) -> None:
        for lease in self._leases.values():
            with suppress(Exception):
                lease.release()
            lease.refresh_callback.stop()
        self._leases.clear()


@contextmanager
def machines(scheduler: Scheduler, builder: Builder, wanted: Wanted, note: Note) -> Iterator[Machines]:
    """The workers of a cluster. With one `--device` names a model of devices, not one of this machine's."""
    target, tools = wanted.target, builder.tools
    timed = target.choose_device(None if wanted.device != NO_DEVICE else NO_DEVICE) != NO_DEVICE
    model = wanted.device or "" if timed else ""
    with ExitStack() as stack:
        here = stack.enter_context(local_executor(wanted.jobs or usable_cores()))
        answers = stack.enter_context(local_executor(_ANSWERS))
        own = Facts.of_this_machine(tools, builds=0)
        cluster = stack.enter_context(Cluster.open(scheduler, own, target, timed=timed, wanted=model, note=note))
        executor, jobs = cluster.executor(builder, here, answers), wanted.jobs or cluster.jobs
        if not timed:
            nowhere = ProcessDevice(tools, NO_DEVICE, stack.enter_context(builder.cache.scratch()))
            yield Machines(NO_DEVICE, executor, Devices((nowhere,)), jobs, shares_cores=False, chip=target.kernel_chip)
            return
        waiting = monotonic()
        devices = Devices(tuple(stack.enter_context(cluster.devices(isolate=wanted.isolate))), note)
        environment = {**cluster.environment, "cluster": scheduler.address}
        shares, chip = cluster.roster.shares_cores, cluster.chip or target.kernel_chip
        yield Machines(target.device, executor, devices, jobs, shares, chip, monotonic() - waiting, environment)


@dataclass(frozen=True)
class _Dask:
    """A worker of a device, by Dask."""

    cluster: Cluster
    member: Member

    @property
    def name(self) -> str:
        return self.member.name

    def require(self) -> None:
        if self.cluster.down:
            raise self.cluster.gone()
        if self.member.lost:
            raise WorkerLostError(
                f"worker {self.name} ({self.member.facts.model or self.member.facts.device}) is lost.",
                remedy="Start it again, and go on with --resume.",
            )

    def call(self, method: str, *words: Any, alone: bool = False) -> Any:
        self.require()
        resources = {self.member.facts.resource: 1} if alone else None
        executor = self.cluster.client.get_executor(workers=[self.member.address], resources=resources, pure=False)
        under_way = executor.submit(on_worker, method, *words)
        self.member.calls.add(under_way)
        try:
            if self.member.lost:
                under_way.cancel()
            return under_way.result()
        except (CancelledError, KilledWorker):
            self.cluster.roster.drop(self.member, "is gone")
            self.require()
            raise
        finally:
            self.member.calls.discard(under_way)
            under_way.cancel()  # where this thread was interrupted
