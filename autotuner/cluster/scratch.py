"""A worker's folder for what it is sent and what it makes: it goes when the worker ends, however that is."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autotuner.errors import BusyError, StorageError
from autotuner.system.locks import file_lock

_PREFIX = "autotune-worker-"
_LOCK = "lock"
_YOUNG_SECONDS = 60.0
"""A folder may be so old before its worker holds it."""


@contextmanager
def scratch() -> Iterator[Path]:
    """This worker's own. Those of workers that were killed are removed first: nobody else would."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, BusyError, StorageError):
            _remove_if_left(folder)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, _held(Path(name)):
        yield Path(name)


def _remove_if_left(folder: Path) -> None:
    found = folder.lstat()
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not own or time.time() - found.st_mtime < _YOUNG_SECONDS or not (folder / _LOCK).is_file():
        return
    with _held(folder):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The kernel lets go of it when the worker ends."""
    with file_lock(folder / _LOCK, what=str(folder), remedy="wait for it."):
        yield
