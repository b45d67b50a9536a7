"""The coordinator's side of a cluster: builds go to any worker, and devices are taken for this run alone."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from distributed import KilledWorker, Semaphore
from distributed.client import Future as DaskFuture
from distributed.client import FutureCancelledError

from autotuner.build.builder import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.build.jobs import Document, failed_answer
from autotuner.cluster import tasks
from autotuner.cluster.address import Scheduler
from autotuner.cluster.facts import BUILD, Facts
from autotuner.cluster.link import Link
from autotuner.cluster.remote import RemoteDevice
from autotuner.cluster.roster import Member, Roster
from autotuner.cluster.wire import Message, raise_from_json
from autotuner.cluster.workplace import PIECE_BYTES
from autotuner.devices.conditions import DeviceState
from autotuner.errors import AutotuneError, DeviceError, EnvironmentFailure, OutOfTimeError
from autotuner.system import process
from autotuner.system.waiting import turns
from autotuner.targets import Target

T = TypeVar("T")
LOOK_SECONDS = 1.0
"""How often the scheduler is asked who is there."""
JOIN_SECONDS = 30.0
"""How long workers are waited for where none can be used."""
ANSWER_SECONDS = 20.0
"""An answer may come so much later than the work's own time-out."""
_BUSY_SECONDS = 5.0
_COMPILES = 4
"""Compiles that a build is made of at the most, each with its own time-out, and one that it waited for."""


class WorkerLostError(DeviceError):
    """The worker of a device does not answer any more."""


