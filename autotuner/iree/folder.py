"""The folder that iree-compile runs in: its inputs and its outputs."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotuner.errors import EnvironmentFailure

if TYPE_CHECKING:
    from autotuner.iree.compile import Compile, Dump, PartialCompile, Phase

PROBLEM, SPEC, BEGUN, MODULE = "problem.mlir", "spec.mlir", "begun.mlirbc", "module.vmfb"
"""The names of the files in a compile's folder."""
MODEL = "whole-model.mlir"
"""The name of a model in the folder: it becomes part of the binaries, which are cached by content."""
ROOM = "Free some space, or choose another --workspace or AUTOTUNE_CACHE_DIR."


def write_inputs(job: Compile, folder: Path, *, begun: PartialCompile | None = None) -> None:
    """Writes the files that the command reads."""
    own = {} if isinstance(job.program, Path) else {PROBLEM: job.program.encode()}
    if job.spec is not None:
        own[SPEC] = job.spec.encode()
    if begun is not None:
        own[BEGUN] = begun.program
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(job.program, Path):
            (folder / MODEL).unlink(missing_ok=True)
            (folder / MODEL).symlink_to(job.program.absolute())
        for name, data in (*own.items(), *job.files):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {folder}: {error.strerror}.", remedy=ROOM) from error


def remove_outputs(folder: Path) -> None:
    remove_dumps(folder)
    (folder / MODULE).unlink(missing_ok=True)


def remove_dumps(folder: Path) -> None:
    for name in ("configurations", "benchmarks", "binaries", "phases"):
        shutil.rmtree(folder / name, ignore_errors=True)


def read_dumps(dumps: Sequence[Dump], folder: Path, *, phases: Sequence[Phase]) -> dict[Dump | Phase, tuple[str, ...]]:
    found: dict[Dump | Phase, tuple[str, ...]] = {}
    for what in dumps:
        if what == "phases":
            found |= {phase: read_folder(folder / what, f"*.{phase}.mlir") for phase in phases}
        elif what != "binaries":
            found[what] = read_folder(folder / what)
    return found


def read_folder(folder: Path, pattern: str = "*.mlir") -> tuple[str, ...]:
    """The MLIR files of a folder."""
    return tuple(path.read_text() for path in sorted(folder.glob(pattern)))


def hash_binaries(folder: Path) -> str:
    """One hash over the dumped executables."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
