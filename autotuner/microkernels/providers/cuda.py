"""Kernels in CUDA C++ for NVIDIA's GPUs: one file and its headers, compiled by NVRTC to a cubin.

The source is compiled and never run here. It finds headers of its own folder and those that come with autotune. NVRTC,
NVIDIA's compiler as a library, needs neither a GPU nor a host compiler.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from autotuner.errors import EnvironmentFailure, ToolMissingError, UsageError
from autotuner.microkernels.providers import cuda_compile
from autotuner.microkernels.providers.cuda_compile import NOT_LOADED, Job
from autotuner.microkernels.providers.provider import (
    SECONDS,
    Built,
    ObjectRefusalError,
    Request,
    kept_object,
    read_named,
    read_source,
)
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest

OPTIONS = ("--std=c++17",)
REMEDY = "Install it with `pip install 'autotune-iree[cuda]'`."
_LIBRARY = re.compile(r"libnvrtc\.so\.(\d{1,3}(?:\.\d{1,5}){0,3})")
_CHIP = re.compile(r"sm_(\d+)")
_FIRST_WITH_OWN = 90
"""From here on a chip has instructions of its own, which code for it alone may use: sm_90a."""
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.M)
_PLAIN = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')


@dataclass(frozen=True)
class Cuda:
    """The function is extern "C"; numbers are macros in capitals."""

    chips: tuple[str, ...] = ("sm_",)
    reports: tuple[str, ...] = ()

    def require(self, chip: str) -> None:
        del chip  # one for all
        find_nvrtc()

    def build(self, request: Request) -> Built:
        path = compile_cubin(request.source, request.macros(), chip=request.chip, timeout=request.timeout)
        return Built(path, request.manifest.symbol)


def architecture(chip: str) -> str:
    """What NVRTC compiles for: sm_90a for sm_90."""
    found = _CHIP.fullmatch(chip)
    return f"{chip}a" if found and int(found[1]) >= _FIRST_WITH_OWN else chip


def compile_cubin(source: Path, macros: Mapping[str, int], *, chip: str, timeout: float) -> Path:
    """The cubin of one file with these numbers as macros."""
    library = find_nvrtc()
    headers = {name: _text(Path(name), data) for name, data in read_named(source, included).items()}
    defines = [f"-D{name}={int(value)}" for name, value in sorted(macros.items())]
    options = [*OPTIONS, f"--gpu-architecture={architecture(chip)}", *defines]
    job = Job(str(library), source.name, _text(source, read_source(source)), headers, options)
    told_all = json.dumps([job.name, job.source, sorted(headers.items()), options])
    key = Cache.key(["cuda-1", *nvrtc_digest(library), told_all])

    def make(making: Path) -> dict[str, int]:
        with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
            file = Path(folder) / "job.json"
            file.write_text(json.dumps(asdict(job)))
            # -P: nothing is imported from beside the program; an empty folder: no header is found beside it either.
            command: list[str | Path] = [sys.executable, "-P", cuda_compile.__file__, file, making.absolute()]
            done = process.run(command, timeout=timeout, cwd=Path(folder))
        if done.code == NOT_LOADED:
            raise unusable(library, done)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())
        return {}

    return kept_object(f"{source.stem}-{key[:24]}.cubin", key, make)[0]


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8.", remedy="Is it the source?") from error


def included(path: Path, data: bytes) -> Iterator[str]:
    for words in _INCLUDE.findall(_text(path, data)):
        found = _PLAIN.match(words)
        name = (found[1] or found[2]) if found else ""
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise UsageError(
                f"{path.name} has #include {words.strip()[:80]}: it finds headers of its own folder only.",
                remedy='Put the header there and write #include "NAME".',
            )
        yield name


# --- NVRTC ----------------------------------------------------------------------------------------------------------


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
    done = process.run([sys.executable, "-P", cuda_compile.__file__, library], timeout=SECONDS)
    if not done.ok:
        raise unusable(library, done)
    return done.stdout.strip()


def unusable(library: Path, done: process.Finished) -> EnvironmentFailure:
    why = process.last_line(done.why()).removeprefix("error: ")
    return EnvironmentFailure(f"{library} cannot be used: {why}.", remedy=REMEDY)
