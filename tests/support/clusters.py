"""A real cluster on this machine: a scheduler and workers, each a process of its own with a cache of its own."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.patience import ENOUGH


@dataclass
class WorkerProcess:
    """One worker."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ready(self) -> WorkerProcess:
        """Once it has joined."""
        _wait(self.process, self.log, f"worker {self.name} of ")
        return self


@dataclass
class LocalCluster:
    """The scheduler's address, and the workers that were started."""

    folder: Path
    address: str
    certificates: tuple[str, ...] = ()
    """The options that name them."""
    workers: dict[str, WorkerProcess] = field(default_factory=dict)
    scheduler: subprocess.Popen[bytes] | None = None

    def start(self, name: str, *words: str) -> WorkerProcess:
        """A worker with a cache of its own; it may not have joined yet."""
        cache, log = self.folder / f"cache-{name}", self.folder / f"{name}.log"
        _copy_digests(cache)
        command = [
            sys.executable,
            "-m",
            "autotuner",
            "worker",
            *words,
            "--name",
            name,
            *self.certificates,
            self.address,
        ]
        with log.open("wb") as file:
            environment = {**os.environ, "AUTOTUNE_CACHE_DIR": str(cache), "TMPDIR": str(self.folder)}
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        self.workers[name] = WorkerProcess(name, process, log)
        return self.workers[name]

    def end(self, name: str) -> None:
        worker = self.workers.pop(name)
        worker.send(signal.SIGCONT)
        worker.send(signal.SIGTERM)
        try:
            worker.process.wait(20)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()


@contextmanager
def local_cluster(folder: Path) -> Iterator[LocalCluster]:
    """A scheduler by TLS, and no worker yet."""
    certificates = make_certificates(folder)
    log = folder / "scheduler.log"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--no-dashboard", "--protocol", "tls", *certificates]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        line = _wait(process, log, "Scheduler at:")
        cluster = LocalCluster(folder, line.split()[-1], tuple(certificates), scheduler=process)
        try:
            yield cluster
        finally:
            for worker in cluster.workers.values():
                worker.send(signal.SIGTERM)
            for name in list(cluster.workers):
                cluster.end(name)
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, words: str) -> str:
    """The line of a log with these words, once it is there."""
    ends = time.monotonic() + ENOUGH
    while time.monotonic() < ends:
        text = log.read_text(errors="replace")
        if line := next((line for line in text.splitlines() if words in line), None):
            return line
        assert process.poll() is None, text
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))


def _copy_digests(cache: Path) -> None:
    """What the compiler's bytes are is known: to hash them takes a second of each worker."""
    known = Path(os.environ.get("AUTOTUNE_CACHE_DIR") or Path.home() / ".cache" / "autotune") / "digests"
    if known.is_dir() and not (cache / "digests").is_dir():
        shutil.copytree(known, cache / "digests")


def make_certificates(folder: Path) -> list[str]:
    """A certificate authority, and a certificate of it for this machine."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, x509.BasicConstraints(ca=True, path_length=None))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    own = _certificate(name, ca_name, key, ca_key, x509.BasicConstraints(ca=False, path_length=None))
    files = {"--tls-ca-file": folder / "ca.pem", "--tls-cert": folder / "cert.pem", "--tls-key": folder / "key.pem"}
    pem = serialization.Encoding.PEM
    files["--tls-ca-file"].write_bytes(ca.public_bytes(pem))
    files["--tls-cert"].write_bytes(own.public_bytes(pem))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files["--tls-key"].write_bytes(key.private_bytes(pem, *plain))
    return [word for name, file in files.items() for word in (name, str(file))]


def _certificate(
    name: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    constraints: x509.BasicConstraints,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(constraints, critical=True).add_extension(alternative, critical=False)
    return builder.sign(signer, hashes.SHA256())
