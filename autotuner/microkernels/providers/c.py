"""Kernels in C for processors: one file, compiled freestanding by a compiler for that processor, kept by content."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autotuner.errors import AutotuneError, EnvironmentFailure, ToolMissingError
from autotuner.iree.compile import first_error
from autotuner.microkernels.isa import choose_isa
from autotuner.microkernels.kept import is_kept, keep, kept_folder
from autotuner.microkernels.library import shipped_folder
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers.c_reads import reads
from autotuner.microkernels.visibility import hide
from autotuner.problems import Conv, Gemm, Problem
from autotuner.system import process
from autotuner.system.alone import one_at_a_time
from autotuner.system.cache import Cache

COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-nostdlib"),
    # The object is linked into an executable that has no C library, no thread-local storage and no stack guard.
    *("-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    "-fvisibility=hidden",
)
_NO_MEMSET = "-fno-tree-loop-distribute-patterns"
"""GCC alone needs and knows it: it makes calls of memset from loops even where there is none."""
_SECONDS = 60.0
_IDENTITY_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that makes code for one architecture."""

    path: Path
    version: str
    target: tuple[str, ...] = ()
    """What must be said to one that makes code for several."""

    @property
    def flags(self) -> tuple[str, ...]:
        own = () if "clang" in self.version.lower() else (_NO_MEMSET,)
        return (*self.target, *FLAGS, *own)


class ObjectRefusalError(AutotuneError):
    """The compiler would not take the source: one variant, or all of them."""

    exit_code = 3

    def __init__(self, source: Path, stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"{source.name} does not compile: {first_error(stderr)}", remedy="Correct the source.")


def provide(
    manifest: Manifest,
    problem: Problem,
    chip: str,
    *,
    parameters: Mapping[str, int] | None = None,
    symbol: str | None = None,
    features: Collection[str] = (),
) -> tuple[Path, ...]:
    """The objects that this kernel is bound with for these parameters; built once for each content.

    `symbol` is another name for the kernel's function: a program that has two of its variants needs two names.
    `features` are the processor's, by LLVM's names: without them only what all of its architecture have is used.
    """
    source = manifest.provider.source
    if manifest.provider.kind != "c" or source is None:
        raise ValueError(f"{manifest.name} is not made from C")
    numbers = manifest.fit(problem, chip, parameters=parameters, features=features)
    macros = {name: numbers[name] for name in (*manifest.parameters, *manifest.values)} | problem_macros(problem)
    renamed = (manifest.symbol, symbol) if symbol else None
    return (compile_object(source, macros, chip=chip, features=features, timeout=_SECONDS, renamed=renamed),)


def problem_macros(problem: Problem) -> dict[str, int]:
    """What a source may need to know of a problem beside its sizes, which are arguments or values of its manifest."""
    if isinstance(problem, Gemm):
        layout = {"TRANSPOSE_LHS": int(problem.layout[0] == "t"), "TRANSPOSE_RHS": int(problem.layout[1] == "t")}
        return {**layout, **problem.epilogue.macros()}
    if isinstance(problem, Conv):
        form = {"CHANNELS_LAST": int(problem.channels_last), "DEPTHWISE": int(problem.depthwise)}
        return {**form, **problem.epilogue.macros()}
    return {}


def compile_object(
    source: Path,
    macros: Mapping[str, int],
    *,
    chip: str,
    features: Collection[str] = (),
    timeout: float,
    renamed: tuple[str, str] | None = None,
) -> Path:
    """The object of one C file with these numbers as macros, in capitals; `renamed` gives a function another name."""
    compiler = find_compiler(chip)
    defines = [f"-D{name.upper()}={int(value)}" for name, value in sorted(macros.items())]
    defines += [f"-D{renamed[0]}={renamed[1]}"] if renamed else []
    flags = [*compiler.flags, *choose_isa(chip, features).flags, *defines]
    headers = f"-I{shipped_folder()}"
    contents, refusal = reads(compiler.path, [*flags, headers], source, timeout=timeout)
    if refusal is not None:
        raise ObjectRefusalError(source, refusal.why())
    key = Cache.key([compiler.version, chip, *flags, *contents])
    final = kept_folder(key) / f"{source.stem}-{key[:24]}.o"
    with one_at_a_time(final):
        if not is_kept(final):
            _compile(compiler, source, [*flags, headers], final, timeout=timeout)
    return final


def _compile(compiler: Compiler, source: Path, flags: list[str], final: Path, *, timeout: float) -> None:
    with keep(final) as making:
        done = process.run([compiler.path, *flags, "-c", source.absolute(), "-o", making], timeout=timeout)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())
        making.write_bytes(hide(making.read_bytes()))  # whatever the source's own attributes say


@cache
def find_compiler(machine: str) -> Compiler:
    """The first on PATH that makes code for this architecture: a native one, a cross compiler, clang told to."""
    cross = f"{machine}-linux-gnu"
    found = [path for path in map(shutil.which, (*COMPILERS, f"{cross}-gcc")) if path]
    makes = {path: _ask(path, "-dumpmachine").partition("-")[0] for path in found}
    for path, made in makes.items():
        if made == machine:
            return Compiler(Path(path), _ask(path, "--version"))
    clang = shutil.which("clang")
    if clang is not None and machine.replace("_", "-") in _ask(clang, "--print-targets").split():
        return Compiler(Path(clang), _ask(clang, "--version"), (f"--target={cross}",))
    if not found:
        raise ToolMissingError("there is no C compiler (cc, gcc or clang) on PATH.", remedy="Install gcc.")
    made = ", ".join(f"{Path(path).name} for {name}" for path, name in makes.items())
    raise ToolMissingError(
        f"no C compiler on PATH makes code for {machine}; there is {made}.",
        remedy=f"Install {cross}-gcc (in Debian the package gcc-{machine.replace('_', '-')}-linux-gnu) or clang.",
    )


def _ask(compiler: str, question: str) -> str:
    done = process.run([compiler, question], timeout=_IDENTITY_SECONDS)
    if not done.ok:
        raise EnvironmentFailure(f"{compiler} does not run: {done.why()[-200:]}", remedy="Install gcc.")
    return done.stdout.strip()
