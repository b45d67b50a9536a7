"""A suite in one file: the bundles of its problems, built here, timed elsewhere, and imported as one run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from autotuner.bundles import archive
from autotuner.bundles.documents import SuiteManifest, SuiteProblem
from autotuner.jobs.suite.result import SuiteResult
from autotuner.jobs.suite.rows import Row
from autotuner.jobs.suite.run import Selection, SuiteRun, go_through
from autotuner.jobs.suite.workload import Entry, Skipped, Workload
from autotuner.system import process
from autotuner.system.text import count
from autotuner.system.workspace import checked_name
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.bundling import bundle_within, claim_bundle
from autotuner.tuning.options import Options
from autotuner.tuning.result import Result
from autotuner.tuning.run import Job, Turn
from autotuner.tuning.session import Watched
from autotuner.tuning.unbundling import BundleResult, import_within, refuse_unknown


def bundle_suite(
    wanted: Selection, target: Target, file: Path, *, options: Options, **watched: Unpack[Watched]
) -> SuiteResult:
    """Builds and proves what would be tuned, and writes all of it to `file`."""
    claim_bundle(file, options)
    options = replace(options, device=NO_DEVICE)
    chosen = wanted.on(target, seed=options.seed)
    with (
        Job.open(target, options, watched, otherwise=math.inf) as job,
        process.temporary("autotune-bundle-") as folder,
    ):
        way = partial(_Bundled, file=file, folder_of_parts=folder)
        return go_through(chosen, job, wanted, way)


def import_suite_result(file: Path, *, options: Options, **watched: Unpack[Watched]) -> SuiteResult:
    """The verdicts of another machine, in this workspace's results; the winners merged as a suite's are."""
    with process.temporary("autotune-bundle-") as folder:
        unpacked = archive.unpack(file, folder)
        where = f"{file}: {archive.SUITE}"
        suite = SuiteManifest.read(unpacked.document(archive.SUITE, file=file), where)
        read = [replace(BundleResult.read(part), file=file) for part in unpacked.parts]
        found = {one.problem.name: one for one in read}
    calls = {one.problem: one.calls for one in suite.problems}
    if not found or not found.keys() <= calls.keys():
        raise archive.refusal(file, "its results are of other problems than its bundle")
    first = next(iter(found.values()))
    if any((one.manifest.target, one.manifest.flags) != (suite.target, first.manifest.flags) for one in found.values()):
        raise archive.refusal(file, "its results are for several targets")
    digest = archive.digest(unpacked.documents[archive.SUITE])
    workload = Workload(
        checked_name(suite.name, what="a suite"),
        suite.source,
        suite.sha256,
        tuple(Entry(one.problem, calls[name]) for name, one in found.items()),
        tuple(Skipped(name, "it has no result") for name in calls if name not in found),
    )
    with Job.open(first.target(), replace(options, device=NO_DEVICE), watched) as here:
        session = replace(here.session, named=first.report.device, environment=first.report.environment)
        refuse_unknown(session, suite.run, digest, file)
        for one in found.values():
            refuse_unknown(session, one.manifest.run, one.report.bundle, file)
        job = Job.within(session, first.target(first.manifest.flags), options, otherwise=math.inf)
        return go_through(workload, job, Selection(workload), partial(_Imported, found=found))


@dataclass
class _Bundled(SuiteRun):
    """Each problem becomes a part of the file."""

    file: Path = Path()
    folder_of_parts: Path = Path()
    built: list[SuiteProblem] = field(default_factory=list)

    def tune_one(self, turn: Turn[Row]) -> Result:
        entry, part = turn.what.entry, self.folder_of_parts / f"{len(self.built):04}.zip"
        result = bundle_within(entry.problem, self.target, part, options=turn.options, session=turn.session)
        self.built.append(SuiteProblem(entry.problem.name, entry.calls))
        return result

    def result(self, environment: dict[str, Any]) -> SuiteResult:
        found = super().result(environment)
        if not self.built:
            return found
        suite, target = self.workload, self.target.name
        listed = tuple(self.built)
        manifest = SuiteManifest(self.run.id, suite.name, suite.source, suite.sha256, target, listed).to_bytes()
        parts = sorted(self.folder_of_parts.glob("*.zip"))
        archive.write(self.file, {archive.SUITE: manifest}, {}, parts=parts, force=self.options.force)
        what = f"{count(len(parts), 'problem')} in {self.file}"
        reason = f"{what}: time them with `autotune bundle run {self.file.name}` on the device"
        bundle = {"file": str(self.file.absolute()), "digest": archive.digest(manifest)}
        return replace(found, reason=reason, bundle=bundle)


@dataclass
class _Imported(SuiteRun):
    """Each problem was timed elsewhere, its default too."""

    found: Mapping[str, BundleResult] = field(default_factory=dict)

    def time_defaults(self) -> None:
        """They are in the results."""

    def weigh(self) -> None:
        """Afterwards: every problem is imported."""

    def tune_one(self, turn: Turn[Row]) -> Result:
        return import_within(self.found[turn.what.name], options=turn.options, session=turn.session)
