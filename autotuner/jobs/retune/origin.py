"""Where a unit comes from: its problem or model, its target, and the place in the space."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from autotuner.carriers.provenance import Provenance, machine_of
from autotuner.errors import UsageError
from autotuner.jobs.retune.unit import Key, Unit
from autotuner.problems import Problem, problem_named
from autotuner.programs.model import FORMATS, Model
from autotuner.space import Value
from autotuner.specfiles.entries import Entry
from autotuner.store.reader import Reader
from autotuner.store.rows import RunRow
from autotuner.targets import Target

_MATCHER = "match_"
_WRITTEN = ("-o", "--output")
_NO_MODEL = "the model that it was made for is not there: give --model"
_NO_ORIGIN = "it does not say which problem it is for: give --model"
_FLAGS_ALONE = (
    "flags alone do not say which problem they are for, and no results here know it: retune it in the workspace that "
    "found it, or give --model"
)
_FAMILY = "it is for a range of sizes: tune the family again with the command that it names"


@dataclass(frozen=True)
class Part:
    """Entries of a unit that one program proves: a problem's, or all of a model's."""

    unit: Unit
    problem: Problem | None = None
    model: Model | None = None
    entries: Mapping[Key, Entry] = field(default_factory=dict)
    """Empty: flags alone."""
    old: Provenance | None = None
    config: Mapping[str, Value] = field(default_factory=dict)
    """Its old place, where the results have it."""

    @property
    def name(self) -> str:
        if self.problem is not None:
            return self.problem.name
        return self.model.name if self.model else ""

    @property
    def accepted(self) -> str:
        """The accuracy that is accepted of it, in words; empty: its types' own."""
        of = self.problem or self.model
        return f"results of {of.allow} accuracy were accepted of {self.name}" if of is not None and of.allow else ""


@dataclass(frozen=True)
class Left:
    """An entry, or a whole unit, that cannot be retuned."""

    unit: Unit
    entry: str
    reason: str
    old: Provenance | None = None
    key: Key | None = None
    """Of an entry, which stays as it is."""


def model_of_command(words: Sequence[str], folders: Sequence[Path]) -> Model | None:
    """The model that a recorded command was about, where its file still is.

    Which errors are allowed is not taken from there: a spec may be a stranger's.
    """
    before = ("", *words)
    named = [
        word
        for word, option in zip(words, before, strict=False)
        if Path(word).suffix in FORMATS and option not in _WRITTEN
    ]
    found = next((folder / word for word in named for folder in folders if (folder / word).is_file()), None)
    if found is None:
        return None
    function = next(iter(_given(words, "--function")), None)
    return Model(found, function=function, inputs=_given(words, "--input"), parameters=_given(words, "--parameters"))


def _given(words: Sequence[str], option: str) -> tuple[str, ...]:
    """What was given to an option, each time."""
    pairs = pairwise(words)
    joined = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    return (*(value for name, value in pairs if name == option), *joined)


def _tuned(row: RunRow) -> bool:
    """It may have found something: not a retuning, and no race of files that were there before."""
    document = row.result or {}
    arms = [arm.get("kind") for arm in document.get("arms", ()) if isinstance(arm, Mapping)]
    return bool(document) and row.kind not in ("retune", "bench") and (row.kind != "ab" or "microkernel" in arms[1:])


