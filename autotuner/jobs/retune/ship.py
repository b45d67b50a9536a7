"""Writes what stays: first where it harms nothing, compiled there once more, and only then where the user has it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotuner.build import BuildJob
from autotuner.build.ship import ship_together, write_shipped
from autotuner.carriers.carrier import FLAGS, Parts, SpecCarrier
from autotuner.carriers.flagfile import SUBSTITUTION, Flagfile, flagfile_text
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.carriers.outputs import MODEL, WRITTEN, Outputs
from autotuner.carriers.provenance import Provenance, today
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import Compiled, first_error, shell_line
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.recipe import absolute
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.unit import Key, Unit, read_unit
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model, ModelFile, whole_job
from autotuner.specfiles.entries import read_text
from autotuner.specfiles.merge import merge
from autotuner.specfiles.renew import renew, retargeted
from autotuner.system.files import write_whole
from autotuner.system.locks import one_at_a_time
from autotuner.system.text import count
from autotuner.tuning.result import Files
from autotuner.tuning.run import Run

_AGAIN = "Please report it with the specs."


class OtherCodeError(EnvironmentFailure):
    """What is written anew is not the code that was raced; other files may be."""


@dataclass(frozen=True)
class Staying:
    """What a unit becomes."""

    unit: Unit
    kept: Mapping[Key, Provenance] = field(default_factory=dict)
    """The entries that stay, each with what it says of itself from now on."""
    parts: Sequence[Part] = ()
    """The programs that must give the same code as before."""
    new: Mapping[str, Path] = field(default_factory=dict)
    """Of what was found anew, by program: its flagfile."""
    binaries: Mapping[str, str] = field(default_factory=dict)
    """By program: the code that was raced; of others the old files are compiled."""
    alone: bool = False
    """All of the unit is one program's, and was found anew."""
    decided: bool = False
    """A race of it came to a verdict, or a search found something."""


@dataclass(frozen=True)
class Written:
    """The files that a unit became."""

    unit: Path
    files: Files
    notes: tuple[str, ...] = ()
    program: Path | None = None
    """The model that all of it is for."""

    def to_json(self) -> dict[str, Any]:
        names = {"spec": self.files.spec, "flagfile": self.files.flagfile}
        return {"from": str(self.unit), **{name: str(path) if path else None for name, path in names.items()}}


