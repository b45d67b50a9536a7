"""Bundles: candidates are built and proven here, for another machine to time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from autotuner._version import __version__
from autotuner.build import Compiled
from autotuner.build.builder import means_host
from autotuner.bundles import archive
from autotuner.bundles.documents import Entry, Manifest
from autotuner.devices.device import INVOCATION_US, MAX_REPEAT, choose_repeat
from autotuner.errors import OutOfTimeError, UsageError
from autotuner.measure.clock import before_modules
from autotuner.measure.standing import SEARCHED
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.system.files import claim
from autotuner.system.text import count
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options, Task
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Result
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.single import SingleRun

BUNDLED = Task(ship=False, cold=False, elsewhere=True)
_STEP = 8
"""Between the repeats of a candidate's modules: the device takes those that last long enough, and at most so much
longer."""
_FASTEST = 4e9
"""Operations in a µs, more than any chip does today: it bounds the repeats."""


def make_bundle(
    problem: Problem, target: Target, file: Path, *, options: Options, **watched: Unpack[Watched]
) -> Result:
    """Builds and proves as a run without a device does, and writes a bundle of it to `file`."""
    claim_bundle(file, options)
    options = replace(options, device=NO_DEVICE)
    with Session.open(target, options, **watched) as session:
        return bundle_within(problem, target, file, options=options, session=session)


def claim_bundle(file: Path, options: Options) -> None:
    """Says at once where no bundle can be written."""
    if file.suffix != ".zip":
        raise UsageError(f"--bundle {file} is not a .zip file.", remedy="Name one, such as --bundle out.zip.")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"--bundle {file} cannot be written.", remedy="Name a file in a folder that is there.")
    claim(file, archive.our_bundle, force=options.force)


def bundle_within(problem: Problem, target: Target, file: Path, *, options: Options, session: Session) -> Result:
    """The same as a run of this session, which has no device."""
    prepared = target.prepare(problem)
    budget = before_modules(options.budget or options.effort.budget, len(repeat_counts(prepared.flops)))
    if session.tools.folder is not None:
        raise UsageError(
            f"a bundle is for IREE's wheels, and {session.tools.folder} is a build of one's own.",
            remedy="Leave out --iree-tools and AUTOTUNE_IREE_TOOLS.",
        )
    steps = SingleRun(prepared, target, replace(options, budget=budget), session, BUNDLED)
    steps.claim_outputs()
    with process.until(steps.clock.latest):
        steps.read_space()
        with steps.begun() as run:
            result = _with_bundle(steps, steps.go(run), file)
            run.finish(result)
    return result


def _with_bundle(steps: SingleRun, result: Result, file: Path) -> Result:
    steps.reporter.stage("finishing modules of several lengths")
    outcomes = bundled(steps.evaluator.outcomes, [entry.candidate for entry in result.ranking])
    if not outcomes or outcomes[0].id != BASELINE:
        raise OutOfTimeError("ran out of time before IREE's default was built.")
    built = _built(steps, outcomes)
    modules = {known_digest(one.vmfb): one.vmfb for lengths in built.values() for one in lengths.values()}
    manifest = _manifest(steps, [(o, built[o.id]) for o in outcomes]).to_bytes()
    archive.write(file, {archive.MANIFEST: manifest}, modules, force=steps.options.force)
    searched = sum(outcome.kind in SEARCHED for outcome in outcomes)
    what = (
        f"{len(outcomes)} candidates" if searched else f"IREE's default and {count(len(outcomes) - 1, 'stock route')}"
    )
    only = "" if searched else " and no configuration (an estimate cannot choose among them for this target)"
    reason = f"{what}{only} in {file}: time them with `autotune bundle run {file.name}` on the device"
    bundle = {"file": str(file.absolute()), "digest": archive.digest(manifest)}
    return replace(result, verdict="compile-only", reason=reason, bundle=bundle, cause=None)


def bundled(outcomes: Mapping[str, Outcome], ranking: Sequence[str | None]) -> list[Outcome]:
    """The default, the stock routes and the candidates, the most promising first; no duplicates."""
    ranks = {name: place for place, name in enumerate(ranking)}
    default = outcomes.get(BASELINE)
    # A route with the default's own code may have been built first: then the default is its twin and goes for both.
    twin = default.duplicate_of if default is not None else None
    found = [o for o in outcomes.values() if o.built and (o.duplicate_of is None or o is default) and o.id != twin]
    first = [o for kind in ("baseline", "stock") for o in found if o.kind == kind]
    best = sorted(found, key=lambda o: (ranks.get(o.id, len(ranks)), o.id))
    return [*first, *(o for o in best if o.kind in SEARCHED)]


def repeat_counts(flops: int) -> list[int]:
    """The repeats of modules: a small problem needs many on a fast chip, a large one none."""
    most = choose_repeat(flops / _FASTEST, invocation_us=2 * INVOCATION_US)
    steps = math.ceil(math.log(most, _STEP) - 1e-9) if most > 1 else 0
    return [min(_STEP**step, MAX_REPEAT) for step in range(steps + 1)]


def _built(steps: SingleRun, outcomes: Sequence[Outcome]) -> dict[str, dict[int, Compiled]]:
    """By candidate and repeats. What cannot be repeated has one module."""
    lengths = repeat_counts(steps.problem.flops)
    with process.however_late():  # the time for it was kept
        jobs = {
            o.id: [steps.evaluator.start_build(o.candidate, steps.executor, repeat=r) for r in lengths]
            for o in outcomes
        }
        found = {name: [job.result() for job in some] for name, some in jobs.items()}
    return {name: {one.repeat: one for one in some if one.ok or one.repeat == 1} for name, some in found.items()}


def _manifest(steps: SingleRun, bundled: Sequence[tuple[Outcome, dict[int, Compiled]]]) -> Manifest:
    target, effort, tools = steps.target, steps.options.effort, steps.tools
    chip = steps.session.chip
    if target.backend.on_host:
        chip = tools.processor if means_host(target.compile_flags) else target.machine
    return Manifest(
        run=steps.run.id,
        problem=steps.problem.name,
        allow=steps.problem.allow or "",
        target=target.name,
        flags=target.user_flags,
        chip=chip,
        iree=tools.runtime_release,
        autotune=__version__,
        microkernels=tuple(kernel.name for kernel in steps.options.microkernels),
        seed=steps.options.seed,
        trials=steps.trials,
        budget=effort.budget,
        smallest_gain=effort.smallest_gain,
        race_entrants=effort.race_entrants,
        run_timeout=effort.run_timeout,
        repetition_seconds=effort.repetition_seconds,
        entries=tuple(_entry(outcome, lengths) for outcome, lengths in bundled),
    )


def _entry(outcome: Outcome, lengths: dict[int, Compiled]) -> Entry:
    candidate = outcome.candidate
    return Entry(
        id=candidate.id,
        kind=candidate.kind,
        route=candidate.route.name,
        label=outcome.label,
        complexity=candidate.complexity,
        config=candidate.config.items,
        binary=outcome.build.binary if outcome.build else "",
        modules={repeat: known_digest(one.vmfb) for repeat, one in lengths.items()},
    )
