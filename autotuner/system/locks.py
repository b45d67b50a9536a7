"""Who may use a workspace or a device now. The kernel holds the locks, so a killed run leaves none behind."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
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

_POLL_SECONDS = 0.2

# A lock lives as long as any process has its file open, and a forked worker would have it: it must let go,
# or a worker that outlives a killed run keeps the next run out.
_held: set[int] = set()


def _let_go_in_child() -> None:
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def workspace_lock(workspace: Path) -> Iterator[None]:
    """Alone in the workspace; BusyError at once when somebody is there already."""
    file = _of_workspace(workspace)
    with file_lock(file, what="this workspace", remedy="wait for it or choose another --workspace."):
        yield


@contextmanager
def nobody_works_in(workspace: Path) -> Iterator[bool]:
    """Whether no run holds the workspace; where that is so, none begins within."""
    try:
        file = os.open(_of_workspace(workspace), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        yield isinstance(error, FileNotFoundError)  # no run has ever held it; who may not look does not know
        return
    free = False
    try:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(file)


def _of_workspace(workspace: Path) -> Path:
    return workspace / "results" / ".autotune.lock"


@contextmanager
def file_lock(path: Path, *, what: str, remedy: str) -> Iterator[None]:
    """Alone with what this file stands for; BusyError when somebody else has it.

    Whoever only looks whether it is held holds it for a moment, so it is tried for twice.
    """
    with _locked(path, what=what, remedy=remedy, timeout=_POLL_SECONDS):
        yield


@contextmanager
def device_lock(
    name: str,
    cache_dir: Path,
    *,
    on_wait: Callable[[str], None] | None = None,
    timeout: float = math.inf,
    given_up: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Alone on the device. Waits for it, and tells `on_wait` who has it.

    BusyError after `timeout` seconds; KeyboardInterrupt where the user has `given_up`.
    """
    path = cache_dir / "locks" / f"{_file_name(name)}.lock"

    def tell(holder: str) -> None:
        if on_wait is not None:
            on_wait(f"waiting for device {name}: {holder} is using it")

    remedy = "wait for it or choose another --device."
    with _locked(path, what=f"device {name}", remedy=remedy, timeout=timeout, tell=tell, given_up=given_up):
        yield


@contextmanager
def _locked(
    path: Path,
    *,
    what: str,
    remedy: str,
    timeout: float,
    tell: Callable[[str], None] = lambda _: None,
    given_up: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        start, told = time.monotonic(), False
        while not _take(file, path):
            if given_up():
                raise KeyboardInterrupt
            if time.monotonic() - start >= timeout:
                raise BusyError(f"{_holder(file)} is using {what};", remedy=remedy)
            if not told:
                tell(_holder(file))
                told = True
            time.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(file)
        raise
    with _holding(file):
        yield


def _take(file: int, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error
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


def _holder(file: int) -> str:
    """Who has a lock. It is read without the lock: it may be empty or half written just then."""
    try:
        who = json.loads(os.pread(file, 65536, 0))
        return f"another autotune run (pid {who['pid']}, started {who['started']})"
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
