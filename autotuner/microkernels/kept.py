"""Objects that are made once: in the cache, whole or not at all, whoever else is at it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autotuner.errors import StorageError
from autotuner.system.digests import file_digest
from autotuner.system.settings import cache_dir


def kept_folder(key: str) -> Path:
    """Where what belongs to this key lies; a search path of iree-compile, so that no two contents share one."""
    return cache_dir() / "microkernels" / key[:2] / key[:24]


@contextlib.contextmanager
def keep(final: Path) -> Iterator[Path]:
    """A file to write, which becomes `final` unless the block raises."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".making-", suffix=final.suffix, dir=final.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(error) from error
    making = Path(name)
    try:
        yield making
        digest = file_digest(making)
        os.replace(making, final)
        _note(final).write_text(digest)
    except OSError as error:
        raise _unwritable(error) from error
    finally:
        with contextlib.suppress(OSError):
            making.unlink(missing_ok=True)


def is_kept(final: Path) -> bool:
    """Is it there, and what was written? A disk that lost a block leaves an object that is wrong and not empty."""
    try:
        return _note(final).read_text() == file_digest(final)
    except (OSError, ValueError):
        return False


def _note(final: Path) -> Path:
    return final.with_name(f"{final.name}.sha256")


def _unwritable(error: OSError) -> StorageError:
    return StorageError(
        f"the cache {cache_dir()} cannot be written: {error.strerror}.",
        remedy="Free some space or set AUTOTUNE_CACHE_DIR.",
    )
