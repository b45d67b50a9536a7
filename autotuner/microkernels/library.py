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
    """The workspace's first: its manifest of the same name is the one that counts."""
    return own_folder(workspace), shipped_folder()


def find(name: str, folders: Sequence[Path]) -> Manifest:
    """The microkernel of this name, or an error that lists what there is."""
    checked_name(name)
    for folder in folders:
        file = folder / name / FILE
        if file.is_file():
            return load(file)
    names = list(dict.fromkeys(file.parent.name for file in _files(folders)))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    have = f"There are: {', '.join(names)}." if names else f"There are none; `autotune ab --new {name}` begins one."
    raise UsageError(f"there is no microkernel {name!r}.", remedy=hint + have)


def all_manifests(folders: Sequence[Path]) -> Listing:
    """By name; what is broken is listed with its reason and hinders no other."""
    manifests, broken, seen = [], [], set()
    for file in _files(folders):
        name = file.parent.name
        if name in seen:
            continue
        seen.add(name)
        try:
            manifests.append(load(file))
        except UsageError as error:
            broken.append(Broken(name, file, str(error)))
    return Listing(tuple(sorted(manifests, key=lambda m: m.name)), tuple(sorted(broken, key=lambda b: b.name)))


def _files(folders: Sequence[Path]) -> list[Path]:
    return [file for folder in folders for file in sorted(folder.glob(f"*/{FILE}"))]
