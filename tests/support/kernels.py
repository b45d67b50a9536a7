"""A microkernel of one's own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from autotuner.build import BuildJob
from autotuner.carriers.calls import kernel_calls
from autotuner.carriers.microkernel import SPEC_FLAG, object_flags, spec_mlir
from autotuner.cli.app import main
from autotuner.microkernels.instance import Call, Instance, shipped_folder
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers import PROVIDERS
from autotuner.microkernels.providers.provider import Built, Request
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir


def autotune(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command."""
    monkeypatch.setattr(sys, "argv", ["autotune", *words])
    try:
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def own_kernel(workspace: Path, **changes: str) -> Path:
    """The shipped kernel under another name in the workspace, changed by exact replacements in its files."""
    folder = workspace / "specs" / "microkernels" / "mine"
    shutil.copytree(shipped_folder() / "sgemm_c", folder)
    for file in ("microkernel.toml", "sgemm.c"):
        text = (folder / file).read_text()
        for old, new in changes.items():
            text = text.replace(old, new)
        (folder / file).write_text(text)
    return folder


def spec_flags(spec: Path | str, instances: Sequence[Instance]) -> tuple[str, ...]:
    """The flags that carry a spec and its objects into a compile."""
    return (f"{SPEC_FLAG}={spec}", *object_flags(path for instance in instances for path in instance.objects))


def job_of(call: Call, flags: Sequence[str], made_for: str = "") -> BuildJob:
    """The build of a kernel's problem in which its spec puts the kernel."""
    every, spec = (*flags, *object_flags(call.instance.objects)), spec_mlir([call], target=made_for)
    kernels = kernel_calls([call])
    return BuildJob(problem_mlir(call.problem), every, 120, spec=spec, spec_flag=SPEC_FLAG, kernels=kernels)


def request(
    manifest: Manifest,
    problem: Problem,
    chip: str,
    parameters: Mapping[str, int] | None = None,
    *,
    workspace: Path = Path(),
    features: Collection[str] = (),
    timeout: float = 300.0,
) -> Request:
    """One variant that is to be built."""
    return Request(manifest, problem, chip, workspace, parameters or {}, features, timeout=timeout)


def built(wanted: Request) -> Built:
    """Its object, by the provider that its manifest names."""
    return PROVIDERS[wanted.manifest.provider.kind].load().build(wanted)


def bound(wanted: Request) -> Instance:
    """The kernel with its object."""
    made = built(wanted)
    instance = wanted.manifest.bind(
        wanted.problem,
        wanted.chip,
        objects=(made.path,),
        parameters=wanted.parameters,
        features=wanted.features,
        reports=made.reports,
    )
    return made.called(instance)
