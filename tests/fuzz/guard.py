"""Watches what a parser does: files that it writes, programs that it starts, how long it takes, how much memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MEMORY = 1 << 30
"""Bytes that one parser may take, beside what the process has."""
SECONDS = 30
"""For one file, on a loaded machine: what takes longer hangs."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod")
_STARTS = (
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn", "pty.spawn"),
    *("socket.connect", "socket.bind", "ctypes.dlopen"),
)


class _Guard:
    """What the interpreter tells about itself, as long as a folder is watched."""

    folder: str = ""
    started: list[str]
    outside: list[str]

    def __call__(self, event: str, words: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        if event in _STARTS:
            self.started.append(f"{event} {words!r:.200}")
        elif event in _CHANGES or (event == "open" and int(words[2] or 0) & _WRITES):
            self._written(words[0])

    def _written(self, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike) or os.fsdecode(path) == os.devnull:
            return
        if not f"{os.path.abspath(os.fsdecode(path))}/".startswith(f"{self.folder}/"):
            self.outside.append(os.fsdecode(path))


_GUARD = _Guard()
sys.addaudithook(_GUARD)


@contextmanager
def watched(folder: Path) -> Iterator[_Guard]:
    """While the block runs, what is written outside of the folder and what is started is noted; a hang is an error."""
    _GUARD.started, _GUARD.outside, _GUARD.folder = [], [], str(folder)
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(SECONDS)
    try:
        yield _GUARD
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        _GUARD.folder = ""


def _hangs(*_: object) -> None:
    raise RuntimeError(f"it takes longer than {SECONDS} s")


@contextmanager
def bounded() -> Iterator[None]:
    """While the block runs, this process has `MEMORY` more than it has now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
