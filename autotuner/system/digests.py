"""SHA-256 of files and flags. Large files are hashed once, and remembered by path, size, times and inode."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from autotuner.errors import StorageError, UsageError
from autotuner.system.files import write_whole
from autotuner.system.settings import cache_dir

_LARGE = 1 << 20
"""The least size of remembered files: smaller ones are hashed faster than looked up."""
_MOST_FILES = 20_000
_BETWEEN = re.compile(r"[\s=,;:(){}\"']+")


def file_digest(path: Path) -> str:
    """The digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def known_digest(path: Path) -> str:
    """The digest of a file, remembered if it is large: a compiler of 300 MB takes seconds."""
    real = path.resolve()
    stat = real.stat()
    if stat.st_size < _LARGE:
        return file_digest(real)
    return _remembered(str(real), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@lru_cache(maxsize=4096)
def _remembered(path: str, size: int, modified_ns: int, changed_ns: int, inode: int) -> str:
    name = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()
    note = cache_dir() / "digests" / f"{name}.json"
    stamp = [size, modified_ns, changed_ns, inode]
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = json.loads(note.read_text())
        if known["stamp"] == stamp and len(known["sha256"]) == len(name):
            return str(known["sha256"])
    digest = file_digest(Path(path))
    with contextlib.suppress(StorageError):  # the next run hashes again
        write_whole(note, json.dumps({"stamp": stamp, "sha256": digest}))
    return digest


def path_digest(path: Path) -> str:
    """The digest of a file, or of all files below a folder with their names."""
    if not path.is_dir():
        return known_digest(path)
    whole = hashlib.sha256()
    for count, file in enumerate(_files(path)):
        if count == _MOST_FILES:
            raise UsageError(
                f"{path} has more than {_MOST_FILES} files, all of which a compile may read.",
                remedy="Name a folder that has only what the compile needs.",
            )
        with contextlib.suppress(FileNotFoundError):  # a folder that compiles write to: it may be gone again
            whole.update(os.fsencode(file.relative_to(path)) + b"\0" + known_digest(file).encode())
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, sorted. Links to folders are not followed: they may form a ring."""
    for where, folders, names in os.walk(folder):
        folders.sort()
        yield from (path for name in sorted(names) if (path := Path(where) / name).is_file())


def read_by_flags(flags: Iterable[str], *, folder: Path) -> list[str]:
    """The digests of all files and folders that flags name, for a compile in `folder`.

    What lies in `folder` itself is the compile's own input.
    """
    found: dict[Path, None] = {}
    for flag in flags:
        found.update(dict.fromkeys(_named(flag, folder)))
    own = folder.resolve()
    outside = [path for path in found if not path.resolve().is_relative_to(own)]
    try:
        return [path_digest(path) for path in outside]
    except OSError as error:
        raise UsageError(
            f"{error.filename}, which a flag names, cannot be read: {error.strerror}.", remedy="Check --flag."
        ) from error


def _named(flag: str, folder: Path) -> Iterator[Path]:
    """The existing paths in a flag's value: NAME=FILE, FILE,FILE and a pipeline's {path=FILE}."""
    value = flag.partition("=")[2]
    words = {value, *value.split(","), *(part.partition("=")[2] for part in value.split(",")), *_BETWEEN.split(value)}
    for word in sorted(words - {""}):
        path = Path(os.path.normpath(folder / word))  # the folder itself may not be there yet
        with contextlib.suppress(OSError, ValueError):  # too long to be a path, or with a NUL in it
            if path.is_file() or path.is_dir():
                yield path
