"""The build cache, keyed by content: IR, spec, flags and compiler."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.errors import StorageError
from autotuner.system import process
from autotuner.system.digests import file_digest
from autotuner.system.files import write_whole

_FORMAT = "v3"
_RECORDED = "build.json"
MAKING = ".making-"
_TAG = "CACHEDIR.TAG"
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# Builds of autotune, which can be made again.\n"
"""The file that marks a folder as a cache for all programs (bford.info/cachedir), and as one of autotune's."""
_RECORD = frozenset({"failure", "stderr", "seconds", "binary", "applied", "isa"})

_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Cache:
    """A folder that several runs may read and write at once: an entry appears whole, by rename, or not at all."""

    root: Path
    kind: str = "builds"
    """The folder of its entries."""
    file: str = "module.vmfb"
    """The name of an entry's file."""
    keys: frozenset[str] = _RECORD
    """The keys that a complete record has."""

    @property
    def builds(self) -> Path:
        return self.root / self.kind / _FORMAT

    @staticmethod
    def key(parts: Sequence[str]) -> str:
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def entry(self, key: str) -> Path:
        return self.builds / key[:2] / key

    def module(self, key: str) -> Path:
        """The path of an entry's module, if it has one."""
        return self.entry(key) / self.file

    def read(self, key: str) -> dict[str, Any] | None:
        """The record of an entry; None: there is none, or it is damaged."""
        folder = self.entry(key)
        try:
            record = json.loads((folder / _RECORDED).read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(record, dict) or not record.keys() >= self.keys:
            return None
        if record.get("failure") is None and not _intact(folder / self.file, record.get("sha256")):
            return None
        return record

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary folder on the cache's own file system."""
        with contextlib.ExitStack() as stack:
            try:
                self.builds.mkdir(parents=True, exist_ok=True)
                if not (self.builds / _TAG).exists():
                    write_whole(self.builds / _TAG, _MARK)
                folder = stack.enter_context(process.temporary(MAKING, self.builds))
            except OSError as error:
                raise self._unwritable(error) from error
            try:
                yield folder
            except OSError as error:
                if error.errno in _FULL:
                    raise self._unwritable(error) from error
                raise

    def store(self, key: str, record: Mapping[str, Any], *, vmfb: Path | bytes | None) -> Path:
        """Puts an entry in place, with a module's file or its bytes; when another run was faster, its entry stays."""
        final = self.entry(key)
        with self.scratch() as folder:
            try:
                kept = dict(record)
                if isinstance(vmfb, bytes):
                    (folder / self.file).write_bytes(vmfb)
                elif vmfb is not None:
                    shutil.move(vmfb, folder / self.file)  # the cache may lie on another file system
                if vmfb is not None:
                    kept["sha256"] = file_digest(folder / self.file)
                (folder / _RECORDED).write_text(json.dumps(kept))
                final.parent.mkdir(parents=True, exist_ok=True)
                with self._alone():
                    if self.read(key) is None:
                        shutil.rmtree(final, ignore_errors=True)
                        with contextlib.suppress(OSError):
                            os.rename(folder, final)
            except OSError as error:
                raise self._unwritable(error) from error
        if self.read(key) is None:
            raise StorageError(
                f"the build cache {self.root} does not keep what is written to it.",
                remedy="Free some space or set AUTOTUNE_CACHE_DIR.",
            )
        return final

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other writer puts an entry in place: what it finds damaged must not be what this one has just written."""
        with (self.builds / _TAG).open("rb+") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"the build cache {self.root} cannot be written: {error.strerror}.",
            remedy="Free some space or set AUTOTUNE_CACHE_DIR.",
        )

    def size(self) -> tuple[int, int]:
        """(entries, bytes) of all kinds, those of earlier formats included."""
        entries = size = 0
        for folder in self._ours():
            for path in folder.glob("??/*/*"):
                with contextlib.suppress(OSError):  # other runs change it meanwhile
                    size += path.lstat().st_size
                    entries += path.name == _RECORDED
        return entries, size

    def clear(self) -> None:
        """Removes the folders that are marked as autotune's, and nothing else."""
        for folder in self._ours():
            shutil.rmtree(folder, ignore_errors=True)

    def _ours(self) -> Iterator[Path]:
        for folder in self.root.glob("*/v*"):
            with contextlib.suppress(OSError, ValueError):
                if not folder.is_symlink() and (folder / _TAG).read_text(encoding="utf-8") == _MARK:
                    yield folder


def _intact(path: Path, digest: object) -> bool:
    """Whether a file has its recorded digest: a disk may lose a block."""
    try:
        return path.stat().st_size > 0 and file_digest(path) == digest
    except OSError:
        return False
