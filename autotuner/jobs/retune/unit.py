"""What is retuned: a spec with all that was shipped beside it, or a flagfile alone; and which entries still apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.carriers.flagfile import KERNELS, Flagfile, beside, there_or_in
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.provenance import Provenance
from autotuner.errors import AutotuneError, UsageError
from autotuner.iree.compile import CompilerRefusal, first_error
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.recipe import file_flags
from autotuner.specfiles.applied import Use, applied
from autotuner.specfiles.check import check_objects, check_processor, objects_folder
from autotuner.specfiles.entries import Entry, SpecFile, read_spec, read_text
from autotuner.specfiles.vetting import executables_in
from autotuner.targets import Target

_SUFFIXES = (".mlir", ".flags")


@dataclass(frozen=True)
class UnitFile:
    """One file of a unit that has entries."""

    path: Path
    file: SpecFile


@dataclass(frozen=True)
class Unit:
    """Files that one compile takes together."""

    spec: Path
    """What was named: the spec, or where it would be beside a flagfile that names none."""
    flagfile: Flagfile | None = None
    files: tuple[UnitFile, ...] = ()
    """The spec that tunes or substitutes, the one that calls microkernels, a model's executables."""
    objects: Path | None = None
    problem: str = ""
    """Why it cannot be read; empty where it can."""
    was: Path | None = None
    """Of a copy that was made for the new compiler: the spec that it is of."""

    @property
    def home(self) -> Path:
        """The user's own spec."""
        return self.was or self.spec

    @property
    def moved(self) -> bool:
        """Its flagfile names files or folders that are not there: those beside it are meant."""
        flagfile = self.flagfile if self.files else None
        return flagfile is not None and flagfile.found_in(self.spec.parent) != flagfile.flags

    def shown(self, path: Path) -> Path:
        """A file of it, as the user has it."""
        return path if self.was is None else self.was.parent / path.relative_to(self.spec.parent)

    @property
    def name(self) -> str:
        return self.spec.stem.removesuffix(Path(KERNELS).stem) if self.spec.name.endswith(KERNELS) else self.spec.stem

    @property
    def path(self) -> Path:
        """What the user sees of it."""
        return self.home if self.files or self.flagfile is None else self.shown(self.flagfile.path)

    @property
    def entries(self) -> tuple[tuple[UnitFile, Entry], ...]:
        return tuple((one, entry) for one in self.files for entry in one.file.entries)

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        return tuple(entry.provenance for _, entry in self.entries if entry.provenance is not None)

    @property
    def reads(self) -> tuple[Path, ...]:
        """All of its files."""
        own = [one.path for one in self.files] + ([self.flagfile.path] if self.flagfile else [])
        return tuple(dict.fromkeys([*own, *([self.objects] if self.objects else [])]))


def find_units(path: Path, *, trust: bool) -> tuple[Unit, ...]:
    """The unit of a spec or flagfile; of a workspace, or a folder of specs, all of them."""
    if path.is_dir():
        folder = path / "specs" if (path / "specs").is_dir() else path
        found = tuple(_tried(spec, trust=trust) for spec in _specs(folder))
        if not found:
            raise UsageError(f"there is no spec in {folder}.", remedy="Name a spec, a flagfile or a workspace.")
        return found
    if not path.is_file():
        raise UsageError(f"there is no file {path}.", remedy="Name a spec (.mlir), a flagfile (.flags) or a workspace.")
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"{path} is neither a spec nor a flagfile.", remedy="Name an .mlir, a .flags or a folder.")
    return (read_unit(beside(path.absolute(), ".mlir"), trust=trust),)


def _specs(folder: Path) -> Iterator[Path]:
    """By the names of specs, each once."""
    stems = {beside(path, ".mlir") for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file()}
    return iter(sorted(path.absolute() for path in stems))


def _tried(spec: Path, *, trust: bool) -> Unit:
    try:
        return read_unit(spec, trust=trust)
    except AutotuneError as error:
        return Unit(spec, problem=error.message)


