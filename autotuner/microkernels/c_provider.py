"""Kernels in C for processors: one file, compiled freestanding by the host's compiler, kept by content."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autotuner import process
from autotuner.build import Cache, first_error
from autotuner.errors import AutotuneError, EnvironmentFailure, StorageError, ToolMissingError, UsageError
from autotuner.microkernels.c_reads import reads
from autotuner.microkernels.manifest import Manifest
from autotuner.problems import Gemm, Problem
from autotuner.settings import cache_dir

COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-nostdlib"),
    # The object is linked into an executable that has no C library, no thread-local storage and no stack guard.
    *("-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
)
_NO_MEMSET = "-fno-tree-loop-distribute-patterns"
"""GCC alone needs and knows it: it makes calls of memset from loops even where there is none."""
_IDENTITY_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Isa:
    """The vector instructions that a kernel may use on this machine."""

    name: str
    flags: tuple[str, ...]


_AVX512 = Isa(
    "AVX-512",
    ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512"),
)
_AVX2 = Isa("AVX2", ("-mavx2", "-mfma"))
_SSE2 = Isa("SSE2", ())
_NEON = Isa("NEON", ())
"""Both are part of what every compiler for the architecture assumes."""
_X86 = (
    (frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"}), _AVX512),
    (frozenset({"avx2", "fma"}), _AVX2),
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """The host's C compiler."""

    path: Path
    machine: str
    """x86_64, aarch64: what it makes code for."""
    version: str

    @property
    def flags(self) -> tuple[str, ...]:
        return FLAGS if "clang" in self.version.lower() else (*FLAGS, _NO_MEMSET)


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
    timeout: float = 60,
) -> tuple[Path, ...]:
    """The objects that this kernel is bound with for these parameters; built once for each content.

    `symbol` is another name for the kernel's function: a program that has two of its variants needs two names.
    """
    source = manifest.provider.source
    if manifest.provider.kind != "c" or source is None:
        raise ValueError(f"{manifest.name} is not made from C")
    manifest.fit(problem, chip, parameters=parameters)
    chosen = {name: values[0] for name, values in manifest.parameters.items()} | dict(parameters or {})
    macros = {**chosen, **problem_macros(problem)}
    renamed = (manifest.symbol, symbol) if symbol else None
    return (compile_object(source, macros, chip=chip, timeout=timeout, renamed=renamed),)


def problem_macros(problem: Problem) -> dict[str, int]:
    """What a source may need to know of a problem beside its sizes, which are arguments."""
    if isinstance(problem, Gemm):
        return {"TRANSPOSE_LHS": int(problem.layout[0] == "t"), "TRANSPOSE_RHS": int(problem.layout[1] == "t")}
    return {}


def compile_object(
    source: Path, macros: Mapping[str, int], *, chip: str, timeout: float, renamed: tuple[str, str] | None = None
) -> Path:
    """The object of one C file with these numbers as macros, in capitals; `renamed` gives a function another name."""
    compiler = find_compiler()
    if compiler.machine != chip:
        raise UsageError(
            f"{compiler.path} makes code for {compiler.machine}, not for {chip}.",
            remedy="C kernels are built for the machine that autotune runs on: use --target cpu there.",
        )
    defines = [f"-D{name.upper()}={int(value)}" for name, value in sorted(macros.items())]
    defines += [f"-D{renamed[0]}={renamed[1]}"] if renamed else []
    flags = [*compiler.flags, *host_isa().flags, *defines]
    contents, refusal = reads(compiler.path, flags, source, timeout=timeout)
    if refusal is not None:
        raise ObjectRefusalError(source, refusal.why())
    key = Cache.key([compiler.version, *flags, *contents])
    final = cache_dir() / "microkernels" / key[:2] / f"{source.stem}-{key[:24]}.o"
    if not _has_content(final):
        _compile(compiler, source, flags, final, timeout=timeout)
    return final


def _compile(compiler: Compiler, source: Path, flags: list[str], final: Path, *, timeout: float) -> None:
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".making-", suffix=".o", dir=final.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(error) from error
    making = Path(name)
    try:
        done = process.run([compiler.path, *flags, "-c", source.absolute(), "-o", making], timeout=timeout)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())
        os.replace(making, final)  # whole or not at all, whoever else is at it
    except OSError as error:
        raise _unwritable(error) from error
    finally:
        with contextlib.suppress(OSError):
            making.unlink(missing_ok=True)


def _unwritable(error: OSError) -> StorageError:
    return StorageError(
        f"the cache {cache_dir()} cannot be written: {error.strerror}.",
        remedy="Free some space or set AUTOTUNE_CACHE_DIR.",
    )


@cache
def find_compiler() -> Compiler:
    """The first of cc, gcc and clang that is on PATH, asked what it is."""
    path = next((found for found in map(shutil.which, COMPILERS) if found), None)
    if path is None:
        raise ToolMissingError("there is no C compiler (cc, gcc or clang) on PATH.", remedy="Install gcc.")
    machine = process.run([path, "-dumpmachine"], timeout=_IDENTITY_SECONDS)
    version = process.run([path, "--version"], timeout=_IDENTITY_SECONDS)
    if not machine.ok or not version.ok:
        raise EnvironmentFailure(f"{path} does not run: {machine.why()[-200:]}", remedy="Install gcc.")
    return Compiler(Path(path), machine.stdout.split("-")[0].strip(), version.stdout.strip())


@cache
def host_isa() -> Isa:
    """What this processor has: on x86 the kernel's list of features says, on aarch64 NEON is always there."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    return choose_isa(platform.machine(), text)


def choose_isa(machine: str, cpuinfo: str) -> Isa:
    """The widest instructions that /proc/cpuinfo lists, all of those that the flags allow the compiler to use."""
    if machine == "aarch64":
        return _NEON
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    have = set(line.partition(":")[2].split())
    return next((isa for needed, isa in _X86 if needed <= have), _SSE2)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
