"""Kernels in Triton for GPUs: one Python file, compiled without a GPU by a process of its own, kept by content.

The file is run, with what it imports from its folder. So it must come with autotune, or lie in the workspace, where
only its user puts it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.errors import StorageError, ToolMissingError, UsageError
from autotuner.microkernels.chips import subgroup_of
from autotuner.microkernels.instance import Binding, Instance
from autotuner.microkernels.library import own_folder, shipped_folder
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers import triton_compile
from autotuner.microkernels.providers.c import ObjectRefusalError
from autotuner.microkernels.providers.told import element_of, told
from autotuner.microkernels.providers.triton_compile import ALIGNED, JOB, RESULT, SOURCE, Job
from autotuner.microkernels.providers.triton_sources import read_sources
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.alone import one_at_a_time
from autotuner.system.cache import Cache
from autotuner.system.digests import file_digest
from autotuner.system.parsing import parsed
from autotuner.system.settings import cache_dir

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cuda": ("num_warps", "num_stages", "maxnreg"),
    "hip": ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack"),
}
"""Parameters of a manifest that are Triton's own; 0 leaves one to Triton, and no backend is given another's."""
_POINTERS = {
    "f32": "*fp32",
    "f16": "*fp16",
    "bf16": "*bf16",
    "i8": "*i8",
    "i32": "*i32",
    "f8E4M3FN": "*fp8e4nv",
    "f8E4M3FNUZ": "*fp8e4b8",
}
CONSTEXPR = "constexpr"
_FORMAT = "triton-3"


@dataclass(frozen=True, slots=True)
class Built:
    """An object, and what is known only now that there is one."""

    path: Path
    symbol: str
    shared: int
    """Bytes of dynamic shared memory that the launch must give."""
    threads: int
    """Of a workgroup."""
    scratch: int = 0
    """Bytes of global memory that Triton itself wants for each workgroup: descriptors that are made on the device."""
    alignment: int = 0
    """Of that memory; the kernel rounds up what it is given."""


def bind(
    manifest: Manifest,
    problem: Problem,
    chip: str,
    *,
    workspace: Path,
    parameters: Mapping[str, int] | None = None,
    timeout: float = 120,
) -> Instance:
    """The kernel with its object, for this problem and this choice of parameters."""
    built = provide(manifest, problem, chip, workspace=workspace, parameters=parameters, timeout=timeout)
    instance = manifest.bind(
        problem, chip, objects=(built.path,), parameters={**(parameters or {}), "shared": built.shared}
    )
    if not built.scratch:
        return instance
    own = Binding.scratch(built.scratch * math.prod(instance.grid) + built.alignment)
    return replace(instance, bindings=(*instance.bindings, own))


def provide(
    manifest: Manifest,
    problem: Problem,
    chip: str,
    *,
    workspace: Path,
    parameters: Mapping[str, int] | None = None,
    timeout: float = 120,
) -> Built:
    """The object of this kernel for these parameters; built once for each content."""
    source = trusted_source(manifest, workspace)
    version = triton_version()
    sources = read_sources(source)
    job = plan(manifest, problem, chip, sources[SOURCE], parameters=parameters)
    key = cache_key(job, sources, version)
    folder = cache_dir() / "microkernels" / key[:2]
    final = folder / f"{manifest.name}-{key[:24]}.{'hsaco' if job.backend == 'hip' else 'ptx'}"
    with one_at_a_time(final):
        return _kept(final) or _build(job, source, sources, final, timeout=timeout)


def trusted_source(manifest: Manifest, workspace: Path) -> Path:
    """The file that will be run, if it came with autotune or lies among the workspace's microkernels."""
    source = manifest.provider.source
    if manifest.provider.kind != "triton" or source is None:
        raise ValueError(f"{manifest.name} is not made by Triton")
    real = source.resolve()
    folders = (shipped_folder(), own_folder(workspace))
    if not any(real.is_relative_to(folder.resolve()) for folder in folders):
        raise UsageError(
            f"{source} is Python that would be run, and it lies outside of the workspace.",
            remedy=f"Read it; if you trust it, copy its folder into {folders[1]}.",
        )
    return real


def triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise ToolMissingError(
            "this microkernel is built by Triton, which is not installed.",
            remedy="Install it with `pip install 'autotune-iree[triton]'`.",
        ) from None


