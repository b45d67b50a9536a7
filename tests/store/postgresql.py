"""A PostgreSQL server of a test's own, which it may stop."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.patience import ENOUGH

POSTGRESQL = "AUTOTUNE_TEST_POSTGRESQL"
"""The URL of a database that the tests may write to. Where it is set, every test of PostgreSQL must run."""
PASSWORD = "s3cr3t-of-the-server"
_INSTALLED = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Server:
    """A server in a folder of its own; any password is the right one."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int, *, schema: str = "") -> str:
        options = f"&options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres?connect_timeout={ENOUGH:.0f}{options}"

    def run(self, *words: str) -> None:
        """PostgreSQL refuses to be run by root."""
        who = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        done = subprocess.run([*who, *words], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        options += " -c wal_writer_delay=10s"  # what is not committed is lost with the server
        self._control(f"--log={self.folder}/log", f"--options={options}", "start")

    def stop(self) -> None:
        """As a machine that loses its power: nothing is said to its clients, and the log is recovered at the start."""
        self._control("--mode=immediate", "stop")

    def _control(self, *words: str) -> None:
        self.run(f"{self.programs}/pg_ctl", f"--pgdata={self.folder}/db", "--wait", "--silent", *words)


@contextmanager
def own_server() -> Iterator[Server]:
    """Skipped where PostgreSQL is not installed, unless the environment says that its tests must run."""
    newest = sorted(_INSTALLED.glob("*/bin"), key=lambda path: int(re.sub(r"\D", "", path.parent.name) or 0))
    usable = bool(newest) and (os.geteuid() != 0 or shutil.which("runuser") is not None)
    if not usable and POSTGRESQL not in os.environ:
        pytest.skip(f"there is no PostgreSQL server in {_INSTALLED}")
    pytest.importorskip("psycopg", reason="the extra `postgresql` is not installed")
    folder = Path(tempfile.mkdtemp(prefix="autotune-postgresql-"))  # its socket's path must be short
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        server = Server(newest[-1], folder, free_port())
        server.run(f"{server.programs}/initdb", f"--pgdata={folder}/db", "--auth=trust", "--no-sync")
        server.start()
        try:
            yield server
        finally:
            with suppress(AssertionError):  # a test may have left it stopped
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
