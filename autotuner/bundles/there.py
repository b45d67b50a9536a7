"""A bundle on the machine with the device, if it is for that: checked, timed, raced, judged, by runtime and numpy."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.bundles import archive
from autotuner.bundles.bench import LOOK, Bench, Traveller
from autotuner.bundles.documents import BASELINE, Manifest, Report, judgement_to_json
from autotuner.devices.environment import capture
from autotuner.devices.many import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import DeviceError, EnvironmentFailure, UsageError
from autotuner.iree.tools import RuntimeTools
from autotuner.measure.check import Data
from autotuner.measure.judgement import Judgement
from autotuner.measure.screening import Screened
from autotuner.problems import Problem, problem_named
from autotuner.system import process
from autotuner.system.locks import device_lock
from autotuner.system.progress import Clock, Reporter, Stop
from autotuner.system.settings import cache_dir
from autotuner.targets import Target
from autotuner.targets.naming import which_device

_UNFINISHED = Judgement("inconclusive", "interrupted before the race", BASELINE)


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


@dataclass(frozen=True)
class Here:
    """Where a bundle runs, and who watches."""

    folder: Path
    """For inputs and results; it goes afterwards."""
    reporter: Reporter
    stop: Stop
    keep: Callable[[Report], None]
    """Writes the result down: what there is of it, and in the end all."""
    device: str | None = None
    """As the user names it; None: the target's first."""
    budget: float | None = None
    """Seconds; None: the bundle's."""


@dataclass(frozen=True)
class Ran:
    """A bundle's result, and its reason as people are told it."""

    report: Report
    reason: str

    def to_json(self) -> dict[str, Any]:
        report = self.report
        return {
            "device": report.device,
            **judgement_to_json(report.judgement),
            "reason": self.reason,
            "interrupted": report.interrupted,
            "notes": list(report.notes),
        }

    def lines(self, manifest: Manifest, bundle: Path, result: Path) -> list[str]:
        """For people: what it came to, and what to do with it."""
        report = self.report
        what = f"{manifest.problem} on {manifest.target} ({report.device}): {report.judgement.verdict}"
        if report.interrupted:
            end = f"{result}: what was finished is kept; `bundle run {bundle} --resume` goes on from here"
        else:
            end = f"{result}: bring it home with `autotune bundle import {result.name}`"
        return [what, f"  {self.reason}", end]


def interrupted(result: Path, bundle: str, folder: Path) -> Report | None:
    """What an interrupted run of this very bundle has left; None where there is no such thing."""
    if not result.is_file():
        return None
    found = archive.unpack(result, folder).document(archive.RESULT, file=result)
    report = Report.read(found, f"{result}: {archive.RESULT}")
    return report if report.interrupted and report.bundle == bundle else None


def run_bundle(fit: Fit, modules: Mapping[str, Path], here: Here, *, bundle: str, earlier: Report | None = None) -> Ran:
    """All of it. `earlier` is what an interrupted run had; WrongResultError where nothing is right, and it is kept."""
    manifest, reporter = fit.manifest, here.reporter
    clock, uri = Clock(here.budget or manifest.budget), fit.target.choose_device(here.device)
    if "," in (here.device or ""):
        raise UsageError(f"--device {here.device} names several.", remedy="Name one: a bundle is timed on one.")
    if earlier is not None and earlier.device != uri:
        raise UsageError(
            f"what --resume goes on with was timed on {earlier.device!r}, not on {uri!r}.",
            remedy=f"Give --device {earlier.device}, or leave out --resume.",
        )
    with device_lock(uri, cache_dir(), on_wait=reporter.note, given_up=lambda: here.stop.requested):
        clock = replace(clock, started=time.monotonic())
        environment = capture(uri, fit.tools)
        alone = ProcessDevice(fit.tools, uri, here.folder, starts_quickly=fit.target.compiles_on_device)
        with open_device(alone, isolate=False) as device, process.until(clock.latest):
            try:
                device.open()
            except DeviceError as error:
                raise DeviceError(error.message, remedy=LOOK) from error
            reporter.stage("computing the right answers")
            data = Data.write(fit.problem, here.folder / "inputs", seed=manifest.seed)

            def told(judgement: Judgement, *, interrupted: bool) -> Report:
                return Report(
                    bundle=bundle,
                    device=uri,
                    environment=environment,
                    tried=tuple(one.tried for one in bench.outcomes.values()),
                    judgement=judgement,
                    seconds=round(clock.elapsed + (earlier.seconds if earlier else 0.0), 3),
                    notes=tuple(bench.notes),
                    interrupted=interrupted,
                )

            bench = Bench(
                *(manifest, modules, device, fit.target.compiles_on_device, data, clock, here.stop, reporter),
                keep=lambda: here.keep(told(_UNFINISHED, interrupted=True)),
            )
            if earlier is not None:
                _take_over(bench, earlier)
            judgement = bench.judged()
    report = told(judgement, interrupted=here.stop.requested)
    here.keep(report)
    if not report.interrupted:
        bench.standing.require_right(judgement.reason)
    return Ran(report, bench.standing.told(judgement.verdict, judgement.reason, judgement))


def _take_over(bench: Bench, earlier: Report) -> None:
    """The checks and screenings of an interrupted run; what was raced is raced anew."""
    entries = {one.id: one for one in bench.manifest.entries}
    for tried in (one for one in earlier.tried if one.id in entries):
        screened = [one for one in tried.taken if one.phase in ("screen", "drift")]
        bench.outcomes[tried.id] = Traveller(entries[tried.id], replace(tried, taken=screened))
        if tried.id != BASELINE and screened:
            bench.screened.append(Screened(tried.id, screened[0].timing.median))


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """The one folder that a bundle is unpacked into; it goes with the command."""
    with tempfile.TemporaryDirectory(prefix="autotune-bundle-", dir=beside) as folder:
        yield Path(folder)
