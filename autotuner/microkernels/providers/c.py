"""Kernels in C for processors: one file, compiled freestanding by a compiler for that processor."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autotuner.errors import EnvironmentFailure, ToolMissingError
from autotuner.microkernels.chips import choose_isa
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.providers.provider import (
    SECONDS,
    Built,
    ObjectRefusalError,
    Request,
    kept_object,
    read_source,
)
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import content_digest

COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-nostdlib"),
    # The object is linked into an executable that has no C library, no thread-local storage and no stack guard.
    *("-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    *("-fvisibility=hidden", "-fno-jump-tables"),
)
_NO_MEMSET = "-fno-tree-loop-distribute-patterns"
"""A flag for GCC alone, which turns loops into calls of memset even in freestanding code."""


class C:
    """Builds a C function of the manifest's symbol; numbers are macros in capitals."""

    def require(self, chip: str) -> None:
        find_compiler(chip)

    def build(self, request: Request) -> Built:
        return compile_object(
            request.source,
            request.macros(),
            chip=request.chip,
            features=request.features,
            timeout=request.timeout,
            symbol=request.manifest.symbol,
        )


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that makes code for one architecture."""

    path: Path
    version: str

    @property
    def flags(self) -> tuple[str, ...]:
        own = () if "clang" in self.version.lower() else (_NO_MEMSET,)
        return (*FLAGS, *own)


def compile_object(
    source: Path,
    macros: Mapping[str, int],
    *,
    chip: str,
    features: Collection[str] = (),
    timeout: float = SECONDS,
    symbol: str = "kernel",
) -> Built:
    """Compiles one C file with these numbers as macros, in capitals.

    The object's key is its preprocessed text, so every header counts, and shapes whose macros leave the same code share
    it. The function is named after the key, too: executables are linked together, and of two functions of one name both
    would call the first.
    """
    compiler = find_compiler(chip)
    read_source(source)
    defines = [f"-D{name.upper()}={int(value)}" for name, value in sorted(macros.items())]
    flags = [*compiler.flags, *choose_isa(chip, features).flags]
    command: list[str | Path] = [compiler.path, *flags, *defines, f"-I{shipped_folder()}", source.absolute()]

    def run(*words: str | Path) -> str:
        done = process.run([*command, *words], timeout=timeout)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())
        return done.stdout

    key = Cache.key([compiler.version, chip, symbol, *flags, content_digest(run("-E", "-P").encode())])
    named = f"{symbol}_{key[:12]}"

    def make(making: Path) -> dict[str, int]:
        run(f"-D{symbol}={named}", "-c", "-o", making)
        return {}

    return Built(kept_object(f"{source.stem}-{key[:24]}.o", key, make)[0], named)


@cache
def find_compiler(machine: str) -> Compiler:
    """The first compiler on PATH for this architecture: a native one, or a cross compiler."""
    cross = f"{machine}-linux-gnu"
    found = [path for path in map(shutil.which, (*COMPILERS, f"{cross}-gcc")) if path]
    makes = {path: _ask(path, "-dumpmachine").partition("-")[0] for path in found}
    for path, made in makes.items():
        if made == machine:
            return Compiler(Path(path), _ask(path, "--version"))
    if not found:
        raise ToolMissingError("there is no C compiler (cc, gcc or clang) on PATH.", remedy="Install gcc.")
    made = ", ".join(f"{Path(path).name} for {name}" for path, name in makes.items())
    raise ToolMissingError(
        f"no C compiler on PATH makes code for {machine}; there is {made}.",
        remedy=f"Install {cross}-gcc (in Debian the package gcc-{machine.replace('_', '-')}-linux-gnu).",
    )


def _ask(compiler: str, question: str) -> str:
    done = process.run([compiler, question], timeout=SECONDS)
    if not done.ok:
        raise EnvironmentFailure(f"{compiler} does not run: {done.why()[-200:]}", remedy="Install gcc.")
    return done.stdout.strip()