@dataclass(eq=False)
class Cluster:
    """What a run has of a cluster."""

    link: Link
    scheduler: Scheduler
    roster: Roster
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    _down: str = ""
    """Why the scheduler is gone."""
    _moved: dict[str, asyncio.Event] = field(default_factory=dict)
    """By a build's key: set where its worker is lost."""
    _leases: dict[str, Semaphore] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def open(
        cls, scheduler: Scheduler, own: Facts, target: Target, *, timed: bool, wanted: str, note: Callable[[str], None]
    ) -> Iterator[Cluster]:
        with Link.open(scheduler) as link:
            cluster = cls(link, scheduler, Roster(own, target, timed, wanted, note))
            link.run(cluster._look())
            watch = link.start(cluster._watch())
            try:
                link.run(cluster._wait_for_workers())
                yield cluster
            finally:
                watch.cancel()
                link.run(cluster._give_back())

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

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except (OSError, ValueError) as error:
                self._down = str(error) or type(error).__name__
                for event in self._moved.values():
                    event.set()
                for member in [*self.roster.builders(), *self.roster.devices()]:
                    member.lost.set()
                return

    async def _look(self) -> None:
        told = await self.link.client.scheduler.identity(n_workers=-1)
        self.roster.update(told["workers"])
        await self._move_builds(self.roster.dropped & set(told["workers"]))

    async def _move_builds(self, addresses: set[str]) -> None:
        """Dask moves the work of workers that are gone. Those that are silent it gives more of what was queued."""
        if not addresses:
            return
        under_way = await self.link.client.processing()
        for address in addresses & set(under_way):
            for key in under_way[address]:
                if key in self._moved:
                    self._moved[key].set()

    async def _wait_for_workers(self) -> None:
        for waited in range(math.ceil(JOIN_SECONDS / LOOK_SECONDS)):
            if self.roster.builders() and (self.roster.devices() or not self.roster.timed):
                return
            if self.roster.refusals and waited * LOOK_SECONDS > JOIN_SECONDS / 10:
                break  # who is there is told at once; who is not yet may still come
            await asyncio.sleep(LOOK_SECONDS)
        raise self._nobody()

    def _nobody(self) -> EnvironmentFailure:
        where, reasons = self.scheduler.address, "; ".join(self.roster.reasons())
        device = self.roster.timed and bool(self.roster.builders())
        option = f" --device {self.roster.target.device}" if self.roster.timed else ""
        what = "with a device that can be timed" if device else "that can be used"
        return EnvironmentFailure(
            f"{where} has no worker {what}{': ' + reasons if reasons else ''}.",
            remedy=f"Start one with `autotune worker{option} {where}`.",
        )

    def _gone(self) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"the scheduler {self.scheduler.address} is gone: {self._down}.",
            remedy="Start it and its workers again, and go on with --resume.",
        )

    def _forgotten(self, error: FutureCancelledError) -> EnvironmentFailure:
        """Nobody takes work back here: what is cancelled is what a scheduler has taken along."""
        self._down = self._down or f"its connection is lost ({error.reason})"
        return self._gone()

    # --- builds -------------------------------------------------------------------------------------------------

    def executor(self, builder: Builder, here: Executor, answers: Executor | None = None) -> BuildExecutor:
        """Modules that come are written by threads of `answers`: meanwhile this one talks to the others."""
        workers, work = _Workers(self), cast(Callable[[Document], Document], tasks.build_here)
        return BuildExecutor(builder, workers, work, here, answers, elsewhere=True)

    async def build(self, job: Document, left: float) -> Message:
        """One build, on whichever worker has room; on another where that one is lost."""
        end = asyncio.get_running_loop().time() + left
        limit = _COMPILES * job["timeout"] + ANSWER_SECONDS
        while True:
            now = asyncio.get_running_loop().time()
            if end <= now:
                raise OutOfTimeError
            answer = await self._attempt(job, end - now, limit)
            if answer is not None:
                raise_from_json(answer, worker="")
                return answer

    async def _attempt(self, job: Document, left: float, limit: float) -> Message | None:
        """None where its worker is lost."""
        if self._down:
            raise self._gone()
        workers = [member.address for member in self.roster.builders()]
        if not workers:
            await self._wait_for_workers()
            return None
        key, moved = f"build-{uuid.uuid4().hex}", asyncio.Event()
        self._moved[key] = moved
        given = left if math.isfinite(left) else None
        future = self.link.client.submit(
            tasks.build_here,
            json.dumps(job).encode(),
            given,
            key=key,
            workers=workers,
            resources={BUILD: 1},
            pure=False,
        )
        try:
            answer: Message | None = await _first(future, moved, min(left + ANSWER_SECONDS, limit))
            return answer
        except TimeoutError:
            await self._drop_worker_of(key, limit)
            return None
        except FutureCancelledError as error:
            raise self._forgotten(error) from error
        except KilledWorker as error:
            return failed_answer(job, f"the workers that compiled it died, one after the other: {error}")
        finally:
            del self._moved[key]
            with suppress(Exception):
                future.release()

    async def _drop_worker_of(self, key: str, seconds: float) -> None:
        under_way = await self.link.client.processing()
        holder = next((address for address, keys in under_way.items() if key in keys), None)
        for member in self.roster.builders():
            if member.address == holder:
                self.roster.drop(member, f"has not finished a build in {seconds:.0f} s")
                await self._move_builds({member.address})

    # --- devices ------------------------------------------------------------------------------------------------

    @contextmanager
    def devices(self, *, isolate: bool, state: DeviceState) -> Iterator[list[RemoteDevice]]:
        """All devices that no other coordinator has, open; at least one."""
        taken = self.link.run(self._take())
        opened: list[RemoteDevice] = []
        try:
            with ThreadPoolExecutor(len(taken), thread_name_prefix="open") as side_by_side:
                futures = [side_by_side.submit(self.opened, member, isolate, state) for member in taken]
                opened += [one for one in (future.result() for future in futures) if one is not None]
            if not opened:
                raise self._nobody()
            yield opened
        finally:
            for device in opened:
                with suppress(AutotuneError):
                    device.close()
            self.link.run(self._give_back())

    def opened(self, member: Member, isolate: bool, state: DeviceState) -> RemoteDevice | None:
        """A device that was taken; None where it does not open, which is said."""
        try:
            return RemoteDevice.opened(_Dask(self, member), session=self.session, isolate=isolate, state=state)
        except AutotuneError as error:
            member.times = False
            self.roster.refusals[member.name] = f"does not open its device: {error.message}"
            self.roster.note(f"worker {member.name} does not open its device: {error.message}")
            return None

    async def _take(self) -> list[Member]:
        """The leases of the devices; waits while others have all of them."""
        told = False
        while True:
            free = [member for member in self.roster.devices() if await self.lease(member)]
            if free:
                return free
            if not told:
                told = True
                self.roster.note("waiting: another coordinator has the devices of this cluster")
            await asyncio.sleep(_BUSY_SECONDS)
            if not self.roster.devices():
                raise self._nobody()

    def has(self, member: Member) -> bool:
        """Its device is this coordinator's."""
        return member.address in self._leases

    async def lease(self, member: Member) -> bool:
        """Takes its device, unless another coordinator has it."""
        client = self.link.client
        name = f"autotune-device-{member.address}"
        lease = Semaphore(max_leases=1, name=name, scheduler_rpc=client.scheduler, loop=client.loop)
        if not await lease.acquire(timeout=LOOK_SECONDS / 10):
            lease.refresh_callback.stop()
            return False
        self._leases[member.address] = lease
        return True

    async def _give_back(self) -> None:
        for lease in self._leases.values():
            with suppress(Exception):
                await asyncio.wait_for(lease.release(), LOOK_SECONDS)
            lease.refresh_callback.stop()
        self._leases.clear()

    async def call(
        self, member: Member, function: Callable[..., Any], *words: Any, timeout: float, device: bool
    ) -> Any:
        """A function on one worker; WorkerLostError where it does not answer."""
        self.require(member)
        resources = {member.facts.resource: 1} if device else None
        future = self.link.client.submit(
            function,
            *words,
            workers=[member.address],
            resources=resources,
            pure=False,
            key=f"device-{uuid.uuid4().hex}",
        )
        try:
            answer = await _first(future, member.lost, timeout + ANSWER_SECONDS)
        except TimeoutError:
            self.roster.drop(member, f"has not answered for {timeout + ANSWER_SECONDS:.0f} s")
            await self._move_builds({member.address})
            answer = None
        except FutureCancelledError as error:
            raise self._forgotten(error) from error
        finally:
            with suppress(Exception):
                future.release()
        if member.lost.is_set() and answer is None:
            raise self._lost(member)
        return answer

    def require(self, member: Member) -> None:
        """WorkerLostError where it is known to be lost."""
        if member.lost.is_set():
            raise self._lost(member)

    def _lost(self, member: Member) -> EnvironmentFailure:
        if self._down:
            return self._gone()
        return WorkerLostError(
            f"worker {member.name} ({member.facts.model or member.facts.device}) is lost.",
            remedy="Start it again, and go on with --resume.",
        )


