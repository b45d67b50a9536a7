"""What is retuned, and what is not; and how long it may take: a tenth of the first tuning."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autotuner.errors import StorageError, UsageError
from autotuner.jobs.opening import BUDGET_FACTOR
from autotuner.jobs.retune.origin import Left, Memory, Origins, Part, choose_target
from autotuner.jobs.retune.unit import Unit, find_units
from autotuner.programs.model import Model
from autotuner.store.reader import Reader
from autotuner.system.digests import path_digest
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.dry_run import Rehearsal
from autotuner.tuning.options import Options

SHARE = 0.1
"""Of what the first tuning took: so long an entry may take to be proven, raced and searched again."""
BESIDE = 1.0
"""Seconds of the tenth that no clock here counts: Python starts before it, and the device is closed after it."""
STARTING, LEAST_SECONDS = 3.0, 3.0
"""Unless --budget says otherwise, at least: once to start, and for each program to build both and for six blocks."""


@dataclass(frozen=True)
class Wanted:
    """What a user asks."""

    path: Path
    """A spec, a flagfile or a workspace."""
    target: Target | None = None
    """None: the one that the specs record."""
    model: Model | None = None
    """None: the one that the command names by which a model's spec was made."""
    in_place: bool = False
    trust: bool = False
    allow: str | None = None


@dataclass(frozen=True)
class Plan:
    """What is retuned, and what is not."""

    target: Target
    parts: tuple[Part, ...]
    left: tuple[Left, ...]
    reads: tuple[str, ...]

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple({part.unit.spec: part.unit for part in self.parts}.values())

    @property
    def first_seconds(self) -> float | None:
        """None where it is not known of every part. What one tuning found may stand in several files."""
        known = {(part.name, part.seconds) for part in self.parts}
        found = [seconds for _, seconds in known if seconds]
        return sum(found) if known and len(found) == len(known) else None

    @cached_property
    def first_of(self) -> Mapping[int, bool]:
        """By part: whether it is the first of what is raced once, in however many files it stands."""
        seen: set[tuple[object, ...]] = set()
        first = {}
        for part in self.parts:
            first[id(part)] = identity(part) not in seen
            seen.add(identity(part))
        return first

    def share(self, part: Part, options: Options) -> float:
        """Its weight beside the others: a tenth of what finding it took, or of what that may have taken."""
        if not self.first_of[id(part)]:  # raced in another file, and only proven here
            return 0.0
        return max(SHARE * (part.seconds or effort_seconds(part, options)), LEAST_SECONDS)

    def part_seconds(self, part: Part, options: Options) -> float:
        """Its part of the whole."""
        return self.seconds(options) * self.share(part, options) / sum(self.share(one, options) for one in self.parts)

    def seconds(self, options: Options) -> float:
        """For all of it: a tenth of the first tuning, from the start of the process to its end."""
        if options.budget is not None:
            return options.budget
        first = {(part.name, part.seconds): part.seconds or effort_seconds(part, options) for part in self.parts}
        raced = sum(self.first_of.values())
        return max(SHARE * sum(first.values()) - BESIDE, STARTING + LEAST_SECONDS * max(raced, 1))

    def rehearsal(self, options: Options) -> Rehearsal:
        """What would be proven and raced, how long that may take, and what is left."""
        seconds = {id(part): self.part_seconds(part, options) for part in self.parts}
        document = {
            "target": self.target.name,
            "seconds": self.seconds(options),
            "first_seconds": self.first_seconds,
            "parts": [part.described(seconds[id(part)]) for part in self.parts],
            "skipped": [{"spec": str(o.unit.path), "entry": o.entry, "reason": o.reason} for o in self.left],
        }
        programs = count(len(self.parts), "program")
        lines = [f"{programs} on {self.target.name}, at most {self.seconds(options):.0f} s"]
        for part in self.parts:
            what = ", ".join(entry.name for _, entry in part.entries) or "flags alone"
            old = f"; {part.old.figures()} by IREE {part.old.iree or '(not recorded)'}" if part.old else ""
            lines += [f"{part.unit.path}: {part.name}, {seconds[id(part)]:.0f} s: {what}{old}"]
        for one in self.left:
            lines.append(f"{one.unit.path}:{f' {one.entry}' if one.entry else ''} skipped: {one.reason}")
        return Rehearsal(document, "\n".join(lines))


def effort_seconds(part: Part, options: Options) -> float:
    """What an effort allows."""
    return options.effort.budget * (BUDGET_FACTOR if part.model is not None else 1.0)


def read_plan(wanted: Wanted, options: Options) -> Plan:
    """Reads the files and what the results know of them; compiles nothing."""
    units = find_units(wanted.path, trust=wanted.trust)
    if len(units) > 1 and (options.output is not None or wanted.model is not None):
        word = "-o" if options.output is not None else "--model"
        raise UsageError(f"{word} is for one spec, and there are {len(units)}.", remedy="Name one of them.")
    folders = (Path(), *((home,) if (home := _home(wanted.path)) else ()), options.workspace)
    origins = Origins(_memory(wanted.path, options), folders, wanted.model, wanted.allow)
    target = choose_target(units, origins, wanted.target)
    parts: list[Part] = []
    left: list[Left] = []
    for unit in units:
        own = origins.target_of(unit)
        if not unit.problem and own and own != target.name and _known(own):
            left.append(Left(unit, "", f"it is for {own}: --target {own} retunes it", None))
            continue
        found, others = origins.parts(unit)
        parts += found
        left += others
    if not parts and len(units) == 1 and left:
        raise UsageError(f"{units[0].path}: {left[0].reason}", remedy="")
    reads = tuple(path_digest(path) for unit in units for path in unit.reads if path.exists())
    return Plan(target, tuple(parts), tuple(left), reads)


def identity(part: Part) -> tuple[object, ...]:
    """What a race is of, wherever it stands."""
    flags = frozenset(part.unit.flagfile.others) if part.unit.flagfile else frozenset()
    entries = [(e.key, e.compilation_info, e.decomposition_config, e.objects, e.action) for _, e in part.entries]
    if part.model is not None:
        return (part.unit.home,)
    return (part.name, flags, *entries)


def _home(path: Path) -> Path | None:
    """The workspace that a spec lies in."""
    if path.is_dir():
        return path
    folder = path.absolute().parent
    return folder.parent if folder.name == "specs" else None


def _memory(path: Path, options: Options) -> Memory:
    """What the results know; nothing where there are none."""
    home = _home(path)
    for workspace in ([home] if home and options.storage is None else []) + [options.workspace]:
        with suppress(StorageError), Reader.open(options.storage, workspace=workspace, create=False) as reader:
            return Memory.read(reader)
    return Memory()


def _known(name: str) -> bool:
    try:
        Target.parse(name)
    except UsageError:
        return False
    return True
