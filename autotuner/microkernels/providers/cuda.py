"""Kernels in CUDA C++ for NVIDIA's GPUs: one file and its headers, compiled by NVRTC to a cubin, kept by content.

The source is compiled and never run here. It finds headers of its own folder and those that come with autotune.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from autotuner.errors import UsageError
from autotuner.microkernels.kept import is_kept, keep, kept_folder
from autotuner.microkernels.library import shipped_folder
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers import cuda_compile
from autotuner.microkernels.providers.c import ObjectRefusalError
from autotuner.microkernels.providers.cuda_compile import NOT_LOADED, Job
from autotuner.microkernels.providers.nvrtc import find_nvrtc, nvrtc_digest, unusable
from autotuner.microkernels.providers.told import ELEMENTS, element_of, told
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.alone import one_at_a_time
from autotuner.system.cache import Cache

OPTIONS = ("--std=c++17",)
_SECONDS = 60.0
_CHIP = re.compile(r"sm_(\d+)")
_FIRST_WITH_OWN = 90
"""From here on a chip has instructions of its own, which code for it alone may use: sm_90a."""
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.M)
_PLAIN = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')


def provide(
    manifest: Manifest, problem: Problem, chip: str, *, parameters: Mapping[str, int] | None = None
) -> tuple[Path, ...]:
    """The cubin of this kernel for these parameters; built once for each content."""
    source = manifest.provider.source
    if manifest.provider.kind != "cuda" or source is None:
        raise ValueError(f"{manifest.name} is not made from CUDA C++")
    numbers = manifest.fit(problem, chip, parameters=parameters)
    return (compile_cubin(source, macros(manifest, problem, numbers), chip=chip),)


def macros(manifest: Manifest, problem: Problem, numbers: Mapping[str, int]) -> dict[str, int]:
    """What the source is told: parameters and values of the manifest, layout and epilogue, and of each operand whether
    its buffer is there and has this type: LHS_BF16, OUT_F32."""
    own = {name: numbers[name] for name in (*manifest.parameters, *manifest.values)}
    bound = manifest.bound(problem, numbers)
    types = {
        f"{buffer.operand}_{element}": int(buffer in bound and element_of(buffer, problem) == element)
        for buffer in manifest.buffers
        if not buffer.is_scratch
        for element in ELEMENTS
    }
    return {name.upper(): value for name, value in {**own, **told(problem), **types}.items()}


def architecture(chip: str) -> str:
    """What NVRTC compiles for: sm_90a for sm_90."""
    found = _CHIP.fullmatch(chip)
    return f"{chip}a" if found and int(found[1]) >= _FIRST_WITH_OWN else chip


def compile_cubin(source: Path, macros: Mapping[str, int], *, chip: str, timeout: float = _SECONDS) -> Path:
    """The cubin of one file with these numbers as macros."""
    library = find_nvrtc()
    text, headers = read_sources(source)
    defines = [f"-D{name}={int(value)}" for name, value in sorted(macros.items())]
    options = [*OPTIONS, f"--gpu-architecture={architecture(chip)}", *defines]
    job = Job(str(library), source.name, text, headers, options)
    told_all = json.dumps([job.name, job.source, sorted(headers.items()), options])
    key = Cache.key(["cuda-1", *nvrtc_digest(library), told_all])
    final = kept_folder(key) / f"{source.stem}-{key[:24]}.cubin"
    with one_at_a_time(final):
        if not is_kept(final):
            _compile(job, source, final, timeout=timeout)
    return final


def _compile(job: Job, source: Path, final: Path, *, timeout: float) -> None:
    with keep(final) as making, tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        file = Path(folder) / "job.json"
        file.write_text(json.dumps(asdict(job)))
        # -P: nothing is imported from beside the program; an empty folder: no header is found beside it either.
        command: list[str | Path] = [sys.executable, "-P", cuda_compile.__file__, file, making.absolute()]
        done = process.run(command, timeout=timeout, cwd=Path(folder))
        if done.code == NOT_LOADED:
            raise unusable(Path(job.library), done)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())


# --- Sources --------------------------------------------------------------------------------------------------------


def read_sources(source: Path) -> tuple[str, dict[str, str]]:
    """The kernel's own text, and the headers that it and they include, by the names that they have there."""
    text = _read(source)
    headers: dict[str, str] = {}
    waiting = [(source, text)]
    while waiting:
        for name in _included(*waiting.pop()):
            path = None if name in headers else _header(name, source.absolute().parent)
            if path is not None:
                headers[name] = _read(path)
                waiting.append((path, headers[name]))
    return text, headers


def _included(path: Path, text: str) -> list[str]:
    names = []
    for words in _INCLUDE.findall(text):
        found = _PLAIN.match(words)
        name = (found[1] or found[2]) if found else ""
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise UsageError(
                f"{path.name} has #include {words.strip()[:80]}: it finds headers of its own folder only.",
                remedy='Put the header there and write #include "NAME".',
            )
        names.append(name)
    return names


def _header(name: str, folder: Path) -> Path | None:
    """The file of this name; None: there is none, and the compiler says what it makes of that."""
    for home in (folder, shipped_folder()):
        path = home / name
        if not path.is_file():
            continue
        if not path.resolve().is_relative_to(home.resolve()):
            raise UsageError(f"{path} leads out of its folder.", remedy="Copy the file: it must lie there itself.")
        return path
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", remedy="Is the path right?") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8.", remedy="Is it the source?") from error