async def _first(future: DaskFuture, lost: asyncio.Event, seconds: float) -> Any:
    """The result; None where `lost` comes first, TimeoutError where neither comes."""
    result, gone = asyncio.ensure_future(_result(future)), asyncio.ensure_future(lost.wait())
    try:
        for turn in turns(seconds):
            done, _ = await asyncio.wait({result, gone}, timeout=turn, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return result.result() if result in done else None
        raise TimeoutError
    finally:
        result.cancel()
        gone.cancel()


async def _result(future: DaskFuture) -> Any:
    return await future


@dataclass(frozen=True)
class _Workers(Executor):
    """Where a BuildExecutor's jobs go."""

    cluster: Cluster

    def submit(self, fn: Callable[..., T], /, *words: Any, **named: Any) -> Future[T]:
        del fn, named
        (job,) = words
        work: Any = self.cluster.build(job, process.seconds_left())
        return self.cluster.link.start(work)


@dataclass(frozen=True)
class _Dask:
    """A worker of a device, by Dask."""

    cluster: Cluster
    member: Member

    @property
    def name(self) -> str:
        return self.member.name

    def require(self) -> None:
        self.cluster.require(self.member)

    def ask(self, request: Message, *, timeout: float, files: Mapping[str, bytes]) -> Message:
        words = (json.dumps(request).encode(), list(files.items()))
        answer: Message = self._call(tasks.ask_device, *words, timeout=timeout, device=True)
        return answer

    def put(self, path: Path, name: str) -> None:
        size, offset = path.stat().st_size, 0
        with path.open("rb") as file:
            while True:
                data = file.read(PIECE_BYTES)
                last = offset + len(data) >= size
                self._call(tasks.put_file, name, offset, data, last, timeout=0.0)
                offset += len(data)
                if last:
                    return

    def result(self, digest: str, size: int) -> bytes:
        whole = b""
        while len(whole) < size:
            piece = self._call(tasks.read_result, digest, len(whole), timeout=0.0)
            if not piece:
                raise WorkerLostError(f"worker {self.name} has lost a result.", remedy="Go on with --resume.")
            whole += piece
        return whole

    def _call(self, function: Callable[..., Any], *words: Any, timeout: float, device: bool = False) -> Any:
        return self.cluster.link.run(self.cluster.call(self.member, function, *words, timeout=timeout, device=device))