@dataclass(frozen=True)
class Writer:
    """Writes the files of one run."""

    run: Run
    in_place: bool
    trust: bool

    def place(self, unit: Unit) -> Outputs:
        workspace = self.run.session.workspace
        spec = self.run.options.output or workspace.specs / "retuned" / f"{unit.name}.mlir"
        return Outputs.at(unit.home if self.in_place else spec, workspace, MODEL, force=self.run.options.force)

    def claim(self, units: Sequence[Unit]) -> None:
        """Before anything is compiled: what cannot be written is no surprise at the end."""
        for unit in units:
            self.place(unit).claim(() if self.in_place else unit.reads)

    def for_compiler(self, unit: Unit, target: str) -> Unit:
        """The unit, or a copy whose executables have the target that this compiler gives its own, if that is known."""
        texts = {
            one.path: text
            for one in unit.files
            if target and (one.file.carrier.brings_objects or one.file.carrier.by_name)
            if (text := retargeted(read_text(one.path), target, name=str(one.path))) is not None
        }
        if not texts:
            return self._with_files_beside(unit) if unit.moved else unit
        parts, flags = _parts(unit, {}, (), spec_flag=self.run.target.spec_flag, whole=texts)
        copy = Outputs(self.run.folder / "copy" / f"{unit.name}.mlir", MODEL)
        write_shipped(copy, parts, flags or self.run.target.compile_flags)
        return replace(read_unit(copy.spec, trust=self.trust), was=unit.spec)

    def _with_files_beside(self, unit: Unit) -> Unit:
        """With a flagfile of our own, that names the files where they were moved to."""
        if unit.flagfile is None:
            return unit
        flags = unit.flagfile.found_in(unit.spec.parent)
        flagfile = Flagfile(self.run.folder / "copy" / f"{unit.name}.flags", flags)
        write_whole(flagfile.path, flagfile_text(flags))
        return replace(unit, flagfile=flagfile)

    def write(self, staying: Staying) -> Written:
        """First where it harms nothing. What gives other code there than was raced is not written."""
        unit, target = staying.unit, self.run.target
        header = self._header(staying)
        notes: tuple[str, ...] = ()
        if staying.alone:
            (flagfile,) = staying.new.values()
            source = read_unit(flagfile.with_suffix(".mlir"), trust=self.trust)
            kept = {(one.path, e.id): _with(e.provenance, staying) for one, e in source.entries}
            parts, flags = _parts(source, kept, header, spec_flag=target.spec_flag)
        else:
            parts, flags = _parts(unit, staying.kept, header, spec_flag=target.spec_flag)
            parts, notes = self._merged(staying, parts, header)
        draft = Outputs(self.run.folder / "draft" / f"{unit.name}.mlir", MODEL)
        flags, programs = flags or target.compile_flags, {part.name: part for part in staying.parts}
        wanted = {name: self._raced(part, staying) for name, part in programs.items()}
        shipped, lost = ship_together(
            draft,
            parts,
            flags,
            compiles=lambda flagfile: {name: self._compile(part, flagfile) for name, part in programs.items()},
            binaries={name: _binary(name, binary) for name, binary in wanted.items()},
        )
        if shipped is None or lost:
            raise OtherCodeError("; ".join(f"{name}: {why}" for name, why in lost.items()) + ".", remedy=_AGAIN)
        if shipped.objects is not None:  # those of the old files may be written over
            parts = replace(parts, objects=tuple(shipped.objects / path.name for path in parts.objects))
        if self.in_place:
            self._set_aside(read_unit(unit.home, trust=self.trust))
        final = write_shipped(self.place(unit), parts, flags)
        files = Files(final.spec, final.flagfile, final.carrier)
        return Written(unit.path, files, notes, model_of(staying.parts, self.run))

    def _raced(self, part: Part, staying: Staying) -> Future[Compiled] | str:
        """The code that a program must have: as it was raced, or as what was there, or found, gives it."""
        known = "" if part.name in staying.new else staying.binaries.get(part.name, "")
        return known or self._compile(part, staying.new.get(part.name))

    def _merged(self, staying: Staying, parts: Parts, header: Sequence[str]) -> tuple[Parts, tuple[str, ...]]:
        """With the tuning specs of what was found anew; what has other flags keeps files of its own."""
        texts, notes = [], []
        for name, flagfile in staying.new.items():
            source = read_unit(flagfile.with_suffix(".mlir"), trust=self.trust)
            others = source.flagfile.others if source.flagfile else ()
            own = staying.unit.flagfile.others if staying.unit.flagfile else self.run.target.compile_flags
            tunes = [one for one in source.files if one.file.carrier is SpecCarrier]
            if len(tunes) == len(source.files) == 1 and set(others) == set(own):
                texts.append(read_text(tunes[0].path))
                continue
            place = self.place(staying.unit)
            kept = place.spec.with_name(f"{place.spec.stem}-{name}.mlir")
            moved, flags = _parts(source, {}, (), spec_flag=self.run.target.spec_flag, whole={})
            made = write_shipped(replace(place, spec=kept), moved, flags)
            notes.append(f"{name} needs other flags, so it has files of its own: {made.flagfile}")
        if not texts:
            return parts, tuple(notes)
        old = [parts.spec] if parts.spec is not None else []
        merged = merge([*old, *texts], tools=self.run.session.tools, force=True, trust=self.trust, made_by=header[1:])
        flag = self.run.target.spec_flag
        return replace(parts, carrier=SpecCarrier.name, spec=merged.text, spec_flag=flag), tuple(notes)

    def _compile(self, part: Part, flagfile: Path | None) -> Future[Compiled]:
        """What a user's compile gives; without a flagfile, with the old files."""
        run = self.run
        program, own = program_of(part, run)
        words = (f"@{flagfile}",) if flagfile is not None else self._carried(part.unit)
        flags, timeout, executor = (*own, *words), run.options.effort.compile_timeout, run.session.executor
        if isinstance(program, str):
            return executor.start(BuildJob(program, flags, timeout))
        return executor.start_whole(whole_job(program, flags, timeout=timeout))

    def _carried(self, unit: Unit) -> tuple[str, ...]:
        target = self.run.target
        if unit.flagfile is not None:  # which may name files as they are found from here
            return tuple(map(absolute, unit.flagfile.flags))
        words: list[str] = [*target.compile_flags]
        for one in unit.files:
            words += one.file.flags(one.path, spec_flag=target.spec_flag, objects=unit.objects or one.path.parent)
        return tuple(words)

    def _set_aside(self, unit: Unit) -> None:
        """Copies of what is about to be written over."""
        folder = self.run.folder / "old"
        folder.mkdir(parents=True, exist_ok=True)
        for path in unit.reads:
            if path.is_dir():
                shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
            elif path.parent == unit.spec.parent:
                shutil.copy(path, folder / path.name)
            else:
                (folder / path.parent.name).mkdir(exist_ok=True)
                shutil.copy(path, folder / path.parent.name / path.name)

    def _header(self, staying: Staying) -> list[str]:
        tools, environment = self.run.session.tools, self.run.environment
        entries = count(len(staying.kept) + len(staying.new), "entry")
        return [
            f"Spec {WRITTEN}, retuned: {entries}",
            f"target:     {self.run.target.name}; IREE {tools.release} ({tools.build})",
            f"machine:    {environment.get('device_name') or 'none'}",
            f"from:       {staying.unit.path}",
            f"date:       {today()}",
            f"made by:    {shell_line(('autotune', *self.run.options.command[1:]))}",
            *(f"precision:  {words}" for words in sorted({part.accepted for part in staying.parts} - {""})),
        ]


