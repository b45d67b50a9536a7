"""Devices of workers that join during a run: they are taken and opened beside it, and handed over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from autotuner.cluster.attendance import LOOK_SECONDS
from autotuner.cluster.coordinator import Cluster
from autotuner.cluster.remote import RemoteDevice
from autotuner.cluster.roster import Member
from autotuner.devices.conditions import DeviceState
from autotuner.errors import AutotuneError


@dataclass(eq=False)
class _Newcomers:
    """Those that a run did not begin with."""

    cluster: Cluster
    join: Callable[[RemoteDevice], None]
    isolate: bool
    state: DeviceState
    shared: bool
    """Builds and timings took turns when the run began: that must not change with a device."""
    opened: list[RemoteDevice] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    _seen: set[str] = field(default_factory=set)

    def watch(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            try:
                taken = self.cluster.link.run(self._taken())
            except (AutotuneError, OSError):  # the scheduler is gone: the run itself says so
                return
            for member in taken:
                device = self.cluster.opened(member, self.isolate, self.state)
                if device is not None:
                    self.opened.append(device)
                    self.join(device)
                    self.cluster.roster.note(f"worker {member.name} has joined: its device takes part")

    async def _taken(self) -> list[Member]:
        """Each is tried once: one that another coordinator has is that one's."""
        roster = self.cluster.roster
        new = [one for one in roster.devices() if one.address not in self._seen and not self.cluster.has(one)]
        self._seen.update(one.address for one in new)
        return [one for one in new if roster.shares_cores == self.shared and await self.cluster.lease(one)]


@contextmanager
def welcoming(
    cluster: Cluster, join: Callable[[RemoteDevice], None], *, isolate: bool, state: DeviceState
) -> Iterator[None]:
    """Within it, devices that come are handed to `join`, open; afterwards they are closed."""
    newcomers = _Newcomers(cluster, join, isolate, state, cluster.roster.shares_cores)
    thread = threading.Thread(target=newcomers.watch, name="newcomers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        newcomers.ended.set()
        thread.join()
        for device in newcomers.opened:
            with suppress(AutotuneError):
                device.close()
