"""Writes files whole or not at all, and never over files that autotune has not written."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from autotuner.errors import StorageError, UsageError
from autotuner.system import process

Ours = Callable[[Path], bool]
"""Whether a plain file is a document that autotune wrote."""
_HEAD = 1 << 14
"""The bytes at the start of a document that are matched."""


def begins(form: bytes) -> Ours:
    """A test for documents by a regular expression of their exact header."""
    pattern = re.compile(form)

    def ours(path: Path) -> bool:
        with contextlib.suppress(OSError), path.open("rb") as file:
            return pattern.match(file.read(_HEAD)) is not None
        return False

    return ours


def kind(path: Path) -> str:
    """The kind of a path: `nothing`, `file`, or a word for what is refused, such as a link."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "nothing"
    tests = {"file": stat.S_ISREG, "folder": stat.S_ISDIR, "link": stat.S_ISLNK}
    return next((word for word, is_one in tests.items() if is_one(mode)), "device or pipe")


def claim(path: Path, ours: Ours, *, force: bool = False) -> None:
    """Refuses, before any work is done, a path that must not or cannot be written."""
    _refuse_foreign(path, ours, force=force)
    folder = path.absolute().parent
    while not os.path.lexists(folder):
        folder = folder.parent
    try:  # a name as long as any of those that go beside it
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.stem}.executables."):
            pass
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}.", remedy="Choose another -o.") from error


def _refuse_foreign(path: Path, ours: Ours, *, force: bool = False) -> None:
    """Refuses to overwrite anything but plain files, and foreign ones without force."""
    found = kind(path)
    if found not in ("nothing", "file"):
        raise UsageError(f"{path} is there, a {found} and not a file.", remedy="Choose another file.")
    if found == "file" and not force and not ours(path):
        raise UsageError(
            f"{path} is there and was not written by autotune (or was changed since).",
            remedy="Choose another file (or --workspace), or give --force.",
        )


@contextlib.contextmanager
def written(path: Path, ours: Ours | None = None, *, force: bool = False) -> Iterator[BinaryIO]:
    """A file with a random name beside it, which takes its place when the block ends without an error.

    A new file has the umask's mode; one that replaces another keeps that one's. Without `ours` it is in autotune's own
    folders, where nobody else writes.
    """
    if ours is not None:
        _refuse_foreign(path, ours, force=force)
    beside = path.parent.absolute() / f".autotune-{secrets.token_hex(8)}"
    process.removed_if_killed(beside)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind(path) == "device or pipe":
            raise OSError(errno.EPERM, "it is a device or a pipe")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(beside, flags, 0o666), "wb") as file:
            if kind(path) == "file":
                os.fchmod(file.fileno(), stat.S_IMODE(path.lstat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if not isinstance(error, OSError | UnicodeError):
            raise
        why = error.strerror if isinstance(error, OSError) else "its text is not valid Unicode"
        raise StorageError(
            f"cannot write {path}: {why}.", remedy="Free some space or choose another -o or --workspace."
        ) from error


def write_whole(path: Path, text: str | bytes, ours: Ours | None = None, *, force: bool = False) -> None:
    """Writes text or bytes: a full disk leaves the old file, never half of the new one."""
    with written(path, ours, force=force) as file:
        file.write(text.encode() if isinstance(text, str) else text)
