"""A registry: the entries of some folders, and what they know of a problem or a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.problems import Problem
from autotuner.registry.entry import MODEL, REACH, RegistryEntry
from autotuner.space.table import Value
from autotuner.system.files import begins, write_whole
from autotuner.system.settings import shipped_registry
from autotuner.system.workspace import refuse_endless

FOLDER = "registry"
OURS = begins(rb'\{"chip": ')
"""Whether a file is one of ours."""


@dataclass(frozen=True)
class Known:
    """What a registry knows of a problem."""

    entry: RegistryEntry
    exact: bool
    """It is of this very problem; else of the nearest shape."""

    @property
    def words(self) -> str:
        return "exact" if self.exact else f"of {self.entry.problem}, the nearest shape"


@dataclass(frozen=True)
class Registry:
    """Entries, the best of each key."""

    entries: tuple[RegistryEntry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[RegistryEntry]) -> Registry:
        best: dict[tuple[str, ...], RegistryEntry] = {}
        for one in entries:
            if one.key not in best or one.rank > best[one.key].rank:
                best[one.key] = one
        return cls(tuple(best[key] for key in sorted(best)))

    @classmethod
    def read(cls, folder: Path) -> Registry:
        """All files of a folder; or one file."""
        files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else [folder]
        found = []
        for file in files:
            try:
                refuse_endless(file, "registry")
                lines = file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeError) as error:
                raise UsageError(f"{file} cannot be read: {error}.", remedy="Check the path.") from error
            found += [RegistryEntry.from_line(line, f"{file}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
        return cls.of(found)

    @classmethod
    def open(cls, workspace: Path) -> Registry:
        """What comes with autotune, and what the workspace has."""
        folders = [folder for folder in (shipped_registry(), workspace / FOLDER) if folder and folder.is_dir()]
        return cls.of(one for folder in folders for one in cls.read(folder).entries)

    def on(self, *, chip: str, sku: str, iree: str) -> Registry:
        """What holds on a device; without one (an empty name) on any of that chip."""
        return Registry(tuple(e for e in self.entries if (e.chip, e.iree) == (chip, iree) and e.sku in (sku or e.sku,)))

    def write(self, folder: Path) -> list[Path]:
        """A file a chip, sorted: git merges them line by line."""
        files: dict[str, list[str]] = {}
        for one in self.entries:
            files.setdefault(one.file, []).append(one.line())
        for name, lines in files.items():
            write_whole(folder / name, "\n".join(lines) + "\n", OURS)
        return [folder / name for name in files]

    # --- what it knows ------------------------------------------------------------------------------------------------

    def exact(self, problem: Problem) -> RegistryEntry | None:
        """Of this very problem, with no less accuracy than is accepted."""
        own = [one for one in self.entries if one.problem == problem.name and one.allow in ("", problem.allow)]
        return max(own, key=lambda one: one.rank, default=None)

    def nearest(self, problem: Problem, kernels: Collection[str]) -> Known | None:
        """How one of these microkernels computes it, or a shape like it."""
        own = [one for one in self.entries if one.kernel in kernels and one.allow in ("", problem.allow)]
        # Of equal shapes the very same problem is nearest.
        found = min(own, key=lambda one: (one.distance(problem), one.problem != problem.name, one.within), default=None)
        if found is None or found.distance(problem) > REACH:
            return None
        return Known(found, found.problem == problem.name)

    def to_begin_with(
        self, problem: Problem, kernels: Collection[str], *, chip: str, sku: str, iree: str
    ) -> tuple[Mapping[str, Value], str] | None:
        """The knobs of this very problem, else of the nearest shape; a stock route is tried in any case."""
        here = self.on(chip=chip, sku=sku, iree=iree)
        exact = here.exact(problem)
        near = here.nearest(problem, kernels) if exact is None or not exact.config else Known(exact, exact=True)
        return (near.entry.knobs, f"{near.entry.problem}, {near.entry.date}") if near and near.entry.config else None

    def route(self, sha256: str, ops: Collection[str]) -> Known | None:
        """The flags that won for this model, else for one with the same operations."""
        alike = [one for one in self.entries if one.op == MODEL and (one.sha256 == sha256 or {*one.ops} == {*ops})]
        found = max(alike, key=lambda one: (one.sha256 == sha256, *one.rank), default=None)
        return None if found is None else Known(found, found.sha256 == sha256)

    @cached_property
    def specs(self) -> Mapping[str, Sequence[RegistryEntry]]:
        """Tuning specs by the key of what they match."""
        found: dict[str, list[RegistryEntry]] = {}
        for one in self.entries:
            if one.spec:
                found.setdefault(one.entry.key, []).append(one)
        return found

    def spec(self, key: str, flags: Sequence[str]) -> RegistryEntry | None:
        """What matches an operation in a program that is compiled with these flags."""
        own = [one for one in self.specs.get(key, ()) if one.flags == tuple(flags)]
        return max(own, key=lambda one: one.rank, default=None)

    # --- beside another -----------------------------------------------------------------------------------------------

    def changes(self, other: Registry) -> list[tuple[str, RegistryEntry, RegistryEntry | None]]:
        """What the other has otherwise: `new`, `gone`, or `changed` with the old one."""
        mine, yours = ({one.key: one for one in some.entries} for some in (self, other))
        found: list[tuple[str, RegistryEntry, RegistryEntry | None]] = []
        for key in sorted({*mine, *yours}):
            old, new = mine.get(key), yours.get(key)
            if new is not None and old != new:
                found.append(("changed" if old else "new", new, old))
            elif old is not None and new is None:
                found.append(("gone", old, None))
        return found


@dataclass(frozen=True)
class LazyRegistry:
    """What comes with autotune and what a workspace has, read when it is asked for the first time."""

    workspace: Path

    @cached_property
    def opened(self) -> Registry:
        return Registry.open(self.workspace)

    def to_begin_with(
        self, problem: Problem, kernels: Collection[str], *, chip: str, sku: str, iree: str
    ) -> tuple[Mapping[str, Value], str] | None:
        return self.opened.to_begin_with(problem, kernels, chip=chip, sku=sku, iree=iree)
