"""Locks of workspaces and devices. The kernel holds them, so a killed run leaves none behind."""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock, RLock
from urllib.parse import quote
from weakref import WeakValueDictionary

from autotuner.errors import BusyError, StorageError
from autotuner.system.settings import given_command

_POLL_SECONDS = 0.2


def workspace_lock(workspace: Path) -> AbstractContextManager[None]:
    """Locks the workspace; BusyError at once if it is taken."""
    remedy = "wait for it or choose another --workspace."
    return file_lock(_of_workspace(workspace), what="this workspace", remedy=remedy)


@contextmanager
def nobody_works_in(workspace: Path) -> Iterator[bool]:
    """Whether no run holds the workspace; if so, none begins within the block."""
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


def device_lock(
    name: str,
    cache_dir: Path,
    *,
    on_wait: Callable[[str], None] = lambda _: None,
    timeout: float = math.inf,
    given_up: Callable[[], bool] = lambda: False,
) -> AbstractContextManager[None]:
    """Locks the device. Waits for it, and tells `on_wait` who has it.

    BusyError after `timeout` seconds; KeyboardInterrupt where the user has `given_up`.
    """
    return file_lock(
        cache_dir / "locks" / f"{quote(name, safe='')[:200]}.lock",
        what=f"device {name}",
        remedy="wait for it or choose another --device.",
        timeout=timeout,
        tell=lambda holder: on_wait(f"waiting for device {name}: {holder} is using it"),
        given_up=given_up,
    )


@contextmanager
def file_lock(
    path: Path,
    *,
    what: str,
    remedy: str,
    timeout: float = _POLL_SECONDS,
    tell: Callable[[str], None] = lambda _: None,
    given_up: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Locks a file; BusyError if somebody else has it.

    A process that only looks at the lock holds it for a moment, so there are two tries.
    """
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
        _write(file, _signature())
        yield
        _write(file, b"")
    finally:
        os.close(file)


def _take(file: int, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error
    return True


def _signature() -> bytes:
    started = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}"
    return json.dumps({"pid": os.getpid(), "command": given_command(), "started": started}).encode()


def _write(file: int, who: bytes) -> None:
    """Writes the holder's name for others; a full disk must not cost the lock."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, who, 0)


def _holder(file: int) -> str:
    """The holder of a lock, read without it: the file may be empty or half written."""
    try:
        who = json.loads(os.pread(file, 65536, 0))
        return f"another autotune run (pid {who['pid']}, started {who['started']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another autotune run"


def _unusable(path: Path, error: OSError) -> StorageError:
    check = "Check that you may write there and that its file system has locks"
    remedy = f"{check}, or choose another --workspace or AUTOTUNE_CACHE_DIR."
    return StorageError(f"{path} cannot be locked ({error.strerror}).", remedy=remedy)


# --- Of threads that want the same thing, one makes it; the others wait ---------------------------------------------


_locks: WeakValueDictionary[Hashable, RLock] = WeakValueDictionary()
_guard = Lock()


@contextmanager
def one_at_a_time(key: Hashable) -> Iterator[None]:
    """A lock by key within this process; it is reentrant."""
    with _guard:
        lock = _locks.setdefault(key, RLock())
    with lock:
        yield