@dataclass(frozen=True)
class Memory:
    """The runs of a results database that tuned something, newest first."""

    runs: tuple[RunRow, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Memory:
        every = reader.runs()
        again = {row.id for row in every if row.kind == "retune"}
        return cls(tuple(row for row in every if row.status == "finished" and row.parent not in again and _tuned(row)))

    def shipped(self, unit: Unit) -> tuple[RunRow | None, tuple[str, ...]]:
        """The run that wrote these files, and the problems that it wrote them for."""
        named = {unit.spec.name, *([unit.flagfile.path.name] if unit.flagfile else [])}
        for row in self.runs:
            for one in (*_groups(row), row.result or {}):
                if named & {Path(str(file)).name for name in ("spec", "flagfile") if (file := one.get(name))}:
                    lost = one.get("lost") or {}
                    names = one.get("problems") if one is not row.result else [row.problem.get("name")]
                    return row, tuple(str(name) for name in names or () if name not in lost)
        return None, ()

    def tuned(self, problem: str, target: str) -> RunRow | None:
        """The last run that found a winner for a problem."""
        for row in self.runs:
            same = (row.problem.get("name"), row.target) == (problem, target)
            if same and (row.result or {}).get("verdict") == "win":
                return row
        return None


@dataclass(frozen=True)
class Origins:
    """How units are read: by what they record, what the results know, and what the user says."""

    memory: Memory
    folders: tuple[Path, ...]
    """Where a recorded command may have had its files."""
    model: Model | None = None
    """The user's own."""
    allow: str | None = None

    def target_of(self, unit: Unit) -> str:
        """The target that it records, or that its run or its name has; empty where nothing says."""
        named = {provenance.target for provenance in unit.provenances if provenance.target}
        if len(named) == 1:
            return named.pop()
        run, _ = self.memory.shipped(unit)
        return run.target if run is not None else unit.name.rpartition("-")[2] if not named else ""

    def parts(self, unit: Unit) -> tuple[list[Part], list[Left]]:
        """What can be proven again, and what cannot, with the reason."""
        if unit.problem:
            return [], [Left(unit, "", unit.problem)]
        run, names = self.memory.shipped(unit)
        first = next(iter(unit.provenances), None)
        words = run.command if run else _split(first.command if first else "")
        if self.model is not None or words[1:2] == ("model",) or "--model" in words:
            model = self.model or model_of_command(words, self.folders)
            if model is None:
                return [], [Left(unit, "", _NO_MODEL, first or _provenance(run))]
            whole = _provenance(run)
            return [Part(unit, model=model, entries=unit.entries, old=whole)], []
        if unit.entries:
            return self._by_problem(unit, run)
        target = self.target_of(unit)
        problems = [problem for name in names or (unit.name.rpartition("-")[0],) if (problem := problem_named(name))]
        found = [self._part(unit, problem, self.memory.tuned(problem.name, target) or run) for problem in problems]
        return found, ([] if found else [Left(unit, "", _FLAGS_ALONE, _provenance(run))])

    def _by_problem(self, unit: Unit, run: RunRow | None) -> tuple[list[Part], list[Left]]:
        found: dict[str, Part] = {}
        left = []
        for key, entry in unit.entries.items():
            old = entry.provenance
            # The first versions wrote no provenance, but matchers that are named after their problem.
            problem = problem_named(old.problem if old else entry.name.removeprefix(_MATCHER))
            if problem is None:
                why = _FAMILY if old and "tuned at" in old.problem else _NO_ORIGIN
                left.append(Left(unit, entry.name, why, old, key))
                continue
            known = self.memory.tuned(problem.name, old.target if old else "")
            known = known or (run if len(unit.entries) == 1 else None)
            part = found.get(problem.name) or self._part(unit, problem, known, old)
            found[problem.name] = replace(part, entries={**part.entries, key: entry})
        return list(found.values()), left

    def _part(self, unit: Unit, problem: Problem, run: RunRow | None, old: Provenance | None = None) -> Part:
        """A problem with the accuracy that the user accepts, or accepted when it was tuned."""
        before = run.problem.get("allow_precision") if run is not None else None
        best = (run.result or {}).get("best") if run else None
        config = best.get("config") if isinstance(best, Mapping) else None
        return Part(
            unit,
            problem.allowing(self.allow or (str(before) if before else None)),
            old=old or _provenance(run),
            config=dict(config) if isinstance(config, Mapping) else {},
        )


def choose_target(units: Sequence[Unit], origins: Origins, wanted: Target | None) -> Target:
    """The user's, or the one that all units have."""
    if wanted is not None:
        return wanted
    names = sorted({name for unit in units if not unit.problem and (name := origins.target_of(unit))})
    known = [target for name in names if (target := known_target(name)) is not None]
    if len(known) == 1:
        return known[0]
    if not known:
        raise UsageError("nothing says for which target these specs are.", remedy="Give --target.")
    raise UsageError(
        f"the specs are for {', '.join(one.name for one in known)}.", remedy="Give --target: one of them at a time."
    )


def known_target(name: str) -> Target | None:
    with suppress(UsageError):
        return Target.parse(name)
    return None


def _split(command: str) -> tuple[str, ...]:
    with suppress(ValueError):
        return tuple(shlex.split(command))
    return ()


def _groups(run: RunRow) -> tuple[Mapping[str, Any], ...]:
    """The files that a suite wrote, each for some of its problems."""
    groups = (run.result or {}).get("groups")
    return tuple(one for one in groups if isinstance(one, Mapping)) if isinstance(groups, list) else ()


def _provenance(run: RunRow | None) -> Provenance | None:
    """What a results database has of a winner: a flagfile has no room for it."""
    if run is None:
        return None
    document = run.result or {}
    best, baseline, speedup, environment = (
        document.get(name) or {} for name in ("best", "baseline", "speedup", "environment")
    )
    return Provenance(
        problem=str(run.problem.get("name", "")),
        target=run.target,
        device=run.device,
        machine=machine_of(environment),
        iree=str(environment.get("iree", "")),
        verdict=str(document.get("verdict", "")),
        us=best.get("us"),
        baseline_us=baseline.get("us"),
        low=speedup.get("low"),
        median=speedup.get("median"),
        high=speedup.get("high"),
        date=str(environment.get("time", "")),
        command=shlex.join(run.command),
    )
