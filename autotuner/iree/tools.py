"""Finds IREE's programs: the real binaries, as their Python wrappers take 0.2 s more for each call."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autotuner._version import IREE
from autotuner.errors import INSTALL_IREE, ToolMissingError
from autotuner.iree import versions
from autotuner.iree.versions import program_digest
from autotuner.system import machine, process
from autotuner.system.digests import content_digest
from autotuner.system.settings import iree_tools

_PLACES = ("", "tools", "bin")
"""Places of the programs in the user's folder: itself, a build tree, an install tree."""


@dataclass(frozen=True)
class Tools:
    """The paths of the IREE programs that a run uses."""

    iree_compile: Path
    iree_run_module: Path
    iree_benchmark_module: Path
    folder: Path | None = None
    """The folder of the user's own build of IREE; None: the installed wheels."""

    @classmethod
    def find(cls, folder: Path | None = None) -> Tools:
        """The programs of a build in `folder`, or of AUTOTUNE_IREE_TOOLS, or of the installed wheels."""
        own = folder or iree_tools()
        return cls._of_wheels() if own is None else cls._of_folder(own.expanduser().absolute())

    @classmethod
    def _of_folder(cls, folder: Path) -> Tools:
        names = ("iree-compile", "iree-run-module", "iree-benchmark-module")
        compiler, run, benchmark = (_in_folder(folder, name) for name in names)
        return cls(compiler, run, benchmark, folder)

    @property
    def share_the_runtime(self) -> bool:
        """Whether the programs are those of the installed wheels, so that `iree.runtime` is the same runtime."""
        return self.iree_run_module.parent == _runtime_folder()

    @classmethod
    def _of_wheels(cls) -> Tools:
        try:
            from iree.compiler.tools.binaries import find_tool

            compiler = Path(find_tool("iree-compile"))
        except (ImportError, ValueError) as error:
            raise ToolMissingError("iree-compile is not installed.", remedy=INSTALL_IREE) from error
        programs = (compiler, *runtime_programs())
        for path in programs:
            if not path.is_file():
                raise ToolMissingError(f"{path.name} is missing from {path.parent}.", remedy=INSTALL_IREE)
        return cls(*programs)

    @cached_property
    def passes_match(self) -> bool:
        """Whether iree-opt is of the compiler's build, so that both make the same code."""
        try:
            return self.iree_opt.parent == self.iree_compile.parent
        except ToolMissingError:
            return False

    @cached_property
    def iree_opt(self) -> Path:
        """The path of iree-opt, found when a run needs it."""
        if self.folder is not None:
            return _in_folder(self.folder, "iree-opt")
        beside = self.iree_compile.with_name("iree-opt")
        return beside if beside.is_file() else _in_folder(Tools._of_wheels().iree_compile.parent, "iree-opt")

    def arguments(self) -> list[str]:
        """The command-line words that choose these programs again."""
        return ["--iree-tools", str(self.folder)] if self.folder else []

    # --- which build it is --------------------------------------------------------------------------------------

    @cached_property
    def version(self) -> str:
        """The compiler's version."""
        answer = process.run([self.iree_compile, "--version"], timeout=60)
        if not answer.ok:
            remedy = "Name another folder with --iree-tools." if self.folder else INSTALL_IREE
            raise ToolMissingError(f"{self.iree_compile} does not run: {answer.why()[-200:]}", remedy=remedy)
        lines = [line.strip() for line in answer.stdout.splitlines() if "version" in line.lower()]
        return "; ".join(lines)

    @property
    def release(self) -> str:
        """The release that specs name, such as `3.13.0`."""
        return versions.release(versions.compiler_version(self.version)) or "unknown"

    @property
    def runtime_release(self) -> str:
        """The release of the programs that run modules; known for the wheels only, as the programs do not print it."""
        return "" if self.folder else versions.package("iree-base-runtime")

    @cached_property
    def compiler_digest(self) -> str:
        return program_digest(self.iree_compile)

    @property
    def build(self) -> str:
        """Version and bytes of the compiler, short: what a spec's header and provenance name."""
        return f"{versions.compiler_version(self.version) or 'unknown'}, compiler {self.compiler_digest[:12]}"

    @cached_property
    def identity(self) -> str:
        """The compiler's identity, part of every cache key."""
        return f"{self.version}|{self.compiler_digest}"

    @cached_property
    def processor(self) -> str:
        """The processor that `--iree-llvmcpu-target-cpu=host` means, part of cache keys of compiles with it."""
        wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
        lines = {line for line in machine.read("/proc/cpuinfo").splitlines() if line.startswith(wanted)}
        digest = content_digest("\n".join(sorted(lines)).encode())[:16]
        return f"{platform.machine()}|{digest}"

    @cached_property
    def printing(self) -> tuple[str, ...]:
        """The print flags of commands whose text the bindings read.

        Releases spell operations differently, but all read the generic form: it bridges a compiler and bindings of two
        builds. For people it is harder to read, so it is not used where there is no need.
        """
        return () if self.matches_bindings else ("--mlir-print-op-generic",)

    @cached_property
    def matches_bindings(self) -> bool:
        """Whether compiler and bindings are of one build, so that they read each other's bytecode."""
        return versions.compiler_version(self.version) == versions.bindings_version()

    @cached_property
    def programs(self) -> tuple[str, ...]:
        """The identity of compiler and runtime, part of a run's key: times of different runtimes are not compared."""
        own = map(program_digest, (self.iree_run_module, self.iree_benchmark_module))
        return f"{self.identity}|{self.processor}", *own

    def warnings(self) -> list[str]:
        """Warnings about versions that do not fit each other, or that are untested."""
        compiler, bindings = versions.compiler_version(self.version), versions.bindings_version()
        found = []
        if self.folder is not None and compiler != bindings:
            found.append(
                f"the tools in {self.folder} are IREE {compiler or 'of no version'}, the Python bindings that read "
                f"their text are {bindings}: an attribute that is spelt differently ends a run with an error"
            )
        package = versions.package("iree-base-compiler")
        if self.folder is None and package != self.runtime_release:
            found.append(
                f"iree-base-compiler is {package or 'not installed'}, iree-base-runtime is "
                f"{self.runtime_release or 'not installed'}: install the same release of both"
            )
        if versions.supported(compiler) is False:
            found.append(f"IREE {self.release} is untried: autotune is made for {IREE}")
        return found


def _runtime_folder() -> Path | None:
    """The folder of the installed wheel's programs."""
    try:
        import iree._runtime_libs as runtime

        return Path(next(iter(runtime.__path__)))
    except (ImportError, StopIteration):
        return None


def runtime_programs() -> tuple[Path, Path]:
    """iree-run-module and iree-benchmark-module of the installed wheel."""
    folder = _runtime_folder()
    if folder is None:
        raise ToolMissingError("iree-benchmark-module is not installed.", remedy=INSTALL_IREE)
    return folder / "iree-run-module", folder / "iree-benchmark-module"


def _in_folder(folder: Path, name: str) -> Path:
    places = [folder / place for place in _PLACES]
    for place in places:
        if (place / name).is_file() and os.access(place / name, os.X_OK):
            return place / name
    raise ToolMissingError(
        f"there is no program {name} in {', '.join(map(str, places))}.",
        remedy="--iree-tools (or AUTOTUNE_IREE_TOOLS) names a build or an install tree of IREE, or its tools.",
    )
