"""Examines the installation: the tools, a small compile for each target, each device."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autotuner._version import IREE
from autotuner.build import Builder
from autotuner.errors import INSTALL_IREE, AutotuneError, ToolMissingError
from autotuner.iree import versions
from autotuner.iree.compile import CompilerRefusal
from autotuner.iree.run import list_devices
from autotuner.iree.tools import Tools
from autotuner.microkernels.providers.cuda import REMEDY, find_nvrtc, nvrtc_release
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.system.cache import Cache
from autotuner.system.execution import local_executor
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets import Target, all_targets
from autotuner.targets.backends import BACKENDS, Backend

State = Literal["ok", "warning", "absent", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One examined part."""

    what: str
    state: State
    found: str
    remedy: str = ""
    essential: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(iree_tools: Path | None = None) -> list[Finding]:
    """Everything, in the order in which a run would need it."""
    findings = [_python(), _package("iree-base-compiler"), _package("iree-base-runtime")]
    try:
        tools = Tools.find(iree_tools)
        findings += _programs(tools)
    except AutotuneError as error:
        return [*findings, Finding("iree-compile", "broken", error.message, error.remedy, essential=True)]
    cache = Cache(cache_dir())
    entries, size = cache.size()
    findings.append(_nvrtc())
    findings.append(Finding("build cache", "ok", f"{cache.root}: {entries} builds, {size / 2**20:.1f} MiB"))
    with local_executor(usable_cores()) as executor:
        builder = Builder(tools, cache)
        looks = [executor.submit(_compiles, target, builder) for target in all_targets()]
        looks += [executor.submit(_answers, backend, tools) for backend in BACKENDS]
        return findings + [look.result() for look in looks]


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.machine()}, {usable_cores()} cores")


def _package(name: str) -> Finding:
    version = versions.package(name)
    if not version:
        return Finding(name, "broken", "not installed", INSTALL_IREE, essential=True)
    if versions.supported(version) is False:
        return Finding(name, "warning", f"{version}, untried: autotune is made for {IREE}", INSTALL_IREE)
    return Finding(name, "ok", f"{version} (supported: {IREE})")


def _programs(tools: Tools) -> list[Finding]:
    """Which IREE is in use, from where, and whether its parts fit together."""
    runtime = f"{tools.runtime_release}, from {tools.iree_run_module.parent}".removeprefix(", ")
    found = [
        Finding("iree-compile", "ok", f"{tools.build}, from {tools.iree_compile.parent.resolve()}"),
        Finding("iree-run-module", "ok", runtime),
        Finding("MLIR bindings", "ok", versions.bindings_version()),
    ]
    remedy = "" if tools.folder is None else "Put the build's own bindings first on PYTHONPATH."
    return found + [Finding("versions", "warning", warning, remedy) for warning in tools.warnings()]


def _nvrtc() -> Finding:
    """NVRTC builds kernels in CUDA C++; nothing else needs it."""
    try:
        library = find_nvrtc()
        return Finding("NVRTC", "ok", f"of CUDA {nvrtc_release(library)}, from {library.parent}")
    except ToolMissingError:
        return Finding("NVRTC", "absent", "not installed: no microkernel in CUDA C++ can be built", REMEDY)


def _compiles(target: Target, builder: Builder) -> Finding:
    what = f"target {target.name}"
    problem = target.prepare(Gemm.parse(shape="64x64x64", dtype="f16"))
    try:
        builder.inspect(problem_mlir(problem), target.compile_flags, timeout=120)
    except CompilerRefusal as refusal:
        essential = target.backend.on_host
        return Finding(what, "broken", refusal.message, "Reinstall iree-base-compiler.", essential=essential)
    types = {op: ", ".join(f"{d}→{a}" for d, a in target.types_of(kind)) for op, kind in OPERATIONS.items()}
    return Finding(what, "ok", "; ".join(f"{op}: {pairs}" for op, pairs in types.items()))


def _answers(backend: Backend, tools: Tools) -> Finding:
    """The devices of a driver, if it can be loaded."""
    device = backend.device
    done = list_devices(tools, device)
    found = [line.strip() for line in done.stdout.splitlines() if "://" in line]
    what = f"device {device}"
    if done.ok and found:
        return Finding(what, "ok", ", ".join(found))
    essential = backend.on_host
    said = [line.split("; ", 1)[1] for line in done.stderr.splitlines() if "; " in line]
    why = said[0].split(";")[0][:120] if said else "no device answers"
    return Finding(what, "broken" if essential else "absent", why, backend.remedy, essential=essential)
