"""Who is in a cluster while a run goes on: the scheduler is asked, and what is lost is said."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

from distributed.client import FutureCancelledError

from autotuner.cluster.address import Scheduler
from autotuner.cluster.link import Link
from autotuner.cluster.roster import Roster
from autotuner.errors import EnvironmentFailure

LOOK_SECONDS = 1.0
"""How often the scheduler is asked who is there."""
JOIN_SECONDS = 30.0
"""How long workers are waited for where none can be used."""


@dataclass(frozen=True, eq=False)
class UnderWay:
    """A build that was sent out."""

    workers: frozenset[str]
    """Addresses of those that may take it."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where it must be sent out anew: its worker is lost, or all that may take it."""


@dataclass(eq=False)
class Attendance:
    """The workers that are there, and whether the scheduler is."""

    link: Link
    scheduler: Scheduler
    roster: Roster
    down: str = ""
    """Why the scheduler is gone."""
    builds: dict[str, UnderWay] = field(default_factory=dict)
    """Those under way, by key."""
    _waiting: bool = False
    """It is said that workers are waited for."""

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except (OSError, ValueError) as error:
                self.down = str(error) or type(error).__name__
                for build in self.builds.values():
                    build.moved.set()
                for member in [*self.roster.builders(), *self.roster.devices()]:
                    member.lost.set()
                return

    async def look(self) -> None:
        told = await self.link.client.scheduler.identity(n_workers=-1)
        self.roster.update(told["workers"])
        there = set(told["workers"])
        await self.move_builds(self.roster.dropped & there)
        for build in self.builds.values():
            # Dask keeps what nobody may take, for ever.
            if build.workers.isdisjoint(there - self.roster.dropped):
                build.moved.set()

    async def move_builds(self, addresses: set[str]) -> None:
        """Dask moves the work of workers that are gone. Those that are silent it gives more of what was queued."""
        if not addresses:
            return
        under_way = await self.link.client.processing()
        for address in addresses & set(under_way):
            for key in under_way[address]:
                if key in self.builds:
                    self.builds[key].moved.set()

    async def wait_for_workers(self) -> None:
        for waited in range(math.ceil(JOIN_SECONDS / LOOK_SECONDS)):
            if self.down:
                raise self.gone()
            if self.roster.builders() and (self.roster.devices() or not self.roster.timed):
                self._waiting = False
                return
            if self.roster.refusals and not self.roster.dropped and waited * LOOK_SECONDS > JOIN_SECONDS / 10:
                break  # who is there is told at once; who is not yet may still come
            if not self._waiting:
                self._waiting = True
                self.roster.note(f"waiting for a worker {self._wanted}")
            await asyncio.sleep(LOOK_SECONDS)
        raise self.nobody()

    @property
    def _wanted(self) -> str:
        """What is missing."""
        device = self.roster.timed and bool(self.roster.builders())
        return "with a device that can be timed" if device else "that can be used"

    def nobody(self) -> EnvironmentFailure:
        where, reasons = self.scheduler.address, "; ".join(self.roster.reasons())
        option = f" --device {self.roster.target.device}" if self.roster.timed else ""
        after = ", and go on with --resume" if self.roster.dropped else ""
        any_more = " any more" if self.roster.dropped else ""
        return EnvironmentFailure(
            f"{where} has no worker {self._wanted}{any_more}{': ' + reasons if reasons else ''}.",
            remedy=f"Start one with `autotune worker{option} {where}`{after}.",
        )

    def gone(self) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"the scheduler {self.scheduler.address} is gone: {self.down}.",
            remedy="Start it and its workers again, and go on with --resume.",
        )

    def forgotten(self, error: FutureCancelledError) -> EnvironmentFailure:
        """Nobody takes work back here: what is cancelled is what a scheduler has taken along."""
        self.down = self.down or f"its connection is lost ({error.reason})"
        return self.gone()
