"""The connection to a child process that keeps a device open; the child is started when needed, and again after a
crash."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.devices.child_base import LENGTH, Message, frame
from autotuner.devices.process import confinement, missing
from autotuner.errors import AutotuneError, EnvironmentFailure, OutOfTimeError
from autotuner.system import process
from autotuner.targets.naming import iree_uri

if TYPE_CHECKING:
    from autotuner.iree.compile import FailureClass

_CHILD = "autotuner.devices.child"
"""The child's module by name: an import would load IREE's runtime here."""
OPEN_SECONDS = 120.0
"""The time limit of opening a device: a GPU's first context takes seconds, many on a busy machine."""


class RequestFailed(Exception):
    """A request that got an error or no answer."""

    def __init__(self, failure: FailureClass, detail: str) -> None:
        self.failure: FailureClass = failure
        super().__init__(detail)


@dataclass(eq=False)
class Connection:
    """One child process; requests are answered one at a time."""

    uri: str
    log: Path
    """The output of the child and its driver."""
    command: Sequence[str | Path] = tuple(process.own_module(_CHILD))
    on_open: Callable[[], None] = lambda: None
    """The first request to a new child."""
    missing: Callable[[str, str], AutotuneError] = missing
    """Makes the error for a device that does not open, from its URI and the reason."""
    opened: Message = field(default_factory=dict)
    """The child's answer when it opened the device."""
    starts: int = 0
    """The number of children started so far."""
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def open(self) -> None:
        """Starts the child unless it runs; DeviceError when the device does not open."""
        with self._lock:
            self._open()

    def ask(self, request: Message, *, timeout: float) -> Message:
        """The answer; RequestFailed where there is an error or none, EnvironmentFailure where the machine is at fault,
        OutOfTimeError where the run's deadline cuts it off."""
        with self._lock:
            answer = self._asked(request, timeout=timeout)
            if "error" in answer:
                if not answer["usable"]:
                    self.close()
                if "remedy" in answer:
                    raise EnvironmentFailure(answer["error"], remedy=answer["remedy"])
                raise RequestFailed("run-error", answer["error"])
            return answer

    def _asked(self, request: Message, *, timeout: float) -> Message:
        """Asks again where the child is gone: it may have been gone before, so a request is to blame only if it ends
        another child, too."""
        try:
            self._open()
            return self._exchange(request, timeout=timeout)
        except RequestFailed as lost:
            if lost.failure == "run-timeout":
                raise
        self._open()
        return self._exchange(request, timeout=timeout)

    def close(self) -> None:
        """Kills the child."""
        with self._lock:
            if self._child is not None:
                process.end(self._child)
            self._child = None

    def _open(self) -> None:
        """Starts the child unless it runs; DeviceError when the device does not open."""
        if self._child is not None and self._child.poll() is None:
            return
        self.close()
        self.starts += 1
        with self.log.open("wb") as log:
            folder = self.log.parent
            self._child = process.start(self.command, stderr=log, cwd=folder, writes=confinement(self.uri, folder))
        try:
            self.opened = self._exchange({"ask": "open", "device": iree_uri(self.uri)}, timeout=OPEN_SECONDS)
            why = self.opened.get("error", "")
        except RequestFailed as lost:
            why = str(lost)
        if why:
            self.close()
            raise self.missing(self.uri, why)
        self.on_open()

    def _exchange(self, request: Message, *, timeout: float) -> Message:
        """Sends one request and reads one answer; a child that gives none is killed."""
        try:
            if process.seconds_left() <= 0:
                raise OutOfTimeError
            return self._answer(request, min(time.monotonic() + timeout, process.deadline()))
        except TimeoutError:
            cut_off = process.seconds_left() <= 0
            self.close()
            if cut_off:
                raise OutOfTimeError from None
            raise RequestFailed("run-timeout", f"killed after {timeout:.0f} s") from None
        except BaseException:
            self.close()
            raise

    def _answer(self, request: Message, ends: float) -> Message:
        running = self._child
        if running is None or running.stdin is None:
            raise RequestFailed("run-error", "the device's process is gone")
        try:
            running.stdin.write(frame(request))
        except OSError:
            raise RequestFailed("run-error", self._last_words(running)) from None
        (size,) = LENGTH.unpack(self._read(running, LENGTH.size, ends))
        answer: Message = json.loads(self._read(running, size, ends))
        return answer

    def _read(self, running: subprocess.Popen[bytes], size: int, ends: float) -> bytes:
        """Exactly so many bytes, before this moment."""
        data = b""
        while len(data) < size and running.stdout is not None:
            ready, _, _ = select.select([running.stdout], [], [], max(ends - time.monotonic(), 0.0))
            if not ready:
                raise TimeoutError
            part = os.read(running.stdout.fileno(), size - len(data))
            if not part:
                raise RequestFailed("run-error", self._last_words(running))
            data += part
        return data

    def _last_words(self, running: subprocess.Popen[bytes]) -> str:
        """How the child ended, in words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(timeout=5)
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return process.Finished(running.returncode or 0, "", text, 0.0, timed_out=False).why()
