"""A real cluster on this machine: the services of docs/cluster.md, each a process with a cache of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import yaml

from autotuner.cluster.address import Scheduler
from tests.support.patience import ENOUGH, wait_until

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "cluster"
SERVICES: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]


def command_of(service: str, instead: Mapping[str, str]) -> list[str | Path]:
    """As a container has it; `instead`: what a process of this machine has."""
    program, *words = SERVICES[service]["command"]
    return [Path(sys.executable).with_name(program), *(instead.get(word, word) for word in words)]


@dataclass
class Started:
    """A process, and the file of what it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def of(cls, command: Sequence[str | Path], log: Path, **environment: str) -> Started:
        with log.open("wb") as file:
            whole = {**os.environ, **environment}
            return cls(subprocess.Popen(list(map(str, command)), stdout=file, stderr=file, env=whole), log)

    def says(self, words: str) -> str:
        """The line with these words, once it is there."""
        found: list[str] = []

        def said() -> bool:
            found[:] = [line for line in self.log.read_text(errors="replace").splitlines() if words in line]
            return bool(found) or self.process.poll() is not None

        assert wait_until(said, seconds=ENOUGH)
        assert found, self.log.read_text(errors="replace")
        return found[0]

    def end(self) -> None:
        for number in (signal.SIGCONT, signal.SIGTERM):
            self.process.send_signal(number)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def make_certificates(folder: Path) -> Path:
    """As docs/cluster.md says: the configuration of Dask that names them."""
    subprocess.run([EXAMPLE / "certificates.sh", folder], check=True, capture_output=True, timeout=ENOUGH)
    return folder / "dask.yaml"


@dataclass
class LocalCluster:
    """A scheduler, and the workers that were started."""

    folder: Path
    address: str
    dask_config: Path
    scheduler: Started
    share_digests: Callable[[Path], None]
    workers: dict[str, Started] = field(default_factory=dict)

    def start(self, name: str, *, device: bool = False) -> Started:
        """A worker with a cache of its own, and with this processor for its GPU; it may not have joined yet."""
        cache = self.folder / f"cache-{name}"
        self.share_digests(cache)
        instead = {"tls://scheduler:8786": self.address, "--device=cuda://0": "--device=local-task"}
        command = [*command_of("gpu0" if device else "builder", instead), "--jobs", "1", "--name", name]
        environment = {
            "AUTOTUNE_CACHE_DIR": str(cache),
            "TMPDIR": str(self.folder),
            "DASK_CONFIG": str(self.dask_config),
        }
        self.workers[name] = Started.of(command, self.folder / f"{name}.log", **environment)
        return self.workers[name]

    def join(self, *names: str) -> None:
        """Once these have joined."""
        for name in names:
            self.workers[name].says(f"worker {name} of ")

    @contextmanager
    def scheduler_of_a_coordinator(self) -> Iterator[Scheduler]:
        """As one sees it whose DASK_CONFIG is the cluster's."""
        tls = yaml.safe_load(self.dask_config.read_text())["distributed"]["comm"]["tls"]
        with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in tls.items()}):
            yield Scheduler(self.address)

    def kill(self, name: str) -> None:
        self.workers[name].process.kill()


@contextmanager
def local_cluster(folder: Path, share_digests: Callable[[Path], None]) -> Iterator[LocalCluster]:
    """A scheduler by TLS, and no worker yet."""
    dask_config = make_certificates(folder / "certificates")
    command = [*command_of("scheduler", {"--port=8786": "--port=0"}), "--host", "127.0.0.1"]
    scheduler = Started.of(command, folder / "scheduler.log", DASK_CONFIG=str(dask_config))
    try:
        address = scheduler.says("Scheduler at:").split()[-1]
        cluster = LocalCluster(folder, address, dask_config, scheduler, share_digests)
        try:
            yield cluster
        finally:
            for worker in cluster.workers.values():
                worker.end()
    finally:
        scheduler.end()
