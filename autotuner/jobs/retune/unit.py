"""A spec with its shipped files, and which of its entries still apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.carriers.flagfile import KERNELS
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.provenance import Provenance
from autotuner.errors import UsageError
from autotuner.iree.compile import CompilerRefusal, first_error
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.recipe import file_flags
from autotuner.specfiles.applied import EntryUse, applied
from autotuner.specfiles.check import check_objects, check_processor, objects_folder
from autotuner.specfiles.entries import Entry, SpecFile, read_spec, read_text
from autotuner.specfiles.flagfile import Flagfile, beside
from autotuner.specfiles.vetting import executables_in
from autotuner.targets import Target

_SUFFIXES = (".mlir", ".flags")
_FLAGS_ALONE = "Flags alone have no entries: the command that found them tunes anew, `autotune ab default FILE` races."
Key = tuple[Path, str]
"""An entry: its file and its id there."""


@dataclass(frozen=True)
class Unit:
    """Files that one compile takes together."""

    spec: Path
    """What was named: the spec, or where it would be beside a flagfile of microkernels or executables."""
    flagfile: Flagfile | None
    """Files that it names are also looked for beside it: files are moved together."""
    files: Mapping[Path, SpecFile]
    """The spec that tunes or substitutes, the one that calls microkernels, a model's executables."""
    objects: Path | None = None

    @property
    def name(self) -> str:
        return beside(self.spec, "").name

    @property
    def entries(self) -> dict[Key, Entry]:
        return {(path, entry.id): entry for path, file in self.files.items() for entry in file.entries}

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        return tuple(entry.provenance for entry in self.entries.values() if entry.provenance is not None)

    @property
    def reads(self) -> tuple[Path, ...]:
        """All of its files."""
        own = [*self.files, *([self.flagfile.path] if self.flagfile else [])]
        return tuple(dict.fromkeys([*own, *([self.objects] if self.objects else [])]))

    def flags(self, target: Target) -> tuple[str, ...]:
        """A user's flags, without those that name its files."""
        if self.flagfile is None:
            return target.compile_flags
        return file_flags(target, self.flagfile.others, path=self.flagfile.path)


def find_specs(path: Path) -> tuple[Path, ...]:
    """The spec that is named; of a workspace, or a folder of specs, all of them."""
    if path.is_dir():
        folder = path / "specs" if (path / "specs").is_dir() else path
        stems = {beside(one, ".mlir") for one in folder.iterdir() if one.suffix in _SUFFIXES and one.is_file()}
        if not stems:
            raise UsageError(f"there is no spec in {folder}.", remedy="Name a spec or a workspace.")
        return tuple(sorted(one.absolute() for one in stems))
    if not path.is_file() or path.suffix not in _SUFFIXES:
        wrong = f"{path} is not a spec" if path.is_file() else f"there is no file {path}"
        raise UsageError(f"{wrong}.", remedy="Name a spec (.mlir) or a workspace.")
    return (beside(path.absolute(), ".mlir"),)


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
    if not paths:
        raise UsageError(f"{beside(spec, '.flags')} names no spec.", remedy=_FLAGS_ALONE)
    files = {path: read_spec(read_text(path), name=str(path), trust=trust) for path in paths}
    brings = any(file.carrier.brings_objects for file in files.values())
    return Unit(spec, flagfile, files, objects_folder(spec, flagfile).absolute() if brings else None)


# --- does every entry still apply? ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """How often an entry applies, or why it does not."""

    applied: int
    lost: str = ""


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
        for path, file in self.unit.files.items():
            keys = [key for key in wanted if key[0] == path]
            if keys:
                found |= self._file(path, file, keys)
        return found

    def _file(self, path: Path, file: SpecFile, keys: Sequence[Key]) -> dict[Key, Proof]:
        text = read_text(path)
        try:
            wrong = "; ".join(self._unfit(file, text, name=str(path)))
            uses = {} if wrong else {use.entry.id: use for use in self._uses(file, text)}
        except CompilerRefusal as refusal:
            wrong = f"it does not compile any more: {first_error(refusal.stderr)}"
        except UsageError as error:
            wrong = error.message
        return {key: Proof(0, wrong) if wrong else _proof(uses.get(key[1])) for key in keys}

    def _unfit(self, file: SpecFile, text: str, *, name: str) -> list[str]:
        """The fault of a file's code, or of its processor; empty without one."""
        carrier, target, objects = file.carrier, self.target, self.unit.objects
        found = list(check_objects(file, objects, target)) if carrier.brings_objects and objects else []
        if target.backend.on_host and (carrier.brings_objects or carrier.by_name):
            found += check_processor(text, self.tools, target, name=name)
        return [one.text for one in found if one.level == "error"]

    def _uses(self, file: SpecFile, text: str) -> tuple[EntryUse, ...]:
        """A tuning spec is proven after the microkernels, which go in first."""
        unit, brings = self.unit, file.carrier.brings_objects
        flags = [*self.own, *unit.flags(self.target)]
        if unit.objects is not None and not brings:
            flags += [f"{SPEC_FLAG}={path}" for path, one in unit.files.items() if one.carrier.brings_objects]
            flags.append(f"{OBJECTS_FLAG}={unit.objects}")
        objects = unit.objects if brings else None
        return applied(text, self.program, flags, self.tools, objects=objects, timeout=self.timeout)


def _proof(use: EntryUse | None) -> Proof:
    if use is None or not use.matched:
        return Proof(0, "it does not apply any more: nothing matches it")
    if not use.dispatches:
        return Proof(0, f"it matches {', '.join(use.ops) or 'an operation'}, but a later pass drops its configuration")
    return Proof(use.dispatches)
