"""What is retuned: a spec with all that was shipped beside it, or a flagfile alone; and which entries still apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.carriers.flagfile import KERNELS, Flagfile, beside
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
Key = tuple[Path, str]
"""An entry: its file and its id there."""


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
    """What it names and is not there is looked for beside it: files are moved together."""
    files: tuple[UnitFile, ...] = ()
    """The spec that tunes or substitutes, the one that calls microkernels, a model's executables."""
    objects: Path | None = None
    problem: str = ""
    """Why it cannot be read; empty where it can."""

    @property
    def name(self) -> str:
        return beside(self.spec, "").name

    @property
    def path(self) -> Path:
        """What the user sees of it."""
        return self.spec if self.files or self.flagfile is None else self.flagfile.path

    @property
    def entries(self) -> dict[Key, Entry]:
        return {(one.path, entry.id): entry for one in self.files for entry in one.file.entries}

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        return tuple(entry.provenance for entry in self.entries.values() if entry.provenance is not None)

    @property
    def reads(self) -> tuple[Path, ...]:
        """All of its files."""
        own = [one.path for one in self.files] + ([self.flagfile.path] if self.flagfile else [])
        return tuple(dict.fromkeys([*own, *([self.objects] if self.objects else [])]))

    def words(self, target: Target) -> tuple[str, ...]:
        """What a user compiles with."""
        if self.flagfile is not None:
            return self.flagfile.flags
        words = [*target.compile_flags]
        for one in self.files:
            words += one.file.flags(one.path, spec_flag=target.spec_flag, objects=self.objects or one.path.parent)
        return tuple(words)

    def flags(self, target: Target) -> tuple[str, ...]:
        """Those of them that name no file of it."""
        if self.flagfile is None:
            return target.compile_flags
        return file_flags(target, self.flagfile.others, path=self.flagfile.path)


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
        flagfile = flagfile.found_in(spec.parent)
        # A compile takes what a flagfile names, which may be other files than those of its name.
        named = {Path(file).name: Path(file) for _, file in flagfile.carriers}
        paths = [named.pop(path.name, path) for path in paths]
        paths += named.values()
        for folder in flagfile.executables:
            paths += executables_in(Path(folder))
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


@dataclass(frozen=True)
class Prover:
    """Asks the compiler about the entries of one unit in one program."""

    unit: Unit
    program: str | Path
    own: tuple[str, ...]
    """Flags that the program itself needs."""
    target: Target
    tools: Tools
    timeout: float

    def prove(self, wanted: Mapping[Key, Entry]) -> dict[Key, Proof]:
        found: dict[Key, Proof] = {}
        for file in self.unit.files:
            keys = [key for key in wanted if key[0] == file.path]
            if keys:
                found |= self._file(file, keys)
        return found

    def _file(self, file: UnitFile, keys: Sequence[Key]) -> dict[Key, Proof]:
        try:
            wrong = "; ".join(self._unfit(file))
            uses = {} if wrong else {use.entry.id: use for use in self._uses(file)}
        except CompilerRefusal as refusal:
            wrong = f"it does not compile any more: {first_error(refusal.stderr)}"
        except UsageError as error:
            wrong = error.message
        return {key: Proof(0, wrong) if wrong else _proof(uses.get(key[1])) for key in keys}

    def _unfit(self, file: UnitFile) -> list[str]:
        """What is wrong with the code that a file brings, or names the processor of."""
        carrier, target, objects = file.file.carrier, self.target, self._objects(file)
        found = list(check_objects(file.file, objects, target)) if objects is not None else []
        if target.backend.on_host and (carrier.brings_objects or carrier.by_name):
            found += check_processor(read_text(file.path), self.tools, target, name=str(file.path))
        return [one.text for one in found if one.level == "error"]

    def _uses(self, file: UnitFile) -> tuple[Use, ...]:
        kernels = () if file.file.carrier.brings_objects else self._kernels()
        flags = (*self.own, *self.unit.flags(self.target), *kernels)
        objects, text = self._objects(file), read_text(file.path)
        return applied(text, self.program, flags, self.tools, objects=objects, timeout=self.timeout)

    def _objects(self, file: UnitFile) -> Path | None:
        return self.unit.objects if file.file.carrier.brings_objects else None

    def _kernels(self) -> tuple[str, ...]:
        """The microkernels that go in before: a tuning spec is for what they leave."""
        calling = [file.path for file in self.unit.files if file.file.carrier.brings_objects]
        objects = (f"{OBJECTS_FLAG}={self.unit.objects}",) if calling else ()
        return (*(f"{SPEC_FLAG}={path}" for path in calling), *objects)


def _proof(use: Use | None) -> Proof:
    if use is None or not use.matched:
        return Proof(0, "it does not apply any more: nothing matches it", unmatched=True)
    if not use.dispatches:
        return Proof(0, f"it matches {', '.join(use.ops) or 'an operation'}, but a later pass drops its configuration")
    return Proof(use.dispatches)
