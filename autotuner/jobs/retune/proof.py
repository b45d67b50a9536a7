"""Does every entry still apply? The new compiler is asked, with the flags that a user compiles with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.errors import UsageError
from autotuner.iree.compile import CompilerRefusal, first_error
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.recipe import file_flags
from autotuner.jobs.retune.unit import Unit, UnitFile
from autotuner.specfiles.applied import Use, applied
from autotuner.specfiles.check import check_objects, check_processor
from autotuner.specfiles.entries import Entry, read_text
from autotuner.targets import Target


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
