"""Finds microkernels: those that come with autotune, and the workspace's own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, checked_name, load
from autotuner.microkernels.manifest import Manifest
from autotuner.problems import Operation


@dataclass(frozen=True, slots=True)
class Broken:
    """A manifest that cannot be read, with the reason."""

    name: str
    file: Path
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    manifests: tuple[Manifest, ...]
    broken: tuple[Broken, ...]


def find(name: str, folders: Sequence[Path], operations: Mapping[str, type[Operation]]) -> Manifest:
    """The microkernel of this name, or an error that lists what there is."""
    checked_name(name)
    there = [file for folder in folders if (file := folder / name / FILE).is_file()]
    if there:
        return load(_one_of(name, there), operations)
    names = list(dict.fromkeys(file.parent.name for file in _files(folders)))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    have = f"There are: {', '.join(names)}." if names else f"There are none; `autotune ab --new {name}` begins one."
    raise UsageError(f"there is no microkernel {name!r}.", remedy=hint + have)


def all_manifests(folders: Sequence[Path], operations: Mapping[str, type[Operation]]) -> Listing:
    """The manifests for these operations, by name; broken ones are listed with their reason."""
    manifests, broken = [], []
    named: dict[str, list[Path]] = {}
    for file in _files(folders):
        named.setdefault(file.parent.name, []).append(file)
    for name, files in named.items():
        try:
            manifests.append(load(_one_of(name, files), operations))
        except UsageError as error:
            broken.append(Broken(name, files[0], str(error)))
    return Listing(tuple(sorted(manifests, key=lambda m: m.name)), tuple(sorted(broken, key=lambda b: b.name)))


def _one_of(name: str, files: Sequence[Path]) -> Path:
    """The file of a microkernel. Equal copies count as one, because a checkout has the shipped ones twice; different
    ones of the same name are refused."""
    *own, shipped = files
    for file in own:
        if not _alike(file.parent, shipped.parent):
            raise UsageError(
                f"there are two microkernels {name}: {file} and {shipped}.", remedy="Rename the folder of yours."
            )
    return shipped


def _alike(folder: Path, other: Path) -> bool:
    """Whether both folders have the same files, `__pycache__` aside."""
    own, others = (
        {path.relative_to(home): path.read_bytes() for path in home.rglob("*") if path.is_file()}
        for home in (folder, other)
    )
    names = [name for name in (*own, *others) if "__pycache__" not in name.parts]
    return all(own.get(name) == others.get(name) for name in names)


def is_shipped(name: str) -> bool:
    """Whether a microkernel comes with autotune; others bring foreign code."""
    return (shipped_folder() / name / FILE).is_file()


def _files(folders: Sequence[Path]) -> list[Path]:
    return [file for folder in folders for file in sorted(folder.glob(f"*/{FILE}"))]
