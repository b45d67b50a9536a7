"""A cluster's worker without a cluster: in this process, and all that goes to and fro is plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.build.builder import Builder
from autotuner.cluster.remote import RemoteDevice
from autotuner.cluster.wire import Message
from autotuner.cluster.workplace import PIECE_BYTES, Workplace
from autotuner.iree.tools import Tools
from autotuner.system.cache import Cache


@dataclass
class NearWorker:
    workplace: Workplace
    name: str = "near"
    sent: list[str] = field(default_factory=list)
    """The names of files, in the order in which they were sent."""

    def require(self) -> None:
        """It is here."""

    def ask(self, request: Message, *, timeout: float, files: Mapping[str, bytes]) -> Message:
        del timeout
        for name, data in files.items():
            self.sent.append(name)
            self.workplace.put(name, 0, data, last=True)
        answer: Message = json.loads(json.dumps(self.workplace.ask(json.loads(json.dumps(request)))))
        return answer

    def put(self, path: Path, name: str) -> None:
        data = path.read_bytes()
        self.sent.append(name)
        for offset in range(0, max(len(data), 1), PIECE_BYTES):
            last = offset + PIECE_BYTES >= len(data)
            self.workplace.put(name, offset, data[offset : offset + PIECE_BYTES], last=last)

    def result(self, digest: str, size: int) -> bytes:
        whole = b""
        while len(whole) < size:
            whole += self.workplace.result(digest, len(whole))
        return whole


@contextmanager
def near_worker(tools: Tools, folder: Path, uri: str) -> Iterator[NearWorker]:
    """A worker with this device; its files are in the folder."""
    files = folder / "files"
    files.mkdir(parents=True)
    workplace = Workplace(Builder(tools, Cache(folder / "cache")), files, folder / "cache", uri)
    try:
        yield NearWorker(workplace)
    finally:
        workplace.close()


@contextmanager
def near_device(tools: Tools, folder: Path, uri: str) -> Iterator[RemoteDevice]:
    with near_worker(tools, folder, uri) as worker:
        device = RemoteDevice.opened(worker, session="test", isolate=False, state="sustained")
        yield device
        device.close()
