"""Where a unit comes from: its problem or model, its target, what finding it took, and the place in the space."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotuner.carriers.provenance import Provenance, machine_of
from autotuner.errors import UsageError
from autotuner.jobs.retune.unit import Unit, UnitFile
from autotuner.problems import Problem, problem_named
from autotuner.problems.accuracy import known_precision
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
class Recorded:
    """A command as a spec or a results database has it."""

    words: tuple[str, ...] = ()
    own: bool = False
    """It is from the user's own database. A spec may be a stranger's, who must not say which errors are allowed."""

    @classmethod
    def of(cls, text: str) -> Recorded:
        with suppress(ValueError):
            return cls(tuple(shlex.split(text)))
        return cls()

    @property
    def command(self) -> str:
        return next((word for word in self.words[1:2]), "")

    def values(self, option: str) -> tuple[str, ...]:
        """What was given to an option, each time."""
        pairs = zip(self.words, self.words[1:], strict=False)
        joined = [word.partition("=")[2] for word in self.words if word.startswith(f"{option}=")]
        return (*(value for name, value in pairs if name == option), *joined)

    @property
    def is_model(self) -> bool:
        return self.command == "model" or bool(self.values("--model"))

    def model(self, folders: Sequence[Path]) -> Model | None:
        """The model that it was about, where its file still is."""
        before = ("", *self.words)
        named = [
            *self.values("--model"),
            *(
                word
                for word, option in zip(self.words, before, strict=False)
                if Path(word).suffix in FORMATS and option not in _WRITTEN
            ),
        ]
        found = next((folder / word for word in named for folder in folders if (folder / word).is_file()), None)
        if found is None:
            return None
        model = Model(
            found,
            function=next(iter(self.values("--function")), None),
            inputs=self.values("--input"),
            parameters=self.values("--parameters"),
        )
        if not self.own:
            return model
        tolerance = next((float(value) for value in self.values("--tolerance")), None)
        allow = known_precision(next(iter(self.values("--allow-precision")), None))
        return replace(model, tolerance=tolerance, allow=allow, expected=tuple(map(Path, self.values("--expected"))))


@dataclass(frozen=True)
class Part:
    """Entries of a unit that one program proves: a problem's, or all of a model's."""

    unit: Unit
    problem: Problem | None = None
    model: Model | None = None
    entries: tuple[tuple[UnitFile, Entry], ...] = ()
    """Empty: flags alone."""
    old: Provenance | None = None
    seconds: float | None = None
    """What the first tuning took."""
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

    def described(self, seconds: float) -> dict[str, Any]:
        """As a rehearsal has it, where it may take so long."""
        return {
            "spec": str(self.unit.path),
            "problem": self.name,
            "entries": [entry.name for _, entry in self.entries],
            "seconds": seconds,
            "old": self.old.to_json() if self.old else None,
            "place": dict(self.config),
        }


@dataclass(frozen=True)
class Left:
    """An entry, or a whole unit, that cannot be retuned."""

    unit: Unit
    entry: str
    reason: str
    old: Provenance | None = None
    id: str = ""
    """The entry's, in its file."""


def _tuned(row: RunRow) -> bool:
    """It may have found something: not a retuning, and no race of files that were there before."""
    document = row.result or {}
    arms = [arm.get("kind") for arm in document.get("arms", ()) if isinstance(arm, Mapping)]
    return bool(document) and row.kind not in ("retune", "bench") and (row.kind != "ab" or "microkernel" in arms[1:])