def plan(
    manifest: Manifest, problem: Problem, chip: str, source: bytes, *, parameters: Mapping[str, int] | None = None
) -> Job:
    """What to compile: the kernel's parameters by order, its constexprs by name from the manifest's numbers."""
    numbers = manifest.fit(problem, chip, parameters=parameters)
    numbers |= told(problem)
    names = kernel_parameters(source, manifest.symbol)
    plain = [name for name, is_constexpr in names if not is_constexpr]
    pointers, constants = len(manifest.buffers), len(manifest.constants)
    if len(plain) != pointers + constants or any(is_constexpr for _, is_constexpr in names[: len(plain)]):
        remedy = f"It must take {pointers} pointers, then {constants} constants, then its constexprs."
        raise UsageError(f"{manifest.name}: {manifest.symbol} takes {', '.join(plain)}.", remedy=remedy)
    constexprs = [name for name, is_constexpr in names if is_constexpr]
    unknown = [name for name in constexprs if name.lower() not in numbers]
    if unknown:
        raise UsageError(
            f"{manifest.name}: nothing says what the constexpr {unknown[0]} is.",
            remedy=f"Add {unknown[0].lower()} to [parameters] or [values] of the manifest.",
        )
    bound = manifest.bound(problem, numbers)
    types = {
        name: _POINTERS[element_of(buffer, problem)] if buffer in bound else CONSTEXPR
        for name, buffer in zip(plain, manifest.buffers, strict=False)
    }
    sizes = {
        pointers + i: math.gcd(value.evaluate(numbers), ALIGNED)
        for i, value in enumerate(manifest.constants)
        if value.names <= numbers.keys()
    }
    job = Job(
        symbol=manifest.symbol,
        chip=chip,
        warp=subgroup_of(chip),
        pointers=len(bound),
        signature=types | dict.fromkeys(plain[pointers:], "i32") | dict.fromkeys(constexprs, CONSTEXPR),
        constexprs={name: None for name, type_ in types.items() if type_ == CONSTEXPR}
        | {name: numbers[name.lower()] for name in constexprs},
        aligned=[
            *((i, ALIGNED) for i, type_ in enumerate(types.values()) if type_ != CONSTEXPR),
            *((position, divisor) for position, divisor in sizes.items() if divisor > 1),
        ],
        options={},
    )
    job.options.update({name: numbers[name] for name in OPTIONS[job.backend] if numbers.get(name)})
    return job


def kernel_parameters(source: bytes, symbol: str) -> list[tuple[str, bool]]:
    """The names of the kernel's parameters and whether each is a constexpr; the source is read, not run."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"the kernel's source is not Python: {error}.", remedy="Correct it.") from None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == symbol:
            found = [*node.args.posonlyargs, *node.args.args]
            return [(a.arg, a.annotation is not None and "constexpr" in ast.unparse(a.annotation)) for a in found]
    raise UsageError(f"the source has no function {symbol}.", remedy="The manifest's symbol is the kernel's name.")


def cache_key(job: Job, sources: Mapping[str, bytes], version: str) -> str:
    told = json.dumps(asdict(job), sort_keys=True)
    order = json.dumps(list(job.signature))
    texts = json.dumps({name: hashlib.sha256(text).hexdigest() for name, text in sorted(sources.items())})
    return Cache.key([_FORMAT, version, texts, told, order])


def _kept(final: Path) -> Built | None:
    """What an earlier build left: the report is written last, so where it is, the object is too."""
    try:
        report = json.loads(final.with_suffix(".json").read_text())
        if file_digest(final) != report["sha256"]:
            return None
        return _built(final, report)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build(job: Job, source: Path, sources: Mapping[str, bytes], final: Path, *, timeout: float) -> Built:
    making = None
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=final.parent))
        (making / JOB).write_text(json.dumps(asdict(job)))
        for name, text in sources.items():
            (making / name).write_bytes(text)  # what runs is what the key was made of
        # -P: nothing is imported from the folder that autotune happens to be called in.
        done = process.run([sys.executable, "-P", triton_compile.__file__, making.absolute()], timeout=timeout)
        if not done.ok:
            raise ObjectRefusalError(source, done.why())
        report = json.loads((making / RESULT).read_text())
        os.replace(making / report.pop("file"), final)
        os.replace(making / RESULT, final.with_suffix(".json"))
    except OSError as error:
        raise StorageError(
            f"the cache {cache_dir()} cannot be written: {error.strerror}.",
            remedy="Free some space or set AUTOTUNE_CACHE_DIR.",
        ) from error
    finally:
        if making is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(making)
    return _built(final, report)


def _built(final: Path, report: Mapping[str, Any]) -> Built:
    numbers = {name: int(report[name]) for name in ("shared", "threads", "scratch", "alignment")}
    return Built(final, str(report["symbol"]), **numbers)
