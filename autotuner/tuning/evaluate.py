"""One candidate from text to time: built, proven, deduplicated, checked, timed; each step is a row when it happens."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.devices.device import Device, Timing, more_often
from autotuner.devices.many import Devices
from autotuner.errors import UsageError
from autotuner.iree.compile import FAILURE_CLASSES, Compiled, FailureClass, shell_line
from autotuner.iree.folder import write_inputs
from autotuner.iree.run import benchmark_command
from autotuner.measure.baselines import Baselines
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check
from autotuner.measure.screening import Measured
from autotuner.measure.standing import Kind
from autotuner.microkernels.providers.provider import ObjectRefusalError
from autotuner.store.rows import BuildRow, CandidateRow
from autotuner.store.store import Store
from autotuner.system.execution import after, done
from autotuner.targets.naming import iree_uri
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, SEARCHED, Candidate, Plan
from autotuner.tuning.result import Counts

REFUSALS = (UsageError, ObjectRefusalError)
"""What making a kernel from its source may end with."""


@dataclass
class Evaluator:
    """Builds candidates, proves and deduplicates them, and keeps the state of each. Once IREE's default is
    calibrated, it has them checked and timed as well."""

    plan: Plan
    builder: Builder
    store: Store
    run: str
    folder: Path
    """`candidates/<run>`."""
    keep: frozenset[str]
    compile_timeout: float
    devices: Devices
    elsewhere: bool = False
    """What is built is timed on another machine."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    searched: list[Outcome] = field(default_factory=list, init=False)
    """Those of the search."""
    states: dict[str, set[str]] = field(default_factory=lambda: {"built": set(), "failed": set(), "timed": set()})
    """The names of those that were built, have failed or have a time, duplicates too."""
    _best: dict[Kind, float] = field(default_factory=dict, init=False)
    """The least time of each kind: looking through all for it, or for states, would cost more with each candidate."""
    next_ordinal: int = 0
    """Where the numbering of new rows goes on."""
    known: Calibration[Compiled] | None = field(default=None, init=False)
    """None: nothing is timed, or not yet."""
    _baselines: Baselines[Compiled] | None = field(default=None, init=False)
    _first_of: dict[str, str] = field(default_factory=dict)
    _twins: dict[str, list[Outcome]] = field(default_factory=dict)
    """Candidates with the binary of one that is not measured yet: what it comes to, they come to."""

    def calibrate(self, calibration: Calibration[Compiled]) -> None:
        """From here on what is built is measured, on the device that this is of or on others."""
        self.known = calibration
        self._baselines = Baselines(calibration, lambda: self.outcomes[BASELINE].us)
        if (baseline := self.outcomes.get(BASELINE)) is not None:
            baseline.build = calibration.baseline
            self._note(baseline)

    @property
    def measures(self) -> bool:
        """What is built is checked and timed as well."""
        return self.known is not None

    @property
    def calibration(self) -> Calibration[Compiled]:
        if self.known is None:
            raise ValueError("nothing is timed before IREE's default is calibrated")
        return self.known

    def move_to(self, device: Device) -> None:
        """What comes now stays on this device."""
        if self._baselines is not None and self.calibration.device.uri != device.uri:
            self.known = self._baselines.on(device).calibration

    def measure(self, build: Compiled, device: Device, *, best_us: float) -> Measured:
        """Nothing is written down: it may run in a thread."""
        if self._baselines is None:
            raise ValueError("nothing is timed before IREE's default is calibrated")
        return self._baselines.measure(build, device, best_us=best_us)

    # --- rows ---------------------------------------------------------------------------------------------------

    def restore(self, rows: Sequence[CandidateRow], binaries: Mapping[int, str]) -> list[Outcome]:
        """Takes over the rows of an interrupted run; gives those that it left unfinished."""
        names = {row.id: self._identify(row) for row in rows}
        self.next_ordinal = max((row.ordinal for row in rows), default=-1) + 1
        unfinished = []
        for row in rows:
            candidate = names[row.id]
            if candidate is None:
                continue
            outcome = Outcome(candidate, row.id)
            if row.state == "timed" and row.us is not None:
                outcome.us, outcome.error, outcome.checked = row.us, row.error, True
                outcome.failure = _failure_class(row.failure) if row.failure else None
                self._first_of.setdefault(binaries.get(row.id, candidate.id), candidate.id)
            elif row.state == "failed":
                outcome.failure, outcome.detail = _failure_class(row.failure), row.stderr
                outcome.checked = not row.failure.startswith(("compile-", "not-applied"))
            elif row.state == "duplicate" and (twin := names.get(row.duplicate_of or -1)) is not None:
                original = self.outcomes[twin.id]
                outcome.duplicate_of, outcome.us, outcome.failure = twin.id, original.us, original.failure
            else:
                unfinished.append(outcome)
            self.take(outcome)
        return unfinished

    def _identify(self, row: CandidateRow) -> Candidate | None:
        """The candidate of a row; None when this version of the space does not have it."""
        if row.kind == "baseline":
            return self.plan.baseline
        if row.kind == "stock":
            return next((c for c in self.plan.stock if c.route.name == row.route), None)
        if row.config not in self.plan.space:
            return None
        return self.plan.candidate(row.config, id=candidate_id(row.ordinal))

    def open(self, candidate: Candidate) -> Outcome:
        """The candidate with its row, which is new unless an interrupted run left one."""
        if candidate.id not in self.outcomes:
            row = self.store.add_candidate(
                self.run,
                ordinal=self.next_ordinal,
                config=candidate.config,
                kind=candidate.kind,
                route=candidate.route.name,
            )
            self.next_ordinal += 1
            self.take(Outcome(candidate, row))
        return self.outcomes[candidate.id]

    def take(self, outcome: Outcome) -> None:
        """One more."""
        self.outcomes[outcome.candidate.id] = outcome
        if outcome.kind in SEARCHED:
            self.searched.append(outcome)
        self._note(outcome)

    # --- build --------------------------------------------------------------------------------------------------

    def repeats(self, candidate: Candidate) -> int:
        """As the default does, and more often where it may be far faster, as others of its kind were. On an NVIDIA H200
        a call costs 0.15 to 0.4 ms whatever it does, which of one of 1 ms is more than what the best differ by; on GPUs
        it lasts as long as a repetition has to."""
        if self.known is None:
            return 1
        often, benchmark = self.known.repeat, self.known.benchmark
        if candidate.id == BASELINE or benchmark.cache == "cold":
            return often
        shortest = self.known.device.invocation_us
        lasting = shortest if self.plan.target.backend.on_host else max(shortest, 1e6 * benchmark.seconds)
        us = self._best.get(candidate.kind) or self.plan.hoped_us(candidate)
        return more_often(often, us, invocation_us=lasting)

    def job(self, candidate: Candidate, *, repeat: int | None = None) -> BuildJob:
        return self.plan.job(
            candidate,
            timeout=self.compile_timeout,
            repeat=self.repeats(candidate) if repeat is None else repeat,
            timed=self.measures or self.elsewhere,
        )

    def submit(self, candidate: Candidate, executor: BuildExecutor) -> tuple[Outcome, Future[Compiled]]:
        """Opens the row and starts the build."""
        return self.open(candidate), self.start_build(candidate, executor)

    def start_build(
        self, candidate: Candidate, executor: BuildExecutor, *, repeat: int | None = None
    ) -> Future[Compiled]:
        """A kernel that does not fit is a failure of its candidate."""
        if self.known is not None and candidate.id == BASELINE and repeat in (None, self.known.repeat):
            return done(self.known.baseline)  # a build of a moment ago is not one that the cache spared us
        if candidate.carrier.made_here:
            built = executor.start_made(lambda: self.job(candidate, repeat=repeat), REFUSALS)
        else:
            built = executor.start(self.job(candidate, repeat=repeat))
        return after(built, lambda build: build, wait_for=self._prepare) if self.measures else built

    def _prepare(self, build: Compiled) -> Future[None]:
        return self.devices.in_turn().prepare(build.vmfb) if build.ok else done(None)

    def settle_build(self, outcome: Outcome, build: Compiled) -> bool:
        """Writes the build's row; True when the candidate is new and should be checked and timed."""
        outcome.build = replace(build, dumped={})  # it is proven by these texts, which would fill memory for hours
        self._note(outcome)
        command, vmfb = tuple(build.command), str(build.vmfb)
        self.store.record_build(
            BuildRow(outcome.row, build.seconds, build.cached, build.binary, build.applied, command, vmfb, build.isa)
        )
        if build.failure is not None:
            self._fail(outcome, build.failure, build.stderr)
            return False
        twin = self._first_of.setdefault(build.binary, outcome.candidate.id)
        if twin == outcome.candidate.id:
            return True
        original = self.outcomes[twin]
        if original.settled or not self.measures:
            self._follow(outcome, original)
        else:
            self._twins.setdefault(twin, []).append(outcome)
        return False

    def _follow(self, outcome: Outcome, original: Outcome) -> None:
        """Takes over the result of the candidate with the same binary."""
        outcome.duplicate_of = original.candidate.id
        outcome.us, outcome.failure = original.us, original.failure
        self._note(outcome)
        self.store.record_duplicate(outcome.row, of=original.row)
        self.tidy(outcome)

    def settle(self, outcome: Outcome, measured: Measured) -> list[Outcome]:
        """Writes down what the device said; gives all candidates that this settles, twins too."""
        self._settle(outcome, measured)
        twins = self._twins.pop(outcome.candidate.id, [])
        for twin in twins:
            self._follow(twin, outcome)
        return [outcome, *twins]

    def _settle(self, outcome: Outcome, measured: Measured) -> None:
        check, timing = measured.check, measured.timing
        outcome.checked = True
        outcome.error = check.error if math.isfinite(check.error) else None
        if check.failure == "wrong-result" and timing is not None:
            self._settle_wrong_default(outcome, check, timing, measured.device)
            return
        if check.failure is not None or timing is None:
            self._fail(outcome, check.failure or "run-error", check.detail)
            return
        self.store.record_check(outcome.row, error=check.error)
        self._time(outcome, timing, measured.device)

    def _settle_wrong_default(self, outcome: Outcome, check: Check, timing: Timing, device: str) -> None:
        """Timed like a right one, but it does not contend: its row has a time and a failure."""
        if outcome.error is not None:
            self.store.record_check(outcome.row, error=outcome.error)
        self._fail(outcome, "wrong-result", check.detail)
        self._time(outcome, timing, device)

    def _time(self, outcome: Outcome, timing: Timing, device: str) -> None:
        if timing.failure is not None:
            self._fail(outcome, timing.failure, timing.detail)
            return
        outcome.us = timing.median / self._ratio(device)
        self._note(outcome)
        self.store.record_timing(outcome.row, timing, phase="screen", block=0, us=outcome.us)
        self.tidy(outcome)

    def _ratio(self, device: str) -> float:
        """What IREE's default takes on a device, of what it takes where it was timed first."""
        return self._baselines.ratio(device) if self._baselines is not None else 1.0

    def default_us(self) -> Mapping[str, float]:
        """What IREE's default takes, by device."""
        return self._baselines.us() if self._baselines is not None else {}

    def record_default(self, timing: Timing) -> None:
        """IREE's default on one more device."""
        self.store.record_timing(self.outcomes[BASELINE].row, timing, phase="drift", block=1)

    # --- what became of them ------------------------------------------------------------------------------------

    @property
    def best_us(self) -> float:
        return min(self._best.values(), default=math.inf)

    def _note(self, outcome: Outcome) -> None:
        reached = {"built": outcome.built, "failed": outcome.failure, "timed": outcome.us is not None}
        for state in filter(reached.get, reached):
            self.states[state].add(outcome.id)
        if outcome.contends and outcome.us is not None:
            self._best[outcome.kind] = min(outcome.us, self._best.get(outcome.kind, math.inf))

    def leader(self) -> Candidate | None:
        """The fastest of the search, if it is faster than the default at all."""
        found = [o for o in self.searched if o.contends]
        best = min(found, key=lambda o: o.us or math.inf, default=None)
        baseline = self.outcomes[BASELINE].us
        ahead = best is not None and best.us is not None and baseline is not None and best.us < baseline
        return best.candidate if ahead and best is not None else None

    def counts(self) -> Counts:
        """Counts of candidates by state."""
        outcomes = list(self.outcomes.values())
        built = [o for o in outcomes if o.built or o.checked or o.us is not None or o.duplicate_of]
        lost = [o for o in outcomes if not o.duplicate_of and o.us is None]  # a wrong default counts as timed
        failed = {name: sum(o.failure == name for o in lost) for name in FAILURE_CLASSES}
        return Counts(
            space=len(self.plan.space),
            asked=len(outcomes),
            routes=sum(o.candidate.kind not in SEARCHED for o in outcomes),
            built=len(built),
            cached=sum(o.build is not None and o.build.cached for o in outcomes),
            duplicate=sum(o.duplicate_of is not None for o in outcomes),
            checked=sum(o.checked for o in outcomes),
            timed=sum(o.us is not None and o.duplicate_of is None for o in outcomes),
            rivals=sum(o.contends and o.candidate.id != BASELINE for o in outcomes),
            failed=failed,
        )

    # --- folders ------------------------------------------------------------------------------------------------

    def tidy(self, outcome: Outcome) -> None:
        """Removes the candidate's folder unless --keep wants it."""
        failed = outcome.failure is not None
        if "all" in self.keep or (failed and "failed" in self.keep):
            self.keep_folder(outcome)
        else:
            shutil.rmtree(self.folder / outcome.candidate.id, ignore_errors=True)

    def keep_folder(self, outcome: Outcome) -> None:
        """All that a person needs to repeat the candidate by hand."""
        candidate = outcome.candidate
        folder = self.folder / candidate.id
        try:
            job = self.job(candidate)
        except REFUSALS as error:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "command.txt").write_text("# nothing to compile: the kernel could not be made\n")
            (folder / "stderr.txt").write_text(str(error))
            return
        write_inputs(job, folder)
        lines = [f"cd {shell_line([str(folder)])}", shell_line(job.command(self.builder.tools))]
        (folder / "command.txt").write_text("\n".join([*lines, *self._timed_by(job)]) + "\n")
        (folder / "stderr.txt").write_text(outcome.detail or (outcome.build.stderr if outcome.build else ""))

    def _timed_by(self, job: BuildJob) -> list[str]:
        """How to time it by hand; nothing where nothing is timed."""
        if self.known is None:
            return []
        benchmark, uri = self.known.benchmark, iree_uri(self.known.device.uri)
        lines = [shell_line(benchmark_command(self.builder.tools, Path("module.vmfb"), benchmark, device=uri))]
        if job.repeat > 1:
            lines.append(f"# divide the time by {job.repeat}: the module repeats its dispatches that often")
        return lines

    def refuse(self, name: str, check: Check) -> None:
        """One that was timed, and cannot be believed."""
        self.outcomes[name].us = None
        self._fail(self.outcomes[name], check.failure or "wrong-result", check.detail)
        self.states["timed"].discard(name)
        self._best.clear()
        for outcome in self.outcomes.values():
            self._note(outcome)

    def _fail(self, outcome: Outcome, failure: FailureClass, detail: str) -> None:
        outcome.failure, outcome.detail = failure, detail
        self._note(outcome)
        self.store.record_failure(outcome.row, failure, stderr=detail)
        self.tidy(outcome)


def candidate_id(ordinal: int) -> str:
    """The name of a search candidate: also its folder's."""
    return f"c{ordinal:04d}"


def _failure_class(text: str) -> FailureClass:
    return next((known for known in FAILURE_CLASSES if known == text), "run-error")
