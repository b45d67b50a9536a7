"""Kernels in CUDA C++ for NVIDIA's GPUs: one file and its headers, compiled by NVRTC to a cubin.

The source is compiled and never run here. It finds headers of its own folder and those that come with autotune. NVRTC,
NVIDIA's compiler as a library, needs neither a GPU nor a host compiler.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from autotuner.errors import EnvironmentFailure, ToolMissingError, UsageError
from autotuner.microkernels.providers import cuda_compile
from autotuner.microkernels.providers.cuda_compile import NOT_LOADED, Job
from autotuner.microkernels.providers.provider import (
    Built,
    ObjectRefusalError,
    Request,
    kept_object,
    read_beside,
    read_source,
)
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest

OPTIONS = ("--std=c++17",)
REMEDY = "Install it with `pip install nvidia-cuda-nvrtc`."
_CHIP = re.compile(r"sm_(\d+)")
_FIRST_WITH_OWN = 90
"""The first compute capability with instructions of its own, which only code for that chip may use (sm_90a)."""
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.M)
_PLAIN = re.compile(r'"[^"/]+"|<[^>/]+>')


class Cuda:
    """Builds an extern "C" function; numbers are macros in capitals."""

    def require(self, chip: str) -> None:
        del chip  # one for all
        find_nvrtc()

    def build(self, request: Request) -> Built:
        path = compile_cubin(request.source, request.macros(), chip=request.chip, timeout=request.timeout)
        return Built(path, request.manifest.symbol)


def architecture(chip: str) -> str:
    """The architecture that NVRTC compiles for: sm_90a for sm_90."""
    found = _CHIP.fullmatch(chip)
    return f"{chip}a" if found and int(found[1]) >= _FIRST_WITH_OWN else chip


def compile_cubin(source: Path, macros: Mapping[str, int], *, chip: str, timeout: float) -> Path:
    """Compiles one file to a cubin, with these numbers as macros."""
    library = find_nvrtc()
    text, headers = read_source(source), read_beside(source, ".h")
    for name, read in ((source.name, text), *headers.items()):
        refuse_outside(name, read)
    defines = [f"-D{name}={int(value)}" for name, value in sorted(macros.items())]
    job = Job(
        str(library), source.name, text, headers, [*OPTIONS, f"--gpu-architecture={architecture(chip)}", *defines]
    )
    key = Cache.key(["cuda-2", *nvrtc_digest(library), json.dumps([job.name, text, headers, job.options])])

    def make(making: Path) -> dict[str, int]:
        file = making.with_name("job.json")
        file.write_text(json.dumps(asdict(job)))
        # -P: nothing is imported from beside the program; a folder of its own: no header is found beside it either.
        command: list[str | Path] = [sys.executable, "-P", cuda_compile.__file__, file, making.absolute()]
        done = process.run(command, timeout=timeout, cwd=making.parent)
        if done.code == NOT_LOADED:
            why = process.last_line(done.why()).removeprefix("error: ")
            raise EnvironmentFailure(f"{library} cannot be used: {why}.", remedy=REMEDY)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())
        return {}

    return kept_object(f"{source.stem}-{key[:24]}.cubin", key, make)[0]


def refuse_outside(name: str, text: str) -> None:
    """Refuses includes by a path: NVRTC would read any such file."""
    for words in _INCLUDED.findall(text):
        if _PLAIN.match(words) is None:
            raise UsageError(
                f"{name} has #include {words.strip()[:80]}: it finds headers of its own folder only.",
                remedy='Put the header there and write #include "NAME".',
            )


# --- NVRTC ----------------------------------------------------------------------------------------------------------


def find_nvrtc() -> Path:
    """The newest NVRTC of NVIDIA's wheels, which torch brings too: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib."""
    nvidia = find_spec("nvidia")
    homes = (nvidia.submodule_search_locations if nvidia else None) or ()
    found = [path for home in homes for path in Path(home).glob("*/lib/libnvrtc.so.*") if nvrtc_release(path)]
    if not found:
        raise ToolMissingError("this microkernel is built by NVRTC, which is not installed.", remedy=REMEDY)
    return max(found, key=nvrtc_release)


def nvrtc_release(library: Path) -> int:
    """The major release of an NVRTC library, such as 13; 0 where the file is something else."""
    found = re.fullmatch(r"libnvrtc\.so\.(\d{1,3})", library.name)
    return int(found[1]) if found else 0


def nvrtc_digest(library: Path) -> list[str]:
    """The digest of the library and of what it loads from its own folder."""
    real = library.resolve()
    return [known_digest(path) for path in (real, *sorted(real.parent.glob("libnvrtc-builtins.so.*")))]
