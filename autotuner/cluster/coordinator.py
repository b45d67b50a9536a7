"""The coordinator's side of a cluster: builds go to any worker, and devices are taken for this run alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic, sleep
from typing import Any

from distributed import Client, KilledWorker, Semaphore

from autotuner.build.builder import Builder, BuildJob
from autotuner.build.executor import Answer, BuildExecutor
from autotuner.build.machines import Machines, Note, Wanted
from autotuner.cluster.address import JOIN_SECONDS, Scheduler, on_worker
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

LOOK_SECONDS = 1.0
"""How often the scheduler is asked who is there."""


@contextmanager
def connected(scheduler: Scheduler) -> Iterator[Client]:
    """A client of the scheduler, until the end of the command."""
    # What Dask logs is for whoever runs the cluster: here an error is one line.
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    security = scheduler.security()
    try:
        client = Client(scheduler.address, security=security, set_as_default=False)
    except (OSError, ValueError) as error:  # a time-out is an OSError; certificates may be unreadable
        raise scheduler.unreachable(error) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close()


@dataclass(eq=False)
class Cluster:
    """What a run has of a cluster. Dask gives builds to whichever worker has room, and again where one is lost."""

    client: Client
    scheduler: Scheduler
    roster: Roster
    note: Note
    _lost: set[str] = field(default_factory=set)
    """Addresses of workers that were there."""
    _down: str = ""
    """Why the scheduler is gone."""
    _calls: dict[Future[Any], str] = field(default_factory=dict)
    """Those under way, by the address of the one worker that can take it; empty: any builder can."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _answers: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor)
    """Modules that come from workers are written by threads of their own: meanwhile others are talked to."""

    @classmethod
    @contextmanager
    def open(
        cls, scheduler: Scheduler, own: Facts, target: Target, *, timed: bool, wanted: str, note: Note
    ) -> Iterator[Cluster]:
        """Joined as its coordinator, with at least one worker that can be used."""
        with connected(scheduler) as client:
            cluster = cls(client, scheduler, Roster(own, target, timed, wanted), note)
            cluster._gather()
            threading.Thread(target=cluster._watch, name="cluster", daemon=True).start()
            try:
                yield cluster
            finally:
                cluster._ended.set()
                cluster._answers.shutdown(wait=False)

    # --- who is there -------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """Builds at once."""
        return sum(member.facts.builds for member in self.roster.members)

    @property
    def _builds(self) -> str:
        """What Dask gives builds by: whoever joins later builds, too."""
        return self.roster.own.build_resource

    def _workers(self) -> Mapping[str, Mapping[str, Any]]:
        """By address: what each has told the scheduler; nothing where that is gone."""
        workers: dict[str, dict[str, Any]] = {}
        if self.client.status != "running":
            self._down = "the connection is lost"
        else:
            try:
                workers = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
            except Exception as error:  # Dask has many for a connection that is lost
                self._down = str(error) or type(error).__name__
        return workers

    def _gather(self) -> None:
        """Who is there at the beginning; where nobody is, workers are waited for."""
        ends = monotonic() + JOIN_SECONDS
        self.roster.update(self._workers())
        if self.roster.missing and not self.roster.refusals:
            self.note(f"waiting for a {self.roster.missing}")
        while self.roster.missing and not self.roster.refusals and monotonic() < ends:
            sleep(LOOK_SECONDS)
            self.roster.update(self._workers())
        for name, why in self.roster.refusals.items():
            self.note(f"worker {name} is refused: it {why}")
        if self.roster.missing:
            raise self._nobody()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._end_lost()

    def _end_lost(self) -> None:
        """Ends calls that nobody can take any more: Dask would keep them for whoever is gone, for ever."""
        workers = self._workers()
        for member in self.roster.members:
            if member.address not in workers and member.address not in self._lost:
                self._lost.add(member.address)
                if not self._down:
                    self.note(f"worker {member.name} is gone: its work goes to others")
        builders = any(self._builds in told["resources"] for told in workers.values())
        for call, address in list(self._calls.items()):
            if address not in workers if address else not builders:
                call.cancel()

    def _nobody(self) -> EnvironmentFailure:
        """What a run lacks, and who was refused; or that the scheduler does not answer any more."""
        self._workers()  # Dask cancels calls before it is known why
        where = self.scheduler.address
        if self._down:
            remedy = "Start it and its workers again, and go on with --resume."
            return EnvironmentFailure(f"the scheduler {where} is gone: {self._down}.", remedy=remedy)
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
        """Builds there."""
        return BuildExecutor(builder, here, here, self._build)

    def _build(self, job: BuildJob, key: str) -> Future[Answer]:
        if self._down:
            raise self._nobody()
        executor = self.client.get_executor(resources={self._builds: 1}, pure=False)
        run = executor.submit(on_worker, "build", job, key, process.seconds_left())
        self._calls[run] = ""
        answer: Future[Answer] = Future()
        answer.add_done_callback(lambda ended: run.cancel() if ended.cancelled() else None)
        run.add_done_callback(lambda _: self._answers.submit(self._built, answer, run))
        return answer

    def _built(self, answer: Future[Answer], run: Future[Any]) -> None:
        self._calls.pop(run, None)
        if not answer.set_running_or_notify_cancel():
            return
        if run.cancelled():
            answer.set_exception(self._nobody())
        elif isinstance(error := run.exception(), KilledWorker):
            why = f"the workers that compiled it died, one after the other: {error}"
            answer.set_result((replace(Compiled.refused(why), lasting=False), None))
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(run.result())

    # --- devices ------------------------------------------------------------------------------------------------

    @contextmanager
    def devices(self, *, isolate: bool) -> Iterator[list[RemoteDevice]]:
        """All devices that no other coordinator has, open; at least one."""
        with ExitStack() as stack:
            taken = [member for member in self.roster.devices if self._taken(member, stack, timeout=LOOK_SECONDS / 10)]
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
        """Whether this coordinator has the device now, and no other. Dask ends the lease of one that dies."""
        name, client = f"autotune-device-{member.address}", self.client
        lease = Semaphore(max_leases=1, name=name, scheduler_rpc=client.scheduler, loop=client.loop)
        until.callback(lease.refresh_callback.stop)
        if not lease.acquire(timeout=timeout):
            return False
        until.callback(_quietly, lease.release)
        return True

    def _opened(self, member: Member, *, isolate: bool) -> RemoteDevice | None:
        """A device that was taken; None where it does not open, which is said."""
        try:
            return RemoteDevice.opened(member.name, partial(self._call, member), isolate=isolate)
        except AutotuneError as error:
            self.roster.refusals[member.name] = f"does not open its device: {error.message}"
            self.note(f"worker {member.name} does not open its device: {error.message}")
            return None

    def _call(self, member: Member, method: str, *words: Any, alone: bool = False) -> Any:
        """A method of a device's worker; `alone`: its device does nothing else meanwhile."""
        if member.address in self._lost:
            raise self._lost_with(member)
        resources = {member.facts.resource: 1} if alone else None
        executor = self.client.get_executor(workers=[member.address], resources=resources, pure=False)
        under_way = executor.submit(on_worker, method, *words)
        self._calls[under_way] = member.address
        try:
            left = process.seconds_left()
            return under_way.result(left if left < threading.TIMEOUT_MAX else None)
        except TimeoutError:
            raise OutOfTimeError from None
        except (CancelledError, KilledWorker):
            raise self._lost_with(member) from None
        finally:
            self._calls.pop(under_way, None)
            under_way.cancel()  # where this thread was interrupted

    def _lost_with(self, member: Member) -> AutotuneError:
        """What is raised where a device's worker does not answer any more."""
        device = member.facts.model or member.facts.device
        remedy = "Start it again, and go on with --resume."
        self._workers()
        return self._nobody() if self._down else DeviceError(f"it is lost ({device}).", remedy=remedy)


def _close(device: RemoteDevice) -> None:
    with suppress(AutotuneError), process.however_late(latest=monotonic() + JOIN_SECONDS):
        device.close()


def _quietly(do: Callable[[], Any]) -> None:
    """The scheduler may be gone."""
    with suppress(Exception):
        do()


@contextmanager
def machines(scheduler: Scheduler, builder: Builder, wanted: Wanted, note: Note) -> Iterator[Machines]:
    """The workers of a cluster. With one `--device` names a model of devices, not one of this machine's."""
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
