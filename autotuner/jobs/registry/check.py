"""A registry with a new IREE or driver: does each entry still apply, is it right, is it still faster than the default?

Each is applied as `apply` does it, and raced as `retune` races a spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError, UsageError, WrongResultError
from autotuner.jobs.ab.arms import DEFAULT, FlagfileArm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import experiment
from autotuner.jobs.registry.apply import apply_within
from autotuner.jobs.retune.plan import SECONDS
from autotuner.jobs.retune.races import decide
from autotuner.jobs.retune.result import EntryRow, Raced, RetuneDetails, RetuneResult, State, retune_result
from autotuner.problems import Problem
from autotuner.registry import Known, Registry, RegistryEntry
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Question, Run, Turn
from autotuner.tuning.session import Watched

_OF_A_MODEL = "it is of a model: tune that again, and add the run"


def check_registry(
    path: Path, target: Target, *, options: Options | None = None, into: Path | None = None, **watched: Unpack[Watched]
) -> RetuneResult:
    """Checks the entries for this target and this device; those that stay go `into` a folder."""
    known = [one for one in Registry.read(path).entries if one.chip == target.name]
    if not known:
        raise UsageError(f"{path} has no entry for {target.name}.", remedy="Give another --target.")
    with Job.open(target, options, watched, otherwise=SECONDS * len(known)) as job:
        problem = {"op": "registry", "name": path.resolve().stem, "flops": 0, "bytes": 0}
        asks = {"registry": str(path.resolve())}
        with job.begin(Question("retune", problem, target, asks=asks, reads=job.session.tools.programs)) as run:
            result = _Check(run, path, known, into).go()
            run.finish(result)
            return result


@dataclass
class _Check:
    """One run over the entries."""

    run: Run
    path: Path
    known: list[RegistryEntry]
    into: Path | None
    rows: list[EntryRow] = field(default_factory=list)
    stay: list[RegistryEntry] = field(default_factory=list)

    def go(self) -> RetuneResult:
        run, here = self.run, str(self.run.environment.get("device_name") or "")
        mine = [one for one in self.known if one.of is not None and one.sku in (here or one.sku)]
        for one in self.known:
            if one not in mine:
                self._ended(one, "skipped", _OF_A_MODEL if one.of is None else f"it is for {one.sku}")
        for one, found in run.parts(mine, self._checked, name=lambda one: one.problem):
            if found is None or isinstance(found, AutotuneError):
                why = "ran out of time before its turn" if found is None else f"it cannot be checked: {found.message}"
                self._ended(one, "skipped", why)
        if self.into is not None and not run.stopped:
            Registry.of(self.stay).write(self.into)
            run.account.note(f"{self.into}: {count(len(self.stay), 'entry')} of {len(self.known)}")
        return retune_result(run, RetuneDetails(tuple(self.rows)))

    def _ended(self, entry: RegistryEntry, state: State, reason: str, raced: Raced | None = None) -> EntryRow:
        old = entry.provenance(entry.problem)
        self.rows.append(EntryRow(self.path, entry.problem, entry.problem, state, reason, old=old, raced=raced))
        if state != "dropped":
            won = raced is not None and raced.verdict == "win"
            self.stay.append(self._renewed(entry, raced) if won and raced is not None else entry)
        return self.rows[-1]

    def _checked(self, turn: Turn[RegistryEntry]) -> EntryRow:
        """Applied, its results checked, raced."""
        entry, run = turn.what, self.run
        assert entry.of is not None
        problem = run.target.prepare(entry.of.allowing(entry.allow))
        place = replace(turn.options, output=run.folder / f"{problem.name}.mlir")
        lost, raced = "", None
        try:
            applied = apply_within(problem, replace(turn.job(run.target), options=place), Known(entry, exact=True))
            if run.timed and applied.flagfile is not None:
                raced = self._raced(turn, problem, FlagfileArm(entry.problem, applied.flagfile, trust=True))
        except (NoCandidateError, UsageError, WrongResultError) as error:
            lost = error.message
        state, reason = decide(lost=lost, raced=raced, searched=None)
        return self._ended(entry, state, reason, raced)

    def _raced(self, turn: Turn[RegistryEntry], problem: Problem, arm: FlagfileArm) -> Raced:
        options = replace(turn.options, cache="warm")
        try:
            wanted = Experiment(DEFAULT, arm, problem)
            return Raced.of(experiment(wanted, self.run.target, options=options, session=turn.session).to_json())
        except OutOfTimeError as error:
            return Raced("inconclusive", error.message)

    def _renewed(self, entry: RegistryEntry, raced: Raced) -> RegistryEntry:
        """With what was found today: it was timed alone, and as shipped."""
        speedup, environment = raced.speedup, self.run.environment
        return replace(
            entry,
            iree=self.run.session.tools.release,
            **({one: getattr(speedup, one) for one in ("low", "median", "high")} if speedup else {}),
            us=raced.us,
            baseline_us=raced.baseline_us,
            binary=raced.binary,
            within="",
            driver=str(environment.get("driver") or ""),
            date=f"{environment['time'][:16].replace('T', ' ')} UTC",
            command=self.run.command,
            run=raced.run,
        )
