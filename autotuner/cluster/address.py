"""Where a cluster's scheduler is, and what is accepted of its network. Nothing of Dask is imported here."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import UsageError

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
_MOST_PORT = 65535


@dataclass(frozen=True)
class Scheduler:
    """A Dask scheduler, and the certificates that it and its clients show each other.

    Whoever reaches a Dask scheduler can run code on its workers. So beyond this machine only TLS with certificates on
    both sides is taken, unless the user says that the network itself keeps others out.
    """

    address: str
    insecure: bool = False
    """Plain tcp:// is taken from anywhere."""
    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        found = _ADDRESS.fullmatch(self.address)
        if found is None or not 0 < int(found[3]) <= _MOST_PORT:
            raise UsageError(
                f"{self.address!r} is no address of a Dask scheduler.",
                remedy="Write it as tls://HOST:PORT, or tcp://127.0.0.1:PORT on this machine.",
            )
        files = list(self._files())
        if not self.encrypted and files:
            names = ", ".join(name for name, _ in files)
            raise UsageError(f"{names} has no meaning with {self.address}.", remedy="Write the address as tls://….")
        for name, file in files:
            if not file.is_file():
                raise UsageError(f"{name} {file} is not a file.", remedy="Check its path.")
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
        """Names are not looked up: who answers for one may change."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def _files(self) -> Iterator[tuple[str, Path]]:
        named = {"--tls-ca-file": self.ca_file, "--tls-cert": self.cert, "--tls-key": self.key}
        return ((name, file) for name, file in named.items() if file is not None)
