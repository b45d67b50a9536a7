"""Kernels in Triton for GPUs: one Python file, compiled without a GPU by a process of its own.

The file is run, with what it imports from its folder. So it must come with autotune, or lie in the workspace, where
only its user puts it.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from autotuner.errors import ToolMissingError, UsageError
from autotuner.microkernels.chips import subgroup_of
from autotuner.microkernels.instance import own_folder, shipped_folder
from autotuner.microkernels.providers import triton_compile
from autotuner.microkernels.providers.provider import (
    Built,
    ObjectRefusalError,
    Request,
    kept_object,
    read_beside,
    read_source,
)
from autotuner.microkernels.providers.triton_compile import ALIGNED, JOB, OBJECT, RESULT, SOURCE, Job
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.parsing import parsed

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cuda": ("num_warps", "num_stages", "maxnreg"),
    "hip": ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack"),
}
"""Parameters of a manifest that are Triton's compile options, by backend; 0 leaves the choice to Triton."""
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
_FORMAT = "triton-5"


class Triton:
    """Builds a Triton function; its constexpr parameters are the manifest's numbers of the same names."""

    def require(self, chip: str) -> None:
        del chip  # one for all
        triton_version()

    def build(self, request: Request) -> Built:
        source = trusted_source(request)
        version = triton_version()
        sources = read_sources(source)
        job = plan(request, sources[SOURCE])
        key = cache_key(job, sources, version)
        name = f"{request.manifest.name}-{key[:24]}.{'hsaco' if job.backend == 'hip' else 'ptx'}"

        def make(making: Path) -> dict[str, int]:
            return _compile(job, source, sources, making, timeout=request.timeout)

        path, report = kept_object(name, key, make)
        shared = {"shared": report["shared"]}
        return Built(path, job.symbol, shared, scratch=report["scratch"], alignment=report["alignment"])


def trusted_source(request: Request) -> Path:
    """The source, if it comes with autotune or lies among the workspace's microkernels: it will be run."""
    real = request.source.resolve()
    folders = (shipped_folder(), own_folder(request.workspace))
    if not any(real.is_relative_to(folder.resolve()) for folder in folders):
        raise UsageError(
            f"{request.source} is Python that would be run, and it lies outside of the workspace.",
            remedy=f"Read it; if you trust it, copy its folder into {folders[1]}.",
        )
    return real


def read_sources(source: Path) -> Mapping[str, str]:
    """The sources by file name: the kernel's own, and what it may import."""
    return {SOURCE: read_source(source), **read_beside(source, ".py")}


def triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise ToolMissingError(
            "this microkernel is built by Triton, which is not installed.",
            remedy="Install it with `pip install triton`.",
        ) from None


def plan(request: Request, source: str) -> Job:
    """The compile job: the kernel's parameters in order, its constexprs from the manifest's numbers."""
    manifest, chip = request.manifest, request.chip
    numbers = request.numbers | request.source_numbers()
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
    bound = manifest.bound(request.problem, numbers)
    types = {
        name: _POINTERS[request.element_of(buffer)] if buffer in bound else CONSTEXPR
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


def kernel_parameters(source: str, symbol: str) -> list[tuple[str, bool]]:
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


def cache_key(job: Job, sources: Mapping[str, str], version: str) -> str:
    order = list(job.signature)
    return Cache.key([_FORMAT, version, json.dumps([sources, asdict(job)], sort_keys=True), json.dumps(order)])


def _compile(job: Job, source: Path, sources: Mapping[str, str], making: Path, *, timeout: float) -> dict[str, int]:
    """Runs the compiling process on the hashed sources, and returns its report."""
    folder = making.absolute().parent
    (folder / JOB).write_text(json.dumps(asdict(job)))
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")
    # -P: nothing is imported from the folder that autotune happens to be called in.
    done = process.run([sys.executable, "-P", triton_compile.__file__, folder], timeout=timeout, cwd=folder)
    if not done.ok:
        raise ObjectRefusalError(source, done.why())
    os.replace(folder / OBJECT, making)
    report: dict[str, int] = json.loads((folder / RESULT).read_text())
    return report
