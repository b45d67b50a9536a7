"""The address of a cluster's scheduler, its security, and the functions that Dask calls on a worker.

Dask is imported when it is needed. The scheduler imports this module as well, to pass `on_worker` on: it must need next
to nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from autotuner.errors import EnvironmentFailure, UsageError

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.security import Security

    from autotuner.build.builder import Builder
    from autotuner.build.machines import Machines, Note, Wanted

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
PLUGIN = "autotune"
JOIN_SECONDS = 30.0
"""The time limit of a coordinator that waits for workers, and of a worker for its scheduler."""


def build(*words: Any) -> Any:
    """A Dask task that builds with the worker's plugin."""
    from distributed import get_worker

    return get_worker().plugins[PLUGIN].build(*words)


async def on_worker(method: str, *words: Any, dask_worker: Worker) -> Any:
    """Runs a method of a worker's plugin, in a thread beside its event loop."""
    return await asyncio.to_thread(getattr(dask_worker.plugins[PLUGIN], method), *words)


def need_dask() -> None:
    """Raises an EnvironmentFailure where Dask is not installed."""
    if find_spec("distributed") is None:
        raise EnvironmentFailure(
            "a cluster needs the Python package distributed (Dask).",
            remedy="Install it with `pip install distributed`.",
        )


@dataclass(frozen=True)
class Scheduler:
    """A Dask scheduler's address.

    Whoever reaches a Dask scheduler can run code on its workers. So beyond this machine only TLS with certificates on
    both sides is taken, unless the user says that the network itself keeps others out.
    """

    address: str
    insecure: bool = False
    """Accept plain tcp:// from anywhere."""

    def __post_init__(self) -> None:
        found = _ADDRESS.fullmatch(self.address)
        if found is None or not 0 < int(found[3]) < 2**16:
            raise UsageError(
                f"{self.address!r} is no address of a Dask scheduler.",
                remedy="Write it as tls://HOST:PORT, or tcp://127.0.0.1:PORT on this machine.",
            )
        if not self.encrypted and not self.on_loopback and not self.insecure:
            raise UsageError(
                f"{self.address} is neither encrypted nor on this machine, and whoever reaches it can run code on its "
                "workers.",
                remedy="Use tls:// with certificates, or --insecure-cluster where the network keeps all others out.",
            )

    @property
    def encrypted(self) -> bool:
        return self.address.startswith("tls://")

    @property
    def host(self) -> str:
        return self.address.partition("://")[2].rpartition(":")[0].strip("[]")

    @property
    def on_loopback(self) -> bool:
        """Whether the address is this machine's; names are not resolved, as they may change."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def security(self) -> Security:
        """The certificates that Dask's configuration names."""
        from distributed.security import Security

        security = Security(require_encryption=self.encrypted)
        if self.encrypted and not security.tls_ca_file:
            raise EnvironmentFailure(
                f"no certificate authority is named for {self.address}.",
                remedy="Set DASK_CONFIG to the dask.yaml that names it: docs/cluster.md.",
            )
        return security

    def machines(self, builder: Builder, wanted: Wanted, *, note: Note) -> AbstractContextManager[Machines]:
        """Its workers as machines, for the length of a command."""
        need_dask()
        from autotuner.cluster.coordinator import machines

        return machines(self, builder, wanted, note)

    def unreachable(self, error: BaseException) -> EnvironmentFailure:
        """The error where nobody answers."""
        said = str(error).strip().splitlines()
        return EnvironmentFailure(
            f"the scheduler {self.address} does not answer: {said[-1] if said else type(error).__name__}",
            remedy="Start `dask scheduler`, and check the address and the certificates.",
        )
