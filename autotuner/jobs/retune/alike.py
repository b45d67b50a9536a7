"""Do files written anew say the same to the compiler as those that were raced? Then they are not compiled again."""

from __future__ import annotations

from pathlib import Path

from iree.compiler import ir

from autotuner.carriers.carrier import SpecCarrier
from autotuner.carriers.provenance import ENTRY
from autotuner.iree.mlir import walk
from autotuner.jobs.retune.proof import compile_flags
from autotuner.jobs.retune.unit import Unit
from autotuner.specfiles.entries import parse_spec, read_text
from autotuner.targets import Target


def tunes_alone(unit: Unit) -> bool:
    """It has flags and tuning specs, and brings no code."""
    return all(one.file.carrier is SpecCarrier for one in unit.files)


def says_the_same(old: Unit, new: Unit, target: Target) -> bool:
    """The same flags, and tuning specs that differ in comments and provenance alone; of others a compile tells."""
    if new.flagfile is None or not (tunes_alone(old) and tunes_alone(new)):
        return False
    before, after = _carried(old, target), _carried(new, target)
    if compile_flags(old, target) != new.flagfile.others or before is None or before != after:
        return False
    pairs = zip(old.files, new.files, strict=True)
    return all(_bare(a.path) == _bare(b.path) for a, b in pairs)


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
