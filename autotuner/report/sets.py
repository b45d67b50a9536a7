"""What `compare` takes: a run, a workspace, a database or an export."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from autotuner.errors import UsageError
from autotuner.report.compare import ResultSet
from autotuner.store.figures import measurements
from autotuner.store.imports import import_file
from autotuner.store.store import Store
from autotuner.system.text import short
from autotuner.system.workspace import refuse_endless

FORMS = "Name a run, a workspace, a database (FILE.db or a URL) or an export (.json)."
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_SQLITE = b"SQLite format 3\0"


def open_set(word: str, *, workspace: Path = Path(), storage: str | None = None) -> ResultSet:
    """What a word on the command line means. Runs are those of `workspace` or `storage`."""
    path = Path(word)
    if "://" in word:
        return _of_database(word, word)
    if _RUN.fullmatch(word) and not path.exists():
        with Store.open(storage, workspace=workspace, create=False) as store:
            return ResultSet(f"run {word}", measurements(store, word))
    refuse_endless(path)
    if path.is_dir():
        with Store.open(None, workspace=path, create=False) as store:
            return ResultSet(word, measurements(store))
    if not path.is_file():
        raise UsageError(f"there is no run, folder or file {short(word)}.", remedy=FORMS)
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            return _of_database(word, f"sqlite:///{path.absolute()}")
    return _of_export(path)


def _of_database(name: str, url: str) -> ResultSet:
    with Store.open(url, workspace=Path(), create=False) as store:
        return ResultSet(store.name if "://" in name else name, measurements(store))


def _of_export(path: Path) -> ResultSet:
    """As `autotune import` takes it, and as carefully."""
    with (
        TemporaryDirectory(prefix="autotune-") as folder,
        Store.open(f"sqlite:///{folder}/export.db", workspace=Path(folder)) as store,
    ):
        import_file(store, path)
        return ResultSet(str(path), measurements(store))