@dataclass(frozen=True)
class Memory:
    """The runs of a results database that tuned something, newest first."""

    runs: tuple[RunRow, ...] = ()
    machines: Mapping[str, str] = field(default_factory=dict)
    """By run: the device that it was timed on."""

    @classmethod
    def read(cls, reader: Reader) -> Memory:
        every = reader.runs()
        again = {row.id for row in every if row.kind == "retune"}
        runs = tuple(row for row in every if row.status == "finished" and row.parent not in again and _tuned(row))
        shipped = [row for row in runs if row.result and row.result.get("flagfile")]
        return cls(runs, {row.id: machine_of(reader.environment(row.id)) for row in shipped})

    def shipped(self, unit: Unit) -> RunRow | None:
        """The run that wrote these files."""
        named = {unit.spec.name, *([unit.flagfile.path.name] if unit.flagfile else [])}
        for row in self.runs:
            if any(named & _files(one) for one in (row.result or {}, *_groups(row))):
                return row
        return None

    def group(self, unit: Unit) -> tuple[str, ...]:
        """The problems that a suite wrote these files for."""
        named, row = {unit.spec.name, *([unit.flagfile.path.name] if unit.flagfile else [])}, self.shipped(unit)
        for one in _groups(row) if row is not None else ():
            if named & _files(one):
                return tuple(str(name) for name in one.get("problems", ()) if name not in one.get("lost", {}))
        return ()

    def took(self, run: RunRow | None) -> float | None:
        """What finding it took. A suite tunes problems side by side: each has its part of the suite's time."""
        own = _seconds(run)
        suite = next(
            (row for row in self.runs if run is not None and row.id == run.parent and row.kind == "suite"), None
        )
        if own is None or suite is None:
            return own
        parts = [row for row in self.runs if row.parent == suite.id]
        factor = (_seconds(suite) or 0.0) / sum(_seconds(row) or 0.0 for row in parts)
        # What the suite does beside is counted where all of its problems are known.
        whole = len(parts) == len((suite.result or {}).get("problems") or ())
        return own * (factor if whole else min(factor, 1.0)) or own

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
        run = self.memory.shipped(unit)
        return run.target if run is not None else unit.name.rpartition("-")[2] if not named else ""

    def parts(self, unit: Unit) -> tuple[list[Part], list[Left]]:
        """What can be proven again, and what cannot, with the reason."""
        if unit.problem:
            return [], [Left(unit, "", unit.problem)]
        run = self.memory.shipped(unit)
        first = next((p for p in unit.provenances), None)
        recorded = Recorded(run.command, own=True) if run else Recorded.of(first.command if first else "")
        old = first or (_provenance(run, self.memory) if run else None)
        if self.model is not None or recorded.is_model:
            model = self.model or recorded.model(self.folders)
            if model is None:
                return [], [Left(unit, "", _NO_MODEL, old)]
            whole = _provenance(run, self.memory) if run else None
            return [Part(unit, model=model, entries=unit.entries, old=whole, seconds=_seconds(run))], []
        if not unit.entries:
            return self._flags_alone(unit, run, old)
        return self._by_problem(unit, run)

    def _flags_alone(self, unit: Unit, run: RunRow | None, old: Provenance | None) -> tuple[list[Part], list[Left]]:
        if run is not None and run.kind == "suite":
            return self._of_suite(unit, run, old)
        name = str(run.problem.get("name")) if run else unit.name.rpartition("-")[0]
        problem = problem_named(name)
        if problem is None:
            return [], [Left(unit, "", _FLAGS_ALONE, old)]
        return [
            Part(unit, self._accepted(problem, run), old=old, seconds=self.memory.took(run), config=_config(run))
        ], []

    def _of_suite(self, unit: Unit, suite: RunRow, old: Provenance | None) -> tuple[list[Part], list[Left]]:
        """The problems that a suite found the same flags for, each by the run that tuned it."""
        found = []
        for problem in filter(None, map(problem_named, self.memory.group(unit))):
            run = self.memory.tuned(problem.name, suite.target)
            own = _provenance(run, self.memory) if run is not None else None
            found.append(
                Part(unit, self._accepted(problem, run), old=own, seconds=self.memory.took(run), config=_config(run))
            )
        return found, ([] if found else [Left(unit, "", _FLAGS_ALONE, old)])

    def _by_problem(self, unit: Unit, run: RunRow | None) -> tuple[list[Part], list[Left]]:
        found: dict[str, Part] = {}
        left = []
        for file, entry in unit.entries:
            old = entry.provenance
            # The first versions wrote no provenance, but matchers that are named after their problem.
            problem = problem_named(old.problem if old else entry.name.removeprefix(_MATCHER))
            if problem is None:
                why = _FAMILY if old and "tuned at" in old.problem else _NO_ORIGIN
                left.append(Left(unit, entry.name, why, old, entry.id))
                continue
            known = self.memory.tuned(problem.name, old.target if old else "")
            known = known or (run if len(unit.entries) == 1 else None)
            problem = self._accepted(problem, known)
            seconds = self.memory.took(known) or (old.seconds if old else None)
            part = found.get(problem.name) or Part(unit, problem, old=old, seconds=seconds, config=_config(known))
            found[problem.name] = replace(part, entries=(*part.entries, (file, entry)))
        return list(found.values()), left

    def _accepted(self, problem: Problem, run: RunRow | None) -> Problem:
        """With the accuracy that the user accepts, or accepted when it was tuned."""
        before = run.problem.get("allow_precision") if run is not None else None
        return problem.allowing(self.allow or (str(before) if before else None))


def choose_target(units: Sequence[Unit], origins: Origins, wanted: Target | None) -> Target:
    """The user's, or the one that all units have."""
    if wanted is not None:
        return wanted
    names = sorted({name for unit in units if not unit.problem and (name := origins.target_of(unit))})
    known = []
    for name in names:
        with suppress(UsageError):
            known.append(Target.parse(name))
    if len(known) == 1:
        return known[0]
    if not known:
        raise UsageError("nothing says for which target these specs are.", remedy="Give --target.")
    raise UsageError(
        f"the specs are for {', '.join(one.name for one in known)}.", remedy="Give --target: one of them at a time."
    )


def _seconds(run: RunRow | None) -> float | None:
    seconds = (run.result or {}).get("seconds", {}) if run else {}
    total = seconds.get("total") if isinstance(seconds, Mapping) else None
    return float(total) if isinstance(total, (int, float)) and total > 0 else None


def _groups(run: RunRow) -> tuple[Mapping[str, Any], ...]:
    """The files that a suite wrote, each for some of its problems."""
    groups = (run.result or {}).get("groups")
    return tuple(one for one in groups if isinstance(one, Mapping)) if isinstance(groups, list) else ()


def _files(document: Mapping[str, Any]) -> set[str]:
    """The names of the files that a document names as its own."""
    return {Path(str(file)).name for name in ("spec", "flagfile") if (file := document.get(name))}


def _config(run: RunRow | None) -> Mapping[str, Value]:
    best = (run.result or {}).get("best") if run else None
    config = best.get("config") if isinstance(best, Mapping) else None
    return dict(config) if isinstance(config, Mapping) else {}


def _provenance(run: RunRow, memory: Memory) -> Provenance:
    """What a results database has of a winner: a flagfile has no room for it."""
    document = run.result or {}
    best, baseline, speedup = (document.get(name) or {} for name in ("best", "baseline", "speedup"))
    environment = document.get("environment") or {}
    return Provenance(
        problem=str(run.problem.get("name", "")),
        target=run.target,
        device=run.device,
        machine=memory.machines.get(run.id, ""),
        iree=str(environment.get("iree", "")),
        verdict=str(document.get("verdict", "")),
        us=best.get("us"),
        baseline_us=baseline.get("us"),
        seconds=_seconds(run),
        low=speedup.get("low"),
        median=speedup.get("median"),
        high=speedup.get("high"),
        date=str(environment.get("time", "")),
        command=shlex.join(run.command),
    )
