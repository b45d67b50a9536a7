"""Which microkernels there are: those that come with autotune, and the workspace's own."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.microkernels.loader import FILE, checked_name, load
from autotuner.microkernels.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Broken:
    """A manifest that cannot be read, and why."""

    name: str
    file: Path
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    manifests: tuple[Manifest, ...]
    broken: tuple[Broken, ...]

    def describe(self) -> dict[str, object]:
        """The document of `autotune ab --list --json`."""
        return {
            "microkernels": [manifest.describe() for manifest in self.manifests],
            "broken": [{"name": b.name, "file": str(b.file), "error": b.why} for b in self.broken],
        }


def own_folder(workspace: Path) -> Path:
    """Where a workspace keeps its microkernels, one folder each."""
    return workspace / "specs" / "microkernels"


def shipped_folder() -> Path:
    """Inside the package once installed; beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "specs" / "microkernels"
    return installed if installed.is_dir() else package.parent / "specs" / "microkernels"


def search_folders(workspace: Path) -> tuple[Path, ...]:
    """The workspace's and what comes with autotune; in a checkout they are the same."""
    own, shipped = own_folder(workspace), shipped_folder()
    return (shipped,) if own.resolve() == shipped.resolve() else (own, shipped)


def find(name: str, folders: Sequence[Path]) -> Manifest:
    """The microkernel of this name, or an error that lists what there is."""
    checked_name(name)
    there = [file for folder in folders if (file := folder / name / FILE).is_file()]
    if there:
        _refuse_double(name, there)
        return load(there[0])
    names = list(dict.fromkeys(file.parent.name for file in _files(folders)))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    have = f"There are: {', '.join(names)}." if names else f"There are none; `autotune ab --new {name}` begins one."
    raise UsageError(f"there is no microkernel {name!r}.", remedy=hint + have)


def all_manifests(folders: Sequence[Path]) -> Listing:
    """By name; what is broken is listed with its reason and hinders no other."""
    manifests, broken = [], []
    named: dict[str, list[Path]] = {}
    for file in _files(folders):
        named.setdefault(file.parent.name, []).append(file)
    for name, files in named.items():
        file = files[0]
        try:
            _refuse_double(name, files)
            manifests.append(load(file))
        except UsageError as error:
            broken.append(Broken(name, file, str(error)))
    return Listing(tuple(sorted(manifests, key=lambda m: m.name)), tuple(sorted(broken, key=lambda b: b.name)))


def _refuse_double(name: str, files: Sequence[Path]) -> None:
    """A manifest that came with a workspace must not take the place of a shipped one without a word."""
    if len(files) > 1:
        raise UsageError(
            f"there are two microkernels {name}: {files[0]} and {files[1]}.", remedy="Rename the folder of yours."
        )


def is_shipped(name: str) -> bool:
    """It comes with autotune: others bring code of their own."""
    return (shipped_folder() / name / FILE).is_file()


def _files(folders: Sequence[Path]) -> list[Path]:
    return [file for folder in folders for file in sorted(folder.glob(f"*/{FILE}"))]
