"""The plan of a retuning: which entries, for which problem or model, and for how long."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.carriers.provenance import Provenance
from autotuner.errors import AutotuneError, UsageError
from autotuner.jobs.retune.result import EntryRow, State
from autotuner.jobs.retune.unit import Key, Unit, find_specs, read_unit
from autotuner.measure.clock import share_of
from autotuner.problems import Problem
from autotuner.problems.operations import problem_named
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model
from autotuner.specfiles.entries import Entry
from autotuner.system.digests import path_digest
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.dry_run import Rehearsal
from autotuner.tuning.options import Options
from autotuner.tuning.session import Session

SECONDS = 60.0
"""For each program, unless --budget says otherwise: a race, and a search where it is lost."""
_NO_MODEL = "it is for a model: give --model, and this spec alone"
_NO_PROBLEM = "it does not name one problem that it is for: give --model, or tune it again with its own command"


@dataclass(frozen=True)
class Wanted:
    """What a user asks."""

    path: Path
    """A spec or a workspace."""
    target: Target | None = None
    """None: the one that the specs record."""
    model: Model | None = None
    """That a model's spec is for."""
    trust: bool = False
    allow: str | None = None


@dataclass(frozen=True)
class Part:
    """Entries of a unit that one program proves: a problem's, or all of a model's."""

    unit: Unit
    entries: Mapping[Key, Entry]
    problem: Problem | None = None
    model: Model | None = None

    @property
    def name(self) -> str:
        return self.problem.name if self.problem is not None else self.model.name if self.model else ""

    def row(self, key: Key, state: State, reason: str, **more: Any) -> EntryRow:
        """The state of one of its entries; a skipped one stays as it is."""
        entry, old = self.entries[key], self.entries[key].provenance
        if state == "skipped":
            more["said"] = old or Provenance()
        name, alone = old.problem if old else self.name, self.model is None
        return EntryRow(key[0], entry.name, name, state, reason, old=old, alone=alone, id=key[1], **more)

    def program(self, session: Session, target: Target) -> tuple[str | Path, tuple[str, ...]]:
        """What it compiles, and the flags that this needs itself."""
        if self.model is not None:
            return self.model.opened_in(session.workspace, session.tools).source, ()
        if self.problem is None:
            raise ValueError("a part is a problem or a model")
        problem = target.prepare(self.problem)
        return problem_mlir(problem), problem.flags


@dataclass(frozen=True)
class Plan:
    """What is retuned, and what is not."""

    target: Target
    parts: tuple[Part, ...]
    left: tuple[EntryRow, ...]
    """Skipped, each with its reason."""
    reads: tuple[str, ...]

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple({part.unit.spec: part.unit for part in self.parts}.values())

    @property
    def seconds(self) -> float:
        """For all of it, where the user gives no budget."""
        return SECONDS * len(self.parts)

    def rehearsal(self, options: Options) -> Rehearsal:
        """What would be proven and raced, how long that may take, and what is left."""
        seconds = options.budget or self.seconds
        parts = [
            {
                "spec": str(part.unit.spec),
                "problem": part.name,
                "entries": [entry.name for entry in part.entries.values()],
                "seconds": share_of(seconds, [1.0] * len(self.parts)),
            }
            for part in self.parts
        ]
        skipped = [{"spec": str(one.spec), "entry": one.entry, "reason": one.reason} for one in self.left]
        document = {"target": self.target.name, "seconds": seconds, "parts": parts, "skipped": skipped}
        lines = [f"{count(len(self.parts), 'program')} on {self.target.name}, at most {seconds:.0f} s"]
        for part in self.parts:
            names = ", ".join(entry.name for entry in part.entries.values())
            lines.append(f"{part.unit.spec}: {part.name}: {names}")
        lines += [f"{one.spec}: {f'{one.entry} ' if one.entry else ''}skipped: {one.reason}" for one in self.left]
        return Rehearsal(document, "\n".join(lines))


def read_plan(wanted: Wanted, options: Options) -> Plan:
    """Reads the files; compiles nothing."""
    specs = find_specs(wanted.path)
    if len(specs) > 1 and (options.output is not None or wanted.model is not None):
        word = "-o" if options.output is not None else "--model"
        raise UsageError(f"{word} is for one spec, and there are {len(specs)}.", remedy="Name one of them.")
    units: list[Unit] = []
    left: list[EntryRow] = []
    for spec in specs:
        try:
            units.append(read_unit(spec, trust=wanted.trust))
        except AutotuneError as error:
            if len(specs) == 1:
                raise
            left.append(EntryRow(spec, "", "", "skipped", str(error)))
    target = wanted.target or _recorded_target(units)
    parts: list[Part] = []
    for unit in units:
        if others := {one.target for one in unit.provenances if one.target} - {target.name}:
            words = f"it is for {min(others)}: --target {min(others)} retunes it"
            left.append(EntryRow(unit.spec, "", "", "skipped", words))
            continue
        found, not_found = _parts(unit, wanted)
        parts += found
        left += not_found
    if not parts and len(specs) == 1 and left:
        raise UsageError(f"{specs[0]}: {left[0].reason}", remedy="")
    reads = tuple(path_digest(path) for unit in units for path in unit.reads if path.exists())
    return Plan(target, tuple(parts), tuple(left), reads)


def _recorded_target(units: Sequence[Unit]) -> Target:
    """The one that all units have."""
    names = sorted({one.target for unit in units for one in unit.provenances if one.target})
    if not names:
        raise UsageError("nothing says for which target these specs are.", remedy="Give --target.")
    if len(names) > 1:
        raise UsageError(f"the specs are for {', '.join(names)}.", remedy="Give --target: one of them at a time.")
    return Target.parse(names[0])


def _parts(unit: Unit, wanted: Wanted) -> tuple[list[Part], list[EntryRow]]:
    """The entries that can be proven again, by their provenance; and the others, with the reason."""
    words = next((_split(one.command) for one in unit.provenances if one.command), ())
    if wanted.model is not None or words[1:2] == ("model",) or "--model" in words:
        if wanted.model is None:
            return [], [EntryRow(unit.spec, "", "", "skipped", _NO_MODEL)]
        return [Part(unit, unit.entries, model=wanted.model)], []
    found: dict[str, Part] = {}
    left = []
    for key, entry in unit.entries.items():
        problem = problem_named(entry.provenance.problem if entry.provenance else "")
        if problem is None:
            left.append(Part(unit, {key: entry}).row(key, "skipped", _NO_PROBLEM))
            continue
        part = found.get(problem.name) or Part(unit, {}, problem.allowing(wanted.allow))
        found[problem.name] = replace(part, entries={**part.entries, key: entry})
    return list(found.values()), left


def _split(command: str) -> tuple[str, ...]:
    with suppress(ValueError):
        return tuple(shlex.split(command))
    return ()
