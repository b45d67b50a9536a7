"""What is retuned, and what is not; and how long it may take."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import StorageError, UsageError
from autotuner.jobs.retune.origin import Left, Memory, Origins, Part, choose_target, known_target
from autotuner.jobs.retune.unit import Unit, find_units
from autotuner.programs.model import Model
from autotuner.store.reader import Reader
from autotuner.system.digests import path_digest
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.dry_run import Rehearsal
from autotuner.tuning.options import Options

SECONDS, MODEL_SECONDS = 30.0, 90.0
"""For each problem and each model, unless --budget says otherwise: a race, and a search where it is lost."""


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

    def seconds(self, options: Options) -> float:
        """For all of it; each part has as much of what is left as those after it."""
        return options.budget or sum(MODEL_SECONDS if part.model else SECONDS for part in self.parts)

    def rehearsal(self, options: Options) -> Rehearsal:
        """What would be proven and raced, how long that may take, and what is left."""
        seconds = self.seconds(options)
        each = seconds / max(len(self.parts), 1)
        document = {
            "target": self.target.name,
            "seconds": seconds,
            "parts": [
                {
                    "spec": str(part.unit.path),
                    "problem": part.name,
                    "entries": [entry.name for entry in part.entries.values()],
                    "seconds": each,
                    "old": part.old.to_json() if part.old else None,
                    "place": dict(part.config),
                }
                for part in self.parts
            ],
            "skipped": [{"spec": str(o.unit.path), "entry": o.entry, "reason": o.reason} for o in self.left],
        }
        lines = [f"{count(len(self.parts), 'program')} on {self.target.name}, at most {seconds:.0f} s"]
        for part in self.parts:
            what = ", ".join(entry.name for entry in part.entries.values()) or "flags alone"
            old = f"; {part.old.figures()} by IREE {part.old.iree or '(not recorded)'}" if part.old else ""
            lines.append(f"{part.unit.path}: {part.name}: {what}{old}")
        for one in self.left:
            lines.append(f"{one.unit.path}:{f' {one.entry}' if one.entry else ''} skipped: {one.reason}")
        return Rehearsal(document, "\n".join(lines))


def read_plan(wanted: Wanted, options: Options) -> Plan:
    """Reads the files and what the results know of them; compiles nothing."""
    units = find_units(wanted.path, trust=wanted.trust)
    if len(units) > 1 and (options.output is not None or wanted.model is not None):
        word = "-o" if options.output is not None else "--model"
        raise UsageError(f"{word} is for one spec, and there are {len(units)}.", remedy="Name one of them.")
    home = _home(wanted.path)
    folders = (Path(), *((home,) if home else ()), options.workspace)
    origins = Origins(_memory(home, options), folders, wanted.model, wanted.allow)
    target = choose_target(units, origins, wanted.target)
    parts: list[Part] = []
    left: list[Left] = []
    for unit in units:
        own = origins.target_of(unit)
        if not unit.problem and own not in ("", target.name) and known_target(own) is not None:
            left.append(Left(unit, "", f"it is for {own}: --target {own} retunes it"))
            continue
        found, others = origins.parts(unit)
        parts += found
        left += others
    if not parts and len(units) == 1 and left:
        raise UsageError(f"{units[0].path}: {left[0].reason}", remedy="")
    reads = tuple(path_digest(path) for unit in units for path in unit.reads if path.exists())
    return Plan(target, tuple(parts), tuple(left), reads)


def _home(path: Path) -> Path | None:
    """The workspace that a spec lies in."""
    if path.is_dir():
        return path
    folder = path.absolute().parent
    return folder.parent if folder.name == "specs" else None


def _memory(home: Path | None, options: Options) -> Memory:
    """What the results know; nothing where there are none."""
    for workspace in ([home] if home and options.storage is None else []) + [options.workspace]:
        with suppress(StorageError), Reader.open(options.storage, workspace=workspace, create=False) as reader:
            return Memory.read(reader)
    return Memory()
