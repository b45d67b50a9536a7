"""NVRTC, NVIDIA's compiler as a library: where it lies, and which it is. It needs neither a GPU nor a host compiler."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from autotuner.errors import EnvironmentFailure, ToolMissingError
from autotuner.microkernels.providers import cuda_compile
from autotuner.system import process
from autotuner.system.digests import known_digest

REMEDY = "Install it with `pip install 'autotune-iree[cuda]'`."
_LIBRARY = re.compile(r"libnvrtc\.so\.(\d{1,3}(?:\.\d{1,5}){0,3})")
_SECONDS = 20.0


def find_nvrtc() -> Path:
    """Of NVIDIA's wheels, which torch brings too; else of the CUDA that is installed. Of several there, the newest."""
    for folders in (_wheels(), _toolkits()):
        found = {path: match[1] for folder in folders for path, match in _libraries(folder)}
        if found:
            return max(found, key=lambda path: [int(part) for part in found[path].split(".")])
    raise ToolMissingError("this microkernel is built by NVRTC, which is not installed.", remedy=REMEDY)


def _libraries(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in sorted(folder.glob("libnvrtc.so.*")):
        match = _LIBRARY.fullmatch(path.name)
        if match and path.is_file():
            yield path, match


def _wheels() -> list[Path]:
    """nvidia/cu13/lib, nvidia/cuda_nvrtc/lib: CUDA 13's wheel and CUDA 12's."""
    nvidia = find_spec("nvidia")
    homes = (nvidia.submodule_search_locations if nvidia else None) or ()
    return [folder for home in homes for folder in sorted(Path(home).glob("*/lib"))]


def _toolkits() -> list[Path]:
    """What the environment names, the usual place, and where loaders look."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    toolkits = [home / name for home in (*homes, Path("/usr/local/cuda")) for name in ("lib64", "lib")]
    named = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return [*toolkits, *named, Path(f"/usr/lib/{platform.machine()}-linux-gnu"), Path("/usr/lib64")]


def nvrtc_digest(library: Path) -> list[str]:
    """Of the library and of what it loads from beside itself."""
    real = library.resolve()
    return [known_digest(path) for path in (real, *sorted(real.parent.glob("libnvrtc-builtins.so.*")))]


@cache
def nvrtc_version(library: Path) -> str:
    """As it says itself: 13.4."""
    done = process.run([sys.executable, "-P", cuda_compile.__file__, library], timeout=_SECONDS)
    if not done.ok:
        raise unusable(library, done)
    return done.stdout.strip()


def unusable(library: Path, done: process.Finished) -> EnvironmentFailure:
    why = process.last_line(done.why()).removeprefix("error: ")
    return EnvironmentFailure(f"{library} cannot be used: {why}.", remedy=REMEDY)
