"""Runs a bundle on the machine with the device, with IREE's runtime and numpy only."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.bundles.bench import LOOK, Bench
from autotuner.bundles.documents import Manifest, Report
from autotuner.devices.environment import capture, is_emulated
from autotuner.devices.many import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import DeviceError, EnvironmentFailure, UsageError
from autotuner.iree.tools import Tools, runtime_programs
from autotuner.measure.check import Data
from autotuner.measure.clock import Clock
from autotuner.problems import Problem
from autotuner.problems.operations import problem_named
from autotuner.system import process
from autotuner.system.locks import device_lock
from autotuner.system.progress import Reporter, Stop
from autotuner.system.settings import cache_dir
from autotuner.targets import Target
from autotuner.targets.naming import which_device


@dataclass(frozen=True)
class RuntimeTools(Tools):
    """IREE's programs on a machine without a compiler."""

    compiled_by: str = ""
    """The release of the compiler on the other machine."""

    @classmethod
    def installed(cls, *, compiled_by: str) -> RuntimeTools:
        run, benchmark = runtime_programs()
        return cls(run.with_name("iree-compile"), run, benchmark, compiled_by=compiled_by)

    @property
    def release(self) -> str:
        return self.compiled_by

    @property
    def build(self) -> str:
        return self.compiled_by


@dataclass(frozen=True)
class FittingBundle:
    """A bundle that this machine can run."""

    manifest: Manifest
    problem: Problem
    target: Target
    tools: RuntimeTools


def fitting(manifest: Manifest, *, file: Path, device: str | None = None) -> FittingBundle:
    """Checks that a bundle fits this machine's runtime and chip."""
    target = Target.parse(manifest.target)
    tools = RuntimeTools.installed(compiled_by=manifest.iree)
    if tools.runtime_release != manifest.iree:
        raise EnvironmentFailure(
            f"{file} was built by IREE {manifest.iree}, and iree-base-runtime here is {tools.runtime_release}.",
            remedy=f"Install iree-base-runtime=={manifest.iree}, or build the bundle anew.",
        )
    _refuse_chip(manifest, target, tools, file, device)
    if is_emulated(device or target.device):
        raise EnvironmentFailure(
            f"{device or target.device} is emulated: its times mean nothing.", remedy="Run it where a chip is."
        )
    known = problem_named(manifest.problem)
    if known is None:
        raise UsageError(f"{file} is of {manifest.problem!r}, which is no problem.", remedy="Build the bundle anew.")
    problem = target.prepare(known.allowing(manifest.allow or None))
    return FittingBundle(manifest, problem, target, tools)


def _refuse_chip(manifest: Manifest, target: Target, tools: RuntimeTools, file: Path, device: str | None) -> None:
    if target.backend.on_host:
        fits, here = manifest.chip in (tools.processor, platform.machine()), f"an {platform.machine()} processor"
        if manifest.chip.startswith(platform.machine()):
            wanted, here = f"a certain {platform.machine()} processor", "a different one"
        else:
            wanted = manifest.chip.partition("|")[0]
    else:
        # Kernels for a chip that the user named need that very one: those for sm_90 run on no later chip.
        there, named = target.backend.chip_there(which_device(device or target.device)), manifest.chip != target.arch
        runs = there is None or (there == manifest.chip if named else target.runs_on(there))
        fits, here, wanted = runs, there or "", manifest.chip
    if not fits:
        how = "--chip" if target.backend.assembled_on_load else "--target"
        raise EnvironmentFailure(
            f"{file} is built for {wanted}, and this machine has {here}.",
            remedy=f"Run it where that chip is, or build a bundle for this one with {how}.",
        )


@dataclass(frozen=True)
class RunContext:
    """The settings of one `bundle run`."""

    folder: Path
    """A temporary folder for inputs and results."""
    reporter: Reporter
    stop: Stop
    device: str | None = None
    """As the user names it; None: the target's first."""
    budget: float | None = None
    """Seconds; None: the bundle's."""
    part: bool = False
    """It is part of a suite's bundle: the user's budget is for all parts."""


def run_bundle(fit: FittingBundle, modules: Mapping[str, Path], here: RunContext, *, bundle: str) -> tuple[Report, str]:
    """Runs the bundle of this digest; gives its report and the verdict's reason. WrongResultError where nothing is
    right."""
    manifest, reporter = fit.manifest, here.reporter
    clock, uri = Clock(here.budget or manifest.budget, part=here.part), fit.target.choose_device(here.device)
    if "," in (here.device or ""):
        raise UsageError(f"--device {here.device} names several.", remedy="Name one: a bundle is timed on one.")
    with device_lock(uri, cache_dir(), on_wait=reporter.note, given_up=lambda: here.stop.requested):
        clock = replace(clock, started=time.monotonic())
        environment = capture(uri, fit.tools)
        alone = ProcessDevice(fit.tools, uri, here.folder)
        with open_device(alone, isolate=False) as device, process.until(clock.latest):
            try:
                device.open()
            except DeviceError as error:
                raise DeviceError(error.message, remedy=LOOK) from error
            reporter.stage("computing the right answers")
            data = Data.write(fit.problem, here.folder / "inputs", seed=manifest.seed)
            bench = Bench(manifest, modules, device, fit.target.compiles_on_device, data, clock, here.stop, reporter)
            judgement = bench.judged()
    bench.standing.require_right(judgement.reason)
    report = Report(
        bundle=bundle,
        device=uri,
        environment=environment,
        tried=tuple(one.tried for one in bench.outcomes.values()),
        judgement=judgement,
        seconds=round(clock.elapsed, 3),
        notes=tuple(bench.notes),
    )
    return report, bench.standing.explained(judgement.verdict, judgement.reason, judgement)
