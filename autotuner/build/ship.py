"""Writes the files of a winner, and proves that a fresh compile with them gives the same code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.build.builder import Builder, BuildJob
from autotuner.carriers.carrier import CarrierName, Parts
from autotuner.carriers.flagfile import SUBSTITUTIONS, flagfile_text
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.outputs import Outputs
from autotuner.errors import AutotuneError, EnvironmentFailure, UsageError
from autotuner.iree.compile import Compiled, compile_program, first_error
from autotuner.system.execution import done
from autotuner.system.text import short
from autotuner.system.workspace import is_component


@dataclass(frozen=True)
class Shipped:
    """The files of a winner; `spec` is None where flags alone win."""

    flagfile: Path
    carrier: CarrierName = "flags"
    spec: Path | None = None
    executables: Path | None = None
    objects: Path | None = None
    kernels: Path | None = None


def write_parts(files: Outputs, parts: Parts) -> list[str]:
    """Writes spec, executables and objects over those of an earlier run; gives the flags that name them."""
    files.clear()
    flags = []
    if parts.spec is not None:
        files.write(files.spec, parts.spec)
        flags.append(f"{parts.spec_flag}={files.spec}")
    for name, text in parts.executables.items():
        if not is_component(name):
            raise UsageError(f"the dispatch {short(name)} cannot name a file.", remedy="Rename its function.")
        files.write(files.executables / f"{name}.mlir", text)
    if parts.executables:
        flags.append(f"{SUBSTITUTIONS}={files.executables}")
    if parts.kernels is not None:
        files.write(files.kernels, parts.kernels)
        flags.append(f"{SPEC_FLAG}={files.kernels}")
    for source in parts.objects:
        files.copy(source)
    if parts.objects:
        flags.append(f"{OBJECTS_FLAG}={files.objects}")
    return flags


def write_shipped(files: Outputs, parts: Parts, flags: Sequence[str]) -> Shipped:
    """Writes the parts and the flagfile: these flags of target and route, and those that name the files."""
    files_flags = write_parts(files, parts)
    files.write(files.flagfile, flagfile_text([*flags, *files_flags]))
    return Shipped(
        files.flagfile,
        parts.carrier,
        files.spec if parts.spec is not None else None,
        files.executables if parts.executables else None,
        files.objects if parts.objects else None,
        files.kernels if parts.kernels is not None else None,
    )


def compile_shipped(job: BuildJob, flagfile: Path, builder: Builder) -> Compiled:
    """Compiles with `@flagfile`, as a user does, and proves the result as the job's was."""
    fresh = replace(job, flags=(f"@{flagfile}",), spec=None, repeat=1, figures="")
    with builder.cache.scratch() as folder:
        return builder.prove(fresh, compile_program(fresh, builder.tools, folder))


def ship(
    files: Outputs,
    parts: Parts,
    flags: Sequence[str],
    *,
    check: Callable[[Path], Compiled],
    binary: str | None,
) -> Shipped:
    """Writes the files and checks the flagfile; removes them where they do not give the code that won."""
    shipped, lost = ship_together(
        files, parts, flags, compiles=lambda flagfile: {"": done(check(flagfile))}, binaries={"": binary}
    )
    if shipped is None:
        raise EnvironmentFailure(
            f"what won cannot be shipped: {lost['']}.",
            remedy="Run again; if it stays so, please report it with the candidates' folder.",
        )
    return shipped


def ship_together(
    files: Outputs,
    parts: Parts,
    flags: Sequence[str],
    *,
    compiles: Callable[[Path], Mapping[str, Future[Compiled]]],
    binaries: Mapping[str, str | None],
) -> tuple[Shipped | None, dict[str, str]]:
    """Ships several programs at once, each with its winning binary; None: any binary will do.

    Those that the files do not give their code are named, with the reason; where all are, nothing is left behind.
    """
    try:
        shipped = write_shipped(files, parts, flags)
        made = {name: build.result() for name, build in compiles(shipped.flagfile).items()}
    except AutotuneError:
        files.clear()
        raise
    lost = {name: why for name, one in made.items() if (why := _why_lost(one, binaries.get(name)))}
    if lost and len(lost) == len(binaries):
        files.clear()
        return None, lost
    return shipped, lost


def _why_lost(made: Compiled, binary: str | None) -> str:
    if made.failure == "not-applied":
        return f"what is written does not apply: {made.stderr}"
    if not made.ok:
        return f"it does not compile with what is written: {first_error(made.stderr)}"
    return "" if binary in (None, made.binary) else "what is written gives it other code"