def read_unit(spec: Path, *, trust: bool) -> Unit:
    """A spec, the flagfile of its name, and what that names."""
    flagfile = Flagfile.beside(spec, trust=trust)
    paths = [path for path in (spec, spec.with_suffix(KERNELS)) if path.is_file()]
    if flagfile is not None:
        # A flagfile has whole paths, and a compile takes what they name; after a move, those beside it are meant.
        named = {path.name: path for _, file in flagfile.carriers if (path := there_or_in(Path(file), spec.parent))}
        paths = [named.pop(path.name, path) for path in paths]
        paths += named.values()
        for folder in flagfile.executables:
            paths += executables_in(there_or_in(Path(folder), spec.parent))
    files = tuple(UnitFile(path, read_spec(read_text(path), name=str(path), trust=trust)) for path in paths)
    if not files and flagfile is None:
        raise UsageError(f"there is neither {spec} nor a flagfile of its name.", remedy="Is the path right?")
    brings = any(one.file.carrier.brings_objects for one in files)
    objects = objects_folder(spec, flagfile).absolute() if brings else None
    return Unit(spec, flagfile, files, objects)


# --- does every entry still apply? ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """How often an entry applies, or why it does not."""

    applied: int
    lost: str = ""
    unmatched: bool = False
    """Nothing in the program is what it is for."""


Key = tuple[Path, str]
"""An entry: its file and its id there."""


@dataclass(frozen=True)
class Prover:
    """Asks the compiler about the entries of one unit in one program."""

    unit: Unit
    program: str | Path
    flags: tuple[str, ...]
    """That the program itself needs."""
    target: Target
    tools: Tools
    timeout: float

    def prove(self, entries: Sequence[tuple[UnitFile, Entry]]) -> dict[Key, Proof]:
        found: dict[Key, Proof] = {}
        for file in {one.path: one for one, _ in entries}.values():
            wanted = [entry for one, entry in entries if one.path == file.path]
            proofs = self._file(file, wanted)
            found |= {(file.path, id): proof for id, proof in proofs.items()}
        return found

    def _file(self, file: UnitFile, wanted: Sequence[Entry]) -> Mapping[str, Proof]:
        brings = file.file.carrier.brings_objects
        objects = self.unit.objects if brings else None
        if objects is not None:
            wrong = [one.text for one in check_objects(file.file, objects, self.target) if one.level == "error"]
            if wrong:
                return {entry.id: Proof(0, "; ".join(wrong)) for entry in wanted}
        if objects is not None or file.file.carrier.by_name:
            # Without a processor in it, and for a GPU, there is nothing to compare.
            made_for = check_processor(read_text(file.path), self.tools, self.target, name=str(file.path))
            errors = (one.text for one in made_for if one.level == "error" and not one.renewable)
            wrong = [*errors] if self.target.backend.on_host else []
            if wrong:
                return {entry.id: Proof(0, "; ".join(wrong)) for entry in wanted}
        try:
            flags = (*self.flags, *compile_flags(self.unit, self.target), *(() if brings else self._kernels()))
            text = read_text(file.path)
            uses = applied(text, self.program, flags, self.tools, objects=objects, timeout=self.timeout)
        except CompilerRefusal as refusal:
            why = f"it does not compile any more: {first_error(refusal.stderr)}"
            return {entry.id: Proof(0, why) for entry in wanted}
        except UsageError as error:
            return {entry.id: Proof(0, error.message) for entry in wanted}
        by_id = {use.entry.id: use for use in uses}
        return {entry.id: _proof(by_id.get(entry.id)) for entry in wanted}

    def _kernels(self) -> tuple[str, ...]:
        """The microkernels that go in before: a tuning spec is for what they leave."""
        calling = [file.path for file in self.unit.files if file.file.carrier.brings_objects]
        objects = (f"{OBJECTS_FLAG}={self.unit.objects}",) if self.unit.objects and calling else ()
        return (*(f"{SPEC_FLAG}={path}" for path in calling), *objects)


def compile_flags(unit: Unit, target: Target) -> tuple[str, ...]:
    """The target's flags, and those of the unit's flagfile that name no file."""
    if unit.flagfile is None:
        return target.compile_flags
    return file_flags(target, unit.flagfile.others, path=unit.flagfile.path)


def _proof(use: Use | None) -> Proof:
    if use is None or not use.matched:
        return Proof(0, "it does not apply any more: nothing matches it", unmatched=True)
    if not use.dispatches:
        return Proof(0, f"it matches {', '.join(use.ops) or 'an operation'}, but a later pass drops its configuration")
    return Proof(use.dispatches)