def _binary(name: str, code: Future[Compiled] | str) -> str:
    made = code if isinstance(code, str) else code.result()
    if isinstance(made, str):
        return made
    if not made.ok:
        raise OtherCodeError(f"{name} does not compile any more: {first_error(made.stderr)}", remedy=_AGAIN)
    return made.binary


def model_of(parts: Sequence[Part], run: Run) -> Path | None:
    """The one model that a unit is for; None where it is for problems, or for several models."""
    models = {part.model.path for part in parts if part.model is not None}
    if len(models) != 1 or any(part.model is None for part in parts):
        return None
    program, _ = program_of(parts[0], run)
    return program if isinstance(program, Path) else None


def program_of(part: Part, run: Run) -> tuple[str | Path, tuple[str, ...]]:
    """What a part compiles, and the flags that it needs itself."""
    if part.problem is not None:
        problem = run.target.prepare(part.problem)
        return problem_mlir(problem), problem.flags
    if part.model is None:
        raise ValueError("a part is a problem or a model")
    return opened(part.model, run).path, ()


def opened(model: Model, run: Run) -> ModelFile:
    """Imported and vetted once in a run."""
    with one_at_a_time(("opening", model.path)):
        return _open(model.path, run.session.workspace.candidates / "models", run.session.tools, model.trust, run.id)


@lru_cache(maxsize=16)
def _open(path: Path, folder: Path, tools: Tools, trust: bool, run: str) -> ModelFile:
    del run
    return ModelFile.open(path, folder=folder, tools=tools, trust=trust)


def _with(provenance: Provenance | None, staying: Staying) -> Provenance:
    old = next(iter(staying.unit.provenances), None)
    return replace(provenance or Provenance(), earlier=old.line() if old else "")


def _parts(
    unit: Unit,
    kept: Mapping[Key, Provenance],
    header: Sequence[str],
    *,
    spec_flag: str,
    whole: Mapping[Path, str] | None = None,
) -> tuple[Parts, tuple[str, ...]]:
    """The files of a unit with the entries that stay, and its other flags.

    `whole` takes all entries, of some files with another text.
    """
    parts = Parts(FLAGS.name)
    executables: dict[str, str] = {}
    for one in unit.files:
        ids = {id: provenance for (path, id), provenance in kept.items() if path == one.path}
        if whole is not None:
            text = whole.get(one.path) or read_text(one.path)
        elif ids:
            text = renew(one.path, ids, header=header)
        else:
            continue
        carrier = one.file.carrier
        if carrier.brings_objects:
            used = [
                name for entry in one.file.entries for name in entry.objects if whole is not None or entry.id in ids
            ]
            objects = tuple(dict.fromkeys((unit.objects or one.path.parent) / name for name in used))
            if parts.spec is None:
                parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=SPEC_FLAG, objects=objects)
            else:
                parts = replace(parts, kernels=text, objects=objects)
        elif not carrier.by_name:
            parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=spec_flag)
        elif one.path == unit.spec:
            flag = f"{SUBSTITUTION}={one.file.entries[0].name}"
            parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=flag)
        else:
            executables[one.path.stem] = text
            parts = replace(parts, carrier=parts.carrier if parts.spec is not None else carrier.name)
    flags = unit.flagfile.others if unit.flagfile else ()
    return replace(parts, executables=executables), flags
