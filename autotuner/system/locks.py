"""Who may use a workspace or a device now. The kernel holds the locks, so a killed run leaves none behind."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock, RLock

from autotuner.errors import BusyError, StorageError
from autotuner.system.settings import given_command

POLL_SECONDS = 0.2
_LOOKS, _LOOK_SECONDS = 5, 0.05
"""How often a lock is tried for: whoever only looks whether it is held holds it for a moment."""

# A lock lives as long as any process has its file open, and a forked worker would have it: it must let go,
# or a worker that outlives a killed run keeps the next run out.
_held: set[int] = set()


def _let_go_in_child() -> None:
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a lock, as far as its file tells."""

    pid: int
    command: tuple[str, ...]
    started: str

    def __str__(self) -> str:
        return f"another autotune run (pid {self.pid}, started {self.started})"


@contextmanager
def workspace_lock(workspace: Path) -> Iterator[None]:
    """Alone in the workspace; BusyError at once when somebody is there already."""
    with file_lock(
        _of_workspace(workspace), what="this workspace", remedy="wait for it or choose another --workspace."
    ):
        yield


@contextmanager
def nobody_works_in(workspace: Path) -> Iterator[bool]:
    """Whether no run holds the workspace; where that is so, none begins within."""
    try:
        file = os.open(_of_workspace(workspace), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True  # no run has ever held it
        return
    except OSError:
        yield False  # who may not look does not know
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        os.close(file)


def _of_workspace(workspace: Path) -> Path:
    return workspace / "results" / ".autotune.lock"


@contextmanager
def file_lock(path: Path, *, what: str, remedy: str) -> Iterator[None]:
    """Alone with what this file stands for; BusyError at once when somebody else has it."""
    file = _open(path)
    if not _take_soon(file):
        who = _holder(file)
        os.close(file)
        raise BusyError(f"{who} is using {what};", remedy=remedy)
    with _holding(file):
        yield


@contextmanager
def device_lock(
    name: str,
    cache_dir: Path,
    *,
    on_wait: Callable[[str], None] | None = None,
    every: float = 10.0,
    timeout: float | None = None,
    given_up: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Alone on the device. Waits for it, telling `on_wait` at once, after `every` seconds, and ever more rarely.

    BusyError after `timeout` seconds; KeyboardInterrupt where the user has `given_up`.
    """
    file = _open(cache_dir / "locks" / f"{_file_name(name)}.lock")
    try:
        _wait(file, name, on_wait=on_wait, every=every, timeout=timeout, given_up=given_up)
    except BaseException:
        os.close(file)
        raise
    with _holding(file):
        yield


def _wait(
    file: int,
    name: str,
    *,
    on_wait: Callable[[str], None] | None,
    every: float,
    timeout: float | None,
    given_up: Callable[[], bool],
) -> None:
    start, tell_at = time.monotonic(), 0.0
    while not _take(file):
        if given_up():
            raise KeyboardInterrupt
        waited = time.monotonic() - start
        if timeout is not None and waited >= timeout:
            remedy = "wait for it or choose another --device."
            raise BusyError(f"{_holder(file)} is using device {name};", remedy=remedy)
        if on_wait is not None and waited >= tell_at:
            so_far = f", {waited:.0f} s so far" if tell_at else ""
            on_wait(f"waiting for device {name}: {_holder(file)} is using it{so_far}")
            tell_at = max(2 * tell_at, every)
        time.sleep(POLL_SECONDS)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unusable(path, error) from error


def _take_soon(file: int) -> bool:
    for _ in range(_LOOKS):
        if _take(file):
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _take(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unusable(Path(f"/proc/self/fd/{file}").resolve(), error) from error
    return True


@contextmanager
def _holding(file: int) -> Iterator[None]:
    _held.add(file)
    try:
        with suppress(OSError):  # the name is a courtesy to the others; a full disk must not cost the lock
            started = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}"
            who = {"pid": os.getpid(), "command": given_command(), "started": started}
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(who).encode(), 0)
        yield
    finally:
        if file in _held:  # not so in a forked child, where it is closed already
            _held.remove(file)
            with suppress(OSError):
                os.ftruncate(file, 0)
            os.close(file)


def _holder(file: int) -> Holder | str:
    """Read without the lock: it may be empty or half written just then."""
    try:
        who = json.loads(os.pread(file, 65536, 0))
        return Holder(pid=int(who["pid"]), command=tuple(who["command"]), started=str(who["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "another autotune run"


def _file_name(device: str) -> str:
    """A device URI as a file name; the digest keeps apart what the replacement makes alike."""
    digest = hashlib.sha256(device.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', device)[:100]}-{digest}"


def _unusable(path: Path, error: OSError) -> StorageError:
    remedy = "Check that you may write there and that its file system has locks, or choose another --workspace."
    return StorageError(f"{path} cannot be locked ({error.strerror}).", remedy=remedy)


# --- Of threads that want the same thing, one makes it; the others wait ---------------------------------------------


@dataclass
class _Place:
    """What one thing is guarded by, as long as somebody has it or waits for it."""

    lock: RLock = field(default_factory=RLock)
    users: int = 0


_places: dict[Hashable, _Place] = {}
_guard = Lock()


def _forget_in_child() -> None:
    """A forked child has none of the threads that would let go."""
    global _guard
    _guard = Lock()
    _places.clear()


os.register_at_fork(after_in_child=_forget_in_child)


@contextmanager
def one_at_a_time(key: Hashable) -> Iterator[None]:
    """Alone, in this process, with what the key stands for; a thread that has it may take it again."""
    with _guard:
        place = _places.setdefault(key, _Place())
        place.users += 1
    try:
        with place.lock:
            yield
    finally:
        with _guard:
            place.users -= 1
            if not place.users:
                _places.pop(key, None)
