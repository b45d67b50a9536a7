"""The coordinator's side of a cluster: builds go to any worker, and devices are taken for this run alone."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Semaphore
from distributed.client import FutureCancelledError

from autotuner.build.builder import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.cluster import tasks
from autotuner.cluster.address import Scheduler
from autotuner.cluster.attendance import LOOK_SECONDS, Attendance
from autotuner.cluster.builds import Builds
from autotuner.cluster.facts import Facts
from autotuner.cluster.link import ANSWER_SECONDS, Link, first
from autotuner.cluster.remote import RemoteDevice
from autotuner.cluster.roster import Member, Roster
from autotuner.cluster.wire import Message
from autotuner.cluster.workplace import PIECE_BYTES
from autotuner.devices.conditions import DeviceState
from autotuner.errors import AutotuneError, DeviceError, EnvironmentFailure
from autotuner.targets import Target

_BUSY_SECONDS = 5.0


class WorkerLostError(DeviceError):
    """The worker of a device does not answer any more."""


@dataclass(eq=False)
class Cluster:
    """What a run has of a cluster."""

    here: Attendance
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    _leases: dict[str, Semaphore] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def open(
        cls, scheduler: Scheduler, own: Facts, target: Target, *, timed: bool, wanted: str, note: Callable[[str], None]
    ) -> Iterator[Cluster]:
        with Link.open(scheduler) as link:
            cluster = cls(Attendance(link, scheduler, Roster(own, target, timed, wanted, note)))
            link.run(cluster.here.look())
            watch = link.start(cluster.here.watch())
            try:
                link.run(cluster.here.wait_for_workers())
                yield cluster
            finally:
                watch.cancel()
                link.run(cluster._give_back())

    # --- who is there -------------------------------------------------------------------------------------------

    @property
    def link(self) -> Link:
        return self.here.link

    @property
    def roster(self) -> Roster:
        return self.here.roster

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
        return Builds(self.here).executor(builder, here, answers)

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
                raise self.here.nobody()
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
                raise self.here.nobody()

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
            answer = await first(future, member.lost, timeout + ANSWER_SECONDS)
        except TimeoutError:
            self.roster.drop(member, f"has not answered for {timeout + ANSWER_SECONDS:.0f} s")
            await self.here.move_builds({member.address})
            answer = None
        except FutureCancelledError as error:
            raise self.here.forgotten(error) from error
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
        if self.here.down:
            return self.here.gone()
        return WorkerLostError(
            f"worker {member.name} ({member.facts.model or member.facts.device}) is lost.",
            remedy="Start it again, and go on with --resume.",
        )


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
