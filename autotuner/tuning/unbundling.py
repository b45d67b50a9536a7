"""A bundle's result where the bundle was made: checks and timings become rows, and what won is shipped and proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from autotuner.bundles import archive
from autotuner.bundles.documents import BASELINE, CandidateRecord, Entry, Manifest, Report
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.measure.screening import Measured
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Problem
from autotuner.problems.operations import problem_named
from autotuner.space import Config
from autotuner.system import process
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options, Task
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import SEARCHED, Candidate
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.single import SingleRun

IMPORTED = Task(cold=False, elsewhere=True)


@dataclass(frozen=True)
class BundleResult:
    """What one bundle was, and what was measured of it."""

    file: Path
    manifest: Manifest
    report: Report
    problem: Problem

    @classmethod
    def read(cls, file: Path) -> BundleResult:
        with process.temporary("autotune-bundle-") as folder:
            unpacked = archive.unpack(file, folder)
        manifest = Manifest.read(unpacked.document(archive.MANIFEST, file=file), f"{file}: {archive.MANIFEST}")
        report = Report.read(unpacked.document(archive.RESULT, file=file), f"{file}: {archive.RESULT}")
        known = problem_named(manifest.problem)
        if report.bundle != archive.digest(unpacked.documents[archive.MANIFEST]) or known is None:
            raise archive.refusal(file, "its result is of another bundle")
        return cls(file, manifest, report, known.allowing(manifest.allow or None))

    def target(self, flags: Sequence[str] = ()) -> Target:
        """Without flags as long as nobody knows whose manifest it is."""
        bare = Target.parse(self.manifest.target)
        chip = None if bare.backend.on_host or self.manifest.chip == bare.name else self.manifest.chip
        return Target.parse(self.manifest.target, flags=flags, chip=chip)


def import_bundle_result(file: Path, *, options: Options, **watched: Unpack[Watched]) -> Result:
    """The verdict of another machine, in this workspace's results; the winner's files, compiled here once more."""
    found = BundleResult.read(file)
    with Session.open(found.target(), replace(options, device=NO_DEVICE), **watched) as session:
        return import_within(found, options=options, session=session)


def import_within(found: BundleResult, *, options: Options, session: Session) -> Result:
    """The same as a run of this session, which has no device."""
    file, manifest, report = found.file, found.manifest, found.report
    # Whose manifest this workspace has written may say what the compiler is given; nobody else's.
    refuse_unknown(session, manifest.run, report.bundle, file)
    target = found.target(manifest.flags)
    options = replace(
        options,
        seed=manifest.seed,
        trials=manifest.trials,
        budget=manifest.budget,
        cache="warm",
        microkernels=tuple(Kernel(name) for name in manifest.microkernels),
    )
    there = replace(session, named=report.device, environment=report.environment)
    steps = SingleRun(target.prepare(found.problem), target, options, there, IMPORTED)
    steps.claim_outputs()
    return _taken_up(steps, manifest, report, file)


def refuse_unknown(session: Session, run: str, digest: str, file: Path) -> None:
    """The run that made the bundle has written down what it was."""
    remedy = "Import it with the --workspace (or --storage) that --bundle was made in."
    try:
        made = session.store.run(run).result or {}
    except UsageError as error:
        raise archive.refusal(file, "its bundle was not made in this workspace", remedy=remedy) from error
    if (made.get("bundle") or {}).get("digest") != digest:
        raise archive.refusal(file, "its bundle is not the one that was made in this workspace", remedy=remedy)


def _taken_up(steps: SingleRun, manifest: Manifest, report: Report, file: Path) -> Result:
    with process.until(steps.clock.latest):
        steps.read_space()
        with steps.begun() as run:
            steps.open(run)
            try:
                for note in report.notes:
                    steps.account.remark(note)
                result = replace(_concluded(steps, manifest, report, file), timed_elsewhere=True)
            finally:
                steps.clean()
            run.finish(result)
    return result


def _concluded(steps: SingleRun, manifest: Manifest, report: Report, file: Path) -> Result:
    """All checks and timings become rows; what won is built once more, and must be the code that was timed."""
    entries = {one.id: one for one in manifest.entries}
    if unknown := {one.id for one in report.tried} - entries.keys():
        raise archive.refusal(file, f"its bundle has no candidate {min(unknown)[:40]!a}")
    for tried in report.tried:
        outcome = steps.evaluator.open(_candidate(steps, entries[tried.id], file))
        if tried.id == report.judgement.winner:
            _build(steps, outcome, entries[tried.id], file)
        _settle(steps, outcome, tried)
    steps.seconds["time"] += report.seconds
    steps.clock.add(report.seconds)  # the run took the time of both machines
    steps.standing.require_right(report.judgement.reason)
    # What there was to stop was done on the other machine.
    return replace(steps.ended(report.judgement, None), interrupted=False)


def _build(steps: SingleRun, outcome: Outcome, entry: Entry, file: Path) -> None:
    build = steps.evaluator.start_build(outcome.candidate, steps.executor).result()
    if build.binary != entry.binary:
        raise EnvironmentFailure(
            f"{entry.id} of {file} ({entry.label}) is other code than is made here now.",
            remedy="Import it with the IREE, the microkernels and the kind of machine that made the bundle; or "
            "make a new one.",
        )
    steps.evaluator.settle_build(outcome, build)


def _candidate(steps: SingleRun, entry: Entry, file: Path) -> Candidate:
    plan, config = steps.plan, Config(entry.config)
    if entry.kind == BASELINE:
        return plan.baseline
    found = next((one for one in plan.stock if one.route.name == entry.route), None)
    if entry.kind in SEARCHED and config in plan.space:
        found = plan.candidate(config, id=entry.id)
    if found is None:
        raise archive.refusal(file, f"{entry.id} is not in this version's space", remedy="Make a new bundle.")
    return replace(found, id=entry.id)


def _settle(steps: SingleRun, outcome: Outcome, tried: CandidateRecord) -> None:
    """The check and every timing, in their order."""
    evaluator, store = steps.evaluator, steps.store
    first = tried.taken[0].timing if tried.taken else None
    evaluator.settle(outcome, Measured(tried.check, first))
    for taken in tried.taken[1:]:
        store.record_timing(outcome.row, taken.timing, phase=taken.phase, block=taken.block)
