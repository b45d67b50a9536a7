"""Do files written anew say the same to the compiler as those that were raced? Then they are not compiled again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iree.compiler import ir

from autotuner.carriers.provenance import ENTRY
from autotuner.iree.mlir import walk
from autotuner.jobs.retune.proof import compile_flags
from autotuner.jobs.retune.unit import Unit
from autotuner.specfiles.entries import parse_spec, read_text
from autotuner.system.digests import known_digest
from autotuner.targets import Target


def says_the_same(old: Unit, new: Unit, target: Target) -> bool:
    """The same flags and objects, and specs that differ in comments and provenance alone.

    Of executables that take others' places by their name a compile tells.
    """
    if new.flagfile is None or any(one.file.carrier.by_name for one in (*old.files, *new.files)):
        return False
    before, after = _carried(old, target), _carried(new, target)
    if compile_flags(old, target) != new.flagfile.others or before is None or before != after:
        return False
    pairs = zip(old.files, new.files, strict=True)
    return _objects(old) == _objects(new) is not None and all(_bare(a.path) == _bare(b.path) for a, b in pairs)


def _objects(unit: Unit) -> Mapping[str, str] | None:
    """The objects that a unit's specs link, by name; None where its flagfile names another folder of them."""
    names = sorted({name for _, entry in unit.entries for name in entry.objects})
    folders = [Path(folder).absolute() for folder in unit.flagfile.folders] if unit.flagfile else []
    if folders != ([unit.objects] if unit.objects is not None else []):
        return None
    return {name: known_digest(folder / name) for folder in folders for name in names}


def _carried(unit: Unit, target: Target) -> list[tuple[str, int]] | None:
    """By which flag each file of a unit is carried; None where its flagfile names others."""
    paths = [one.path.absolute() for one in unit.files]
    named = [*unit.flagfile.carriers] if unit.flagfile else [(target.spec_flag, str(path)) for path in paths]
    if len(named) != len(paths) or {Path(file).absolute() for _, file in named} != {*paths}:
        return None
    return [(flag, paths.index(Path(file).absolute())) for flag, file in named]


def _bare(path: Path) -> str:
    """A spec without comments, and without what it says of itself."""
    with ir.Context() as context, ir.Location.unknown():
        module = parse_spec(read_text(path), context, name=str(path))
        for op in walk(module.operation):
            if ENTRY in op.attributes:
                del op.attributes[ENTRY]
        return str(module)
