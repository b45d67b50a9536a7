"""Whether a bundle is for this machine: the release of IREE's runtime, the chip, the problem."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from autotuner.bundles.documents import Manifest
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.tools import RuntimeTools
from autotuner.problems import Problem, problem_named
from autotuner.targets import Target
from autotuner.targets.naming import which_device


@dataclass(frozen=True)
class Fit:
    """A bundle that this machine can run."""

    manifest: Manifest
    problem: Problem
    target: Target
    tools: RuntimeTools


def fitting(manifest: Manifest, *, file: Path, device: str | None = None) -> Fit:
    """The bundle for this device, or a refusal that says what is another here: the runtime, the chip."""
    target = Target.parse(manifest.target)
    tools = RuntimeTools.installed(compiled_by=manifest.iree)
    if tools.runtime_release != manifest.iree:
        raise EnvironmentFailure(
            f"{file} was built by IREE {manifest.iree}, and iree-base-runtime here is {tools.runtime_release}.",
            remedy=f"Install iree-base-runtime=={manifest.iree}, or build the bundle anew.",
        )
    _refuse_chip(manifest, target, tools, file, device)
    known = problem_named(manifest.problem)
    if known is None:
        raise UsageError(f"{file} is of {manifest.problem!r}, which is no problem.", remedy="Build the bundle anew.")
    problem = target.prepare(known.allowing(manifest.allow or None))
    return Fit(manifest, problem, target, tools)


def _refuse_chip(manifest: Manifest, target: Target, tools: RuntimeTools, file: Path, device: str | None) -> None:
    if target.backend.on_host:
        fits, here = manifest.chip in (tools.processor, platform.machine()), f"an {platform.machine()} processor"
        if manifest.chip.startswith(platform.machine()):
            wanted, here = f"a certain {platform.machine()} processor", "a different one"
        else:
            wanted = manifest.chip.partition("|")[0]
    else:
        # Kernels for a chip that the user named need that very one: those for sm_90 run on no later chip.
        there, named = target.backend.chip_there(which_device(device or target.device)), manifest.chip != target.name
        runs = there is None or (there == manifest.chip if named else target.runs_on(there))
        fits, here, wanted = runs, there or "", manifest.chip
    if not fits:
        how = "--chip" if target.backend.assembled_on_load else "--target"
        raise EnvironmentFailure(
            f"{file} is built for {wanted}, and this machine has {here}.",
            remedy=f"Run it where that chip is, or build a bundle for this one with {how}.",
        )
