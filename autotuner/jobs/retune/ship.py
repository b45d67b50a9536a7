"""Writes what stays: first where it harms nothing, compiled there once more, and only then where the user has it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotuner.build import BuildJob
from autotuner.build.ship import ship_together, write_shipped
from autotuner.carriers.carrier import FLAGS, Parts, SpecCarrier
from autotuner.carriers.flagfile import SUBSTITUTION
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.carriers.outputs import MODEL, WRITTEN, Outputs
from autotuner.carriers.provenance import Provenance, today
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import Compiled, first_error, shell_line
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.unit import Key, Unit, read_unit
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import whole_job
from autotuner.specfiles.entries import read_text
from autotuner.specfiles.merge import merge
from autotuner.specfiles.renew import renew
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
    parts: tuple[Part, ...] = ()
    """The programs that must give the same code as before."""
    found: Mapping[str, Path] = field(default_factory=dict)
    """Of what was found anew, by program: its flagfile."""
    binaries: Mapping[str, str] = field(default_factory=dict)
    """By program: the code that was raced; of others the old files are compiled."""


@dataclass(frozen=True)
class Written:
    """The files that a unit became."""

    unit: Path
    files: Files
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
        return Outputs.at(unit.spec if self.in_place else spec, workspace, MODEL, force=self.run.options.force)

    def claim(self, units: Sequence[Unit]) -> None:
        """Before anything is compiled: what cannot be written is no surprise at the end."""
        for unit in units:
            self.place(unit).claim(() if self.in_place else unit.reads)

    def write(self, staying: Staying) -> list[Written]:
        """What was found anew joins the others where one spec can carry both, and has files of its own otherwise."""
        unit, place = staying.unit, self.place(staying.unit)
        own = [part for part in staying.parts if part.name not in staying.found]
        found = {name: read_unit(path.with_suffix(".mlir"), trust=self.trust) for name, path in staying.found.items()}
        joins = {name for name, one in found.items() if own and self._joins(one, unit)}
        alone = not own and len(found) == 1
        if self.in_place:
            self._set_aside(unit)
        written = []
        for name in found.keys() - joins:
            apart = place if alone else replace(place, spec=place.spec.with_name(f"{place.spec.stem}-{name}.mlir"))
            parts = _parts(found[name], None, (), spec_flag=self.run.target.spec_flag)
            programs = [part for part in staying.parts if part.name == name]
            written.append(self._shipped(staying, apart, parts, found[name], programs))
        if own:
            header = self._header(staying, joins)
            parts = _parts(unit, staying.kept, header, spec_flag=self.run.target.spec_flag)
            parts = self._joined(parts, [found[name] for name in joins], header)
            programs = [part for part in staying.parts if part.name in joins or part in own]
            written.append(self._shipped(staying, place, parts, unit, programs))
        return written

    def _joins(self, found: Unit, unit: Unit) -> bool:
        """It is a tuning spec alone, for a compile with the very flags of the others."""
        tunes = [one.file.carrier is SpecCarrier for one in found.files]
        return tunes == [True] and {*found.flags(self.run.target)} == {*unit.flags(self.run.target)}

    def _joined(self, parts: Parts, others: Sequence[Unit], header: Sequence[str]) -> Parts:
        if not others:
            return parts
        texts = [*([parts.spec] if parts.spec is not None else []), *(read_text(one.spec) for one in others)]
        merged = merge(texts, tools=self.run.session.tools, force=True, trust=self.trust, made_by=header[1:])
        return replace(parts, carrier=SpecCarrier.name, spec=merged.text, spec_flag=self.run.target.spec_flag)

    def _shipped(
        self, staying: Staying, place: Outputs, parts: Parts, source: Unit, programs: Sequence[Part]
    ) -> Written:
        """First where it harms nothing. What gives other code there than was raced is not written."""
        flags = source.flagfile.others if source.flagfile else self.run.target.compile_flags
        draft = Outputs(self.run.folder / "draft" / place.spec.name, MODEL)
        wanted = {part.name: self._raced(part, staying) for part in programs}
        shipped, lost = ship_together(
            draft,
            parts,
            flags,
            compiles=lambda flagfile: {part.name: self._compile(part, (f"@{flagfile}",)) for part in programs},
            binaries={name: _binary(name, code) for name, code in wanted.items()},
        )
        if shipped is None or lost:
            raise OtherCodeError("; ".join(f"{name}: {why}" for name, why in lost.items()) + ".", remedy=_AGAIN)
        if shipped.objects is not None:  # those of the old files may be written over
            parts = replace(parts, objects=tuple(shipped.objects / path.name for path in parts.objects))
        final = write_shipped(place, parts, flags)
        models = [part for part in programs if part.model is not None]
        program = program_of(models[0], self.run)[0] if models else None
        files = Files(final.spec, final.flagfile, final.carrier)
        return Written(staying.unit.path, files, program if isinstance(program, Path) else None)

    def _raced(self, part: Part, staying: Staying) -> Future[Compiled] | str:
        """The code that a program must have: as it was raced, or as what was found, or there, gives it."""
        if part.name in staying.found:
            return self._compile(part, (f"@{staying.found[part.name]}",))
        return staying.binaries.get(part.name) or self._compile(part, part.unit.words(self.run.target))

    def _compile(self, part: Part, words: tuple[str, ...]) -> Future[Compiled]:
        """What a user's compile gives."""
        run = self.run
        program, own = program_of(part, run)
        flags, timeout, executor = (*own, *words), run.options.effort.compile_timeout, run.session.executor
        if isinstance(program, str):
            return executor.start(BuildJob(program, flags, timeout))
        return executor.start_whole(whole_job(program, flags, timeout=timeout))

    def _set_aside(self, unit: Unit) -> None:
        """Copies of what is about to be written over."""
        folder = self.run.folder / "old"
        for path in unit.reads:
            within = folder if path.parent == unit.spec.parent else folder / path.parent.name
            within.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, within / path.name, dirs_exist_ok=True)
            else:
                shutil.copy(path, within / path.name)

    def _header(self, staying: Staying, joins: set[str]) -> list[str]:
        tools, environment = self.run.session.tools, self.run.environment
        return [
            f"Spec {WRITTEN}, retuned: {count(len(staying.kept) + len(joins), 'entry')}",
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


def program_of(part: Part, run: Run) -> tuple[str | Path, tuple[str, ...]]:
    """What a part compiles, and the flags that it needs itself."""
    if part.problem is not None:
        problem = run.target.prepare(part.problem)
        return problem_mlir(problem), problem.flags
    if part.model is None:
        raise ValueError("a part is a problem or a model")
    return part.model.opened_in(run.session.workspace, run.session.tools).source, ()


def _parts(unit: Unit, kept: Mapping[Key, Provenance] | None, header: Sequence[str], *, spec_flag: str) -> Parts:
    """The files of a unit with the entries that stay; None: as they are."""
    parts = Parts(FLAGS.name)
    for one in unit.files:
        own = [entry for entry in one.file.entries if kept is None or (one.path, entry.id) in kept]
        if not own:
            continue
        said = {entry.id: kept[one.path, entry.id] for entry in own} if kept is not None else {}
        text = renew(one.path, said, header=header) if kept is not None else read_text(one.path)
        carrier = one.file.carrier
        if carrier.brings_objects:
            names = dict.fromkeys(name for entry in own for name in entry.objects)
            objects = tuple((unit.objects or one.path.parent) / name for name in names)
            parts = parts.with_kernels(Parts(carrier.name, text, SPEC_FLAG, objects=objects))
        elif not carrier.by_name:
            parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=spec_flag)
        elif one.path == unit.spec:
            flag = f"{SUBSTITUTION}={one.file.entries[0].name}"
            parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=flag)
        else:
            main = parts.carrier if parts.spec is not None else carrier.name
            parts = replace(parts, carrier=main, executables={**parts.executables, one.path.stem: text})
    return parts
