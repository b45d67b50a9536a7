"""IREE's programs, found once: the real binaries, not their Python wrappers (0.2 s dearer each time)."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from autotuner import process
from autotuner.errors import INSTALL_IREE, ToolMissingError


@dataclass(frozen=True)
class Tools:
    """Paths of the programs that a run uses."""

    iree_compile: Path
    iree_run_module: Path
    iree_benchmark_module: Path
    ptxas: Path | None = None
    """NVIDIA's assembler, where there is one: it knows the registers of a CUDA kernel."""

    @classmethod
    def find(cls) -> Tools:
        """The programs of the installed wheels, or an error that says what to install."""
        try:
            from iree.compiler.tools.binaries import find_tool

            compiler = Path(find_tool("iree-compile"))
        except (ImportError, ValueError) as error:
            raise ToolMissingError("iree-compile is not installed.", remedy=INSTALL_IREE) from error
        try:
            import iree._runtime_libs as runtime

            folder = Path(next(iter(runtime.__path__)))
        except (ImportError, StopIteration) as error:
            raise ToolMissingError("iree-benchmark-module is not installed.", remedy=INSTALL_IREE) from error
        tools = cls(compiler, folder / "iree-run-module", folder / "iree-benchmark-module", find_ptxas())
        for path in (tools.iree_compile, tools.iree_run_module, tools.iree_benchmark_module):
            if not path.is_file():
                raise ToolMissingError(f"{path.name} is missing from {path.parent}.", remedy=INSTALL_IREE)
        return tools

    @cached_property
    def iree_opt(self) -> Path:
        """IREE's own passes by name; only linking specs needs it, so it is looked for only then."""
        beside = self.iree_compile.with_name("iree-opt")
        if beside.is_file():
            return beside
        try:
            from iree.compiler.tools.binaries import find_tool

            return Path(find_tool("iree-opt"))
        except (ImportError, ValueError) as error:
            raise ToolMissingError("iree-opt is not installed.", remedy=INSTALL_IREE) from error

    @cached_property
    def version(self) -> str:
        """What the compiler says of itself: part of every cache key."""
        answer = process.run([self.iree_compile, "--version"], timeout=60)
        if not answer.ok:
            raise ToolMissingError(f"{self.iree_compile} does not run: {answer.why()[-200:]}", remedy=INSTALL_IREE)
        lines = [line.strip() for line in answer.stdout.splitlines() if "version" in line.lower()]
        return "; ".join(lines)

    @cached_property
    def identity(self) -> str:
        """Version and processor: `--iree-llvmcpu-target-cpu=host` means something else on another machine."""
        cpu = Path("/proc/cpuinfo")
        features = ""
        if cpu.is_file():
            wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
            features = "\n".join(sorted({x for x in cpu.read_text().splitlines() if x.startswith(wanted)}))
        digest = hashlib.sha256(features.encode()).hexdigest()[:16]
        return f"{self.version}|{platform.machine()}|{digest}"


def find_ptxas() -> Path | None:
    """The one on PATH, or that of NVIDIA's wheels (`pip install autotune-iree[cuda]`)."""
    on_path = shutil.which("ptxas")
    if on_path:
        return Path(on_path)
    nvidia = find_spec("nvidia")
    folders = nvidia.submodule_search_locations if nvidia else None
    for folder in folders or ():
        for toolkit in ("cu13", "cuda_nvcc"):  # CUDA 13's wheel and CUDA 12's
            path = Path(folder) / toolkit / "bin" / "ptxas"
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return None
