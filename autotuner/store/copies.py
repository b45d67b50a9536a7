"""A database where nothing may be written, such as a colleague's: a copy of it is read.

SQLite writes beside a file that it only reads, and a file of an older autotune is upgraded when it is opened.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

_LOG = "-wal"
"""Beside a database: what is not in the file itself yet."""


def may_be_written(file: Path) -> bool:
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def copied(file: Path) -> TemporaryDirectory[str]:
    """A folder with a copy of the file, which goes away with the folder."""
    folder = TemporaryDirectory(prefix="autotune-", ignore_cleanup_errors=True)
    for one in (file, file.with_name(f"{file.name}{_LOG}")):
        if one.exists():
            shutil.copyfile(one, Path(folder.name) / one.name)
    return folder
