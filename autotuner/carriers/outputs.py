"""The output files of a command. Only files that autotune wrote itself are overwritten or removed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autotuner.carriers.flagfile import KERNELS
from autotuner.errors import UsageError
from autotuner.system.digests import content_digest, file_digest
from autotuner.system.files import begins, claim, kind, write_whole
from autotuner.system.workspace import Workspace

Suffixes = tuple[str, ...]
_FOLDERS = (".executables", ".objects")
_RECORD = "written.json"
_TITLES = rb"Tuning spec|Microkernel spec|Spec|Configured executable, to be substituted,"
_BY = rb"by autotune \d+(\.\w+)+"
_OUR_SPEC = begins(rb"// (%b) %b(, (merged|retuned): [^\n]*)?\n" % (_TITLES, _BY))


SPEC: Suffixes = (".mlir", ".flags")
MICROKERNEL: Suffixes = (*SPEC, ".objects")
MODEL: Suffixes = (*SPEC, ".executables", KERNELS, ".objects")


@dataclass(frozen=True)
class Outputs:
    """The output files of one name: the spec, the flagfile, and folders if any."""

    spec: Path
    suffixes: Suffixes = SPEC
    record: Path | None = None
    """The workspace's list of written files: some have no room for a header."""
    force: bool = False
    """Overwrite files of others, too."""

    @classmethod
    def at(cls, spec: Path, workspace: Workspace, suffixes: Suffixes = SPEC, *, force: bool = False) -> Outputs:
        return cls(spec.absolute(), suffixes, workspace.results / _RECORD, force)

    @property
    def flagfile(self) -> Path:
        return self.spec.with_suffix(".flags")

    @property
    def executables(self) -> Path:
        return self.spec.with_suffix(".executables")

    @property
    def kernels(self) -> Path:
        return self.spec.with_suffix(KERNELS)

    @property
    def objects(self) -> Path:
        return self.spec.with_suffix(".objects")

    @property
    def all(self) -> tuple[Path, ...]:
        return tuple(self.spec.with_suffix(suffix) for suffix in self.suffixes)

    def claim(self, inputs: Iterable[Path] = ()) -> None:
        """Refuses, before any work is done, files that must not or cannot be written."""
        read = tuple(inputs)
        for path in self.all:
            if any(_same(path, one) for one in read):
                raise UsageError(f"{path} is an input of this command.", remedy="Choose another -o.")
            for one in path.iterdir() if _is_folder(path) else [path]:
                claim(one, self.owns, force=self.force)

    def write(self, path: Path, text: str | bytes) -> None:
        """Writes one of the files, whole or not at all.

        It is listed first: if this is cut off in between, nothing is there that would be taken for somebody else's.
        """
        mine = self.owns(path)
        self._note(path, content_digest(text.encode(errors="replace") if isinstance(text, str) else text))
        write_whole(path, text, lambda _: mine, force=self.force)

    def copy(self, source: Path) -> None:
        """Copies an object into the folder of objects."""
        self.write(self.objects / source.name, source.read_bytes())

    def clear(self) -> None:
        """Removes the files of an earlier run; files of others stay."""
        for path in [path for path in self.all if self.owns(path)]:  # a flagfile is recognised by its spec
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def owns(self, path: Path) -> bool:
        """Whether autotune wrote this file, or all files of this folder."""
        if _is_folder(path):
            return all(kind(one) == "file" and self.owns(one) for one in path.iterdir())
        if kind(path) != "file":
            return False
        noted = self._notes().get(self._name(path))
        if noted is not None and path.suffix == ".flags":
            return noted == file_digest(path)
        return _says_so(path) or noted == file_digest(path)

    def _name(self, path: Path) -> str:
        """The file's name in the list, relative to the workspace."""
        return os.path.relpath(path, self.record.parent) if self.record else ""

    def _notes(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError):
            notes = json.loads(self.record.read_text()) if self.record else {}
            return notes if isinstance(notes, dict) else {}
        return {}

    def _note(self, path: Path, digest: str) -> None:
        if self.record is not None:
            notes = {**self._notes(), self._name(path): digest}
            write_whole(self.record, json.dumps(notes, indent=1) + "\n")


def files_in(words: Iterable[str]) -> Iterator[Path]:
    """The files in option values: FILE, @FILE, NAME=FILE, SHAPExTYPE=@FILE."""
    for word in words:
        for part in (word, word.partition("=")[2]):
            if path := part.removeprefix("@"):
                yield Path(path)


def _is_folder(path: Path) -> bool:
    return path.suffix in _FOLDERS and kind(path) == "folder"


def _says_so(path: Path) -> bool:
    """Whether a header shows that autotune wrote the file; for an unlisted flagfile, that of the spec beside it."""
    if path.suffix == ".flags":
        return _names_our_spec(path)
    return path.suffix == ".mlir" and _OUR_SPEC(path)


def _names_our_spec(flagfile: Path) -> bool:
    spec = flagfile.with_suffix(".mlir")
    try:
        lines = flagfile.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return False
    named = {Path(line.strip('"').rpartition("=")[2]).name for line in lines}
    return spec.name in named and _says_so(spec)


def _same(path: Path, other: Path) -> bool:
    """Whether both are the same file, also through links, or one is inside a folder that would be written."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last: links that lead to each other
        real, read = path.resolve(), other.resolve()
        if real == read or (path.is_dir() and read.is_relative_to(real)):
            return True
        return path.exists() and other.exists() and path.samefile(other)
    return False
