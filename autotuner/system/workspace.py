"""The folders that a run writes to, and names that are safe as parts of paths."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import StorageError, UsageError
from autotuner.system.text import short

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+$-]{0,199}")
RULE = "Use letters, digits, . _ + $ and -, up to 200 of them, no two dots in a row."

LARGEST = {
    **dict.fromkeys(("flagfile", "manifest", "nightly file"), 1),
    **dict.fromkeys(("spec", "list of shapes", "registry"), 64),
    **dict.fromkeys(("dispatch", "history of nights"), 256),
    "export": 1024,
}
"""MiB of files of others that are read whole. Logs are read line by line; archive.py has the limits of bundles."""


@dataclass(frozen=True)
class Workspace:
    """`candidates/`, `results/` and `specs/` under one root."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> Workspace:
        workspace = cls(absolute(root))
        for folder in (workspace.candidates, workspace.results, workspace.specs):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    pass
            except OSError as error:
                raise StorageError(
                    f"the workspace {workspace.root} cannot be written: {error.strerror}.",
                    remedy="Choose another --workspace.",
                ) from error
        return workspace

    @property
    def candidates(self) -> Path:
        return self.root / "candidates"

    def run_folder(self, run: str) -> Path:
        """A run's folder of candidates; its name is checked, since it may come from a database."""
        if not is_name(run):
            raise StorageError(
                f"the database has a run {short(run)}, which cannot name a folder.",
                remedy="Is the database yours? Choose another --storage or --workspace.",
            )
        return self.candidates / run

    @property
    def results(self) -> Path:
        return self.root / "results"

    def study(self, run: str) -> Path:
        """The journal of a run's study, for Optuna's own programs."""
        return self.results / "studies" / f"{self.run_folder(run).name}.journal"

    @property
    def specs(self) -> Path:
        return self.root / "specs"


def absolute(path: Path) -> Path:
    """The absolute path; a refusal where the current folder is gone, or the path is not valid UTF-8."""
    try:
        whole = path.absolute()
    except OSError as error:
        raise StorageError(
            f"the current folder cannot be used: {error.strerror}.", remedy="Go to another folder."
        ) from error
    if not is_text(str(whole)):
        raise UsageError(f"the path {str(whole)!a} is not valid UTF-8.", remedy="Choose another --workspace.")
    return whole


def is_text(name: str) -> bool:
    """Whether a file name is valid UTF-8: Python keeps other bytes as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def refuse_endless(path: Path, kind: str = "") -> None:
    """Refuses pipes and devices: reading one may never end. With a kind of `LARGEST` also files that are too large."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{path} is a pipe or a device, not a file.", remedy="Name a file.")
    if kind and path.is_file() and path.stat().st_size > LARGEST[kind] << 20:
        raise UsageError(f"{path} is larger than a {kind} may be: {LARGEST[kind]} MiB.", remedy="Divide it.")


def is_name(text: str) -> bool:
    """Whether a text can name a file or folder."""
    return _NAME.fullmatch(text) is not None and ".." not in text


def is_component(text: str) -> bool:
    """Whether a name from a program, which may be odd, is one component of a path."""
    return text.isprintable() and "/" not in text and not text.startswith(".") and 0 < len(text) <= 200


def checked_name(text: str, *, what: str) -> str:
    """The text, if it can name a file; `what` is what the error calls it."""
    if not is_name(text):
        raise UsageError(f"{short(text)} cannot name {what}.", remedy=RULE)
    return text
