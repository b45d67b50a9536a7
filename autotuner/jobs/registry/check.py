"""A registry with a new IREE or driver: does each entry still apply, is it right, is it still faster than the default?

Applying is `apply`'s work, the race is that of `ab`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Unpack

from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError, UsageError, WrongResultError
from autotuner.jobs.ab.arms import DEFAULT, FlagfileArm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.run import experiment
from autotuner.jobs.registry.apply import apply_within
from autotuner.jobs.retune.plan import SECONDS
from autotuner.jobs.retune.races import standing
from autotuner.jobs.retune.result import Raced
from autotuner.measure.clock import OF_ALL
from autotuner.registry import Registry, RegistryEntry
from autotuner.registry.folder import Known
from autotuner.system.listing import Listing
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.printer import Printer, Told
from autotuner.tuning.result import Counts, FinalVerdict, Measured, Result
from autotuner.tuning.run import Job, Question, Run, Turn
from autotuner.tuning.session import Watched

State = Literal["kept", "applies", "drop", "skipped"]
"""`kept`: it applies, is right, and nothing shows that it is not faster; `applies`: nothing was timed."""
_STYLES: Mapping[State, str] = {"kept": "green", "applies": "green", "drop": "yellow", "skipped": ""}


@dataclass(frozen=True)
class CheckedEntry:
    """One entry, and what became of it."""

    entry: RegistryEntry
    state: State
    reason: str
    renewed: RegistryEntry | None = None
    """With the figures of today's race."""

    def to_json(self) -> dict[str, Any]:
        told = {"problem": self.entry.problem, "state": self.state, "reason": self.reason, "was": self.entry.median}
        return {**told, "entry": (self.renewed or self.entry).to_json()}


@dataclass(frozen=True)
class CheckDetails(Told):
    """The entries, and the files of those that stay."""

    rows: tuple[CheckedEntry, ...]
    written: tuple[Path, ...] = ()

    @property
    def dropped(self) -> int:
        return sum(row.state == "drop" for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {"entries": [row.to_json() for row in self.rows], "written": [str(path) for path in self.written]}

    def tell(self, result: Any, printer: Printer) -> None:
        printer.verdict(result, what="registry")
        rows = [(row.entry.problem, row.state, row.reason) for row in self.rows]
        printer.table(Listing.of(("entry", "state", "reason"), rows))
        for path in self.written:
            printer.line("written", str(path))
        printer.end(result)


def check_registry(
    path: Path, target: Target, *, options: Options | None = None, into: Path | None = None, **watched: Unpack[Watched]
) -> Result[CheckDetails]:
    """Checks the entries for this target and, where there is a device, for that one; those that stay go `into` a
    folder."""
    known = [one for one in Registry.read(path).entries if one.chip == target.name]
    if not known:
        raise UsageError(f"{path} has no entry for {target.name}.", remedy="Give another --target.")
    with Job.open(target, options, watched, otherwise=SECONDS * len(known)) as job:
        problem = {"op": "registry", "name": path.resolve().stem, "flops": 0, "bytes": 0}
        asks = {"registry": str(path.resolve())}
        with job.begin(Question("retune", problem, target, asks=asks, reads=job.session.tools.programs)) as run:
            result = _Check(run, known, into).go()
            run.finish(result)
            return result


@dataclass
class _Check:
    """One run over the entries."""

    run: Run
    known: list[RegistryEntry]
    into: Path | None
    rows: list[CheckedEntry] = field(default_factory=list)

    def go(self) -> Result[CheckDetails]:
        run, here = self.run, str(self.run.environment.get("device_name") or "")
        mine = [one for one in self.known if not here or one.sku == here]
        for one in self.known:
            if one not in mine:
                self.rows.append(CheckedEntry(one, "skipped", f"it is for {one.sku}"))
        for one, found in run.parts(mine, self._one, name=lambda one: one.problem):
            if isinstance(found, AutotuneError):
                self.rows.append(CheckedEntry(one, "skipped", f"it cannot be checked: {found.message}"))
            else:
                self.rows.append(found or CheckedEntry(one, "skipped", "ran out of time before its turn"))
        stay = [row.renewed or row.entry for row in self.rows if row.state != "drop"]
        written = Registry.of(stay).write(self.into) if self.into is not None and not run.stopped else []
        counts = Counter(row.state for row in self.rows)
        verdict: FinalVerdict = "compile-only" if not run.timed else "win" if counts["kept"] else "no-winner"
        told = ", ".join(f"{number} {state}" for state, number in counts.items())
        return Result(
            **run.facts(),
            verdict=verdict,
            reason=f"{count(len(self.rows), 'entry')} with IREE {run.session.tools.release}: {told}",
            baseline=Measured(),
            stock=Measured(),
            best=None,
            speedup=None,
            speedup_over_stock=None,
            confidence=0.95,
            counts=Counts(asked=len(self.rows)),
            details=CheckDetails(tuple(self.rows), tuple(written)),
        )

    def _one(self, turn: Turn[RegistryEntry]) -> CheckedEntry:
        entry, run = turn.what, self.run
        if entry.of is None:
            return CheckedEntry(entry, "skipped", "it is of a model: tune that again, and add the run")
        problem = run.target.prepare(entry.of.allowing(entry.allow))
        place = replace(turn.options, output=run.folder / f"{problem.name}.mlir")
        try:
            applied = apply_within(problem, replace(turn.job(run.target), options=place), Known(entry, exact=True))
        except OF_ALL:
            raise
        except (NoCandidateError, UsageError, WrongResultError) as error:
            return CheckedEntry(entry, "drop", error.message)
        if not run.timed or applied.flagfile is None:
            return CheckedEntry(entry, "applies", "proven with this IREE; nothing was timed")
        return self._raced(turn, FlagfileArm(entry.problem, applied.flagfile))

    def _raced(self, turn: Turn[RegistryEntry], arm: FlagfileArm) -> CheckedEntry:
        entry, run = turn.what, self.run
        wanted = Experiment(DEFAULT, arm, run.target.prepare(entry.of) if entry.of else None)
        try:
            options = replace(turn.options, cache="warm")
            raced = Raced.of(experiment(wanted, run.target, options=options, session=turn.session).to_json())
        except OF_ALL:
            raise
        except OutOfTimeError as error:
            raced = Raced("inconclusive", error.message)
        works, reason = standing(lost="", raced=raced)
        if not works:
            return CheckedEntry(entry, "drop", reason)
        if raced.speedup is None or raced.verdict != "win":
            return CheckedEntry(entry, "kept", reason)
        return CheckedEntry(entry, "kept", reason, self._renewed(entry, raced))

    def _renewed(self, entry: RegistryEntry, raced: Raced) -> RegistryEntry:
        """With what was found today: it was timed alone, and as shipped."""
        run, speedup = self.run, raced.speedup
        assert speedup is not None
        return replace(
            entry,
            iree=run.session.tools.release,
            low=speedup.low,
            median=speedup.median,
            high=speedup.high,
            us=raced.us,
            baseline_us=raced.baseline_us,
            binary=raced.binary,
            within="",
            driver=str(run.environment.get("driver") or ""),
            date=f"{run.environment['time'][:16].replace('T', ' ')} UTC",
            command=run.command,
            run=raced.run,
        )
