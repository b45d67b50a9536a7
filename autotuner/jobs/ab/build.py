"""One arm's compile, in its own folder and by relative names: then equal code gives equal modules."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.build.builder import BINARIES, CONFIGURATIONS, MODULE, dump_flags, hash_binaries
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import FailureClass, compile_failure
from autotuner.jobs.model.extract import by_name
from autotuner.jobs.model.program import read_folder
from autotuner.system import process

_REPEAT = "--iree-hal-benchmark-dispatch-repeat-count"


@dataclass(frozen=True)
class Built:
    """What became of a compile."""

    vmfb: Path
    failure: FailureClass | None
    stderr: str
    seconds: float
    binary: str
    """Hash of the executables."""
    digest: str
    """Hash of the module: what runs on the host is part of it."""
    command: tuple[str, ...]
    repeat: int = 1
    executables: Mapping[str, str] = field(repr=False, default_factory=dict)
    """The configured executables by name, as far as they can be read."""

    @property
    def ok(self) -> bool:
        return self.failure is None


def build(
    compiler: Path, source: Path | str, flags: Sequence[str], *, folder: Path, timeout: float, repeat: int = 1
) -> Built:
    """Compiles `source` in `folder`; the module stays there."""
    command = (
        str(compiler),
        str(source),
        *flags,
        *((f"{_REPEAT}={repeat}",) if repeat > 1 else ()),
        *dump_flags(substitutes=False),
        "-o",
        MODULE,
    )
    _remove_dumps(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODULE).unlink(missing_ok=True)
    done = process.run(command, timeout=timeout, cwd=folder)
    failure = compile_failure(done)
    vmfb = folder / MODULE
    if failure is None and not vmfb.is_file():
        failure = "compile-error"
    binary = digest = ""
    texts: dict[str, str] = {}
    if failure is None:
        binary = hash_binaries(folder / BINARIES)
        digest = hashlib.sha256(vmfb.read_bytes()).hexdigest()
        texts = _readable(folder / CONFIGURATIONS)
    _remove_dumps(folder)
    return Built(
        vmfb, failure, done.why() if failure else done.stderr, done.seconds, binary, digest, command, repeat, texts
    )


def _readable(folder: Path) -> dict[str, str]:
    """Another compiler may write what the installed bindings do not read."""
    try:
        return by_name(read_folder(folder))
    except EnvironmentFailure:
        return {}


def _remove_dumps(folder: Path) -> None:
    for name in (CONFIGURATIONS, BINARIES):
        shutil.rmtree(folder / name, ignore_errors=True)
