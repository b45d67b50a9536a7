"""Retuning: every entry proven, raced, searched again where that is worth it, and what stays written anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from autotuner.carriers.provenance import Provenance
from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError, StorageError, UsageError
from autotuner.iree.compile import shell_line
from autotuner.jobs.opening import compile_timeout
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.plan import Plan, Wanted, read_plan
from autotuner.jobs.retune.races import Raced, Races, Searched, decide, standing
from autotuner.jobs.retune.result import EntryRow, RetuneDetails, RetuneResult, retune_result
from autotuner.jobs.retune.ship import OtherCodeError, Staying, Writer, Written, program_of
from autotuner.jobs.retune.unit import Key, Proof, Prover
from autotuner.system import process
from autotuner.system.progress import Clock
from autotuner.system.text import count
from autotuner.targets import NO_DEVICE
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session, Watched

_UNWRITTEN = (UsageError, NoCandidateError, OutOfTimeError)
"""What keeps one unit from being written, and no other."""


def retune(wanted: Wanted, *, options: Options | None = None, **watched: Unpack[Watched]) -> RetuneResult:
    """Proves and races every entry with this IREE, and writes what stays."""
    options = options or Options()
    plan = read_plan(wanted, options)
    with Session.open(plan.target, options, **watched) as session:
        name = wanted.path.resolve().stem
        question = Question(
            kind="retune",
            problem={"op": "retune", "name": name, "flops": 0, "bytes": 0},
            target=plan.target,
            asks={"retune": str(wanted.path.resolve()), "model": str(wanted.model.path) if wanted.model else ""},
            reads=(*session.tools.programs, *plan.reads),
            recalls=True,
        )
        account = Account(session.reporter, Clock(plan.seconds(options), session.began))
        with Run.begin(question, session=session, options=options, account=account) as run:
            return _RetuneRun(wanted, plan, run).go()


@dataclass
class _RetuneRun:
    """One run's steps in order."""

    wanted: Wanted
    plan: Plan
    run: Run
    rows: list[EntryRow] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    stays: dict[Path, Staying] = field(default_factory=dict)
    """By spec."""

    def __post_init__(self) -> None:
        self.races = Races(self.run, self.wanted.trust)
        self.writer = Writer(self.run, self.wanted.in_place, self.wanted.trust)
        self.writes = self.run.timed or self.run.options.output is not None or self.wanted.in_place

    def go(self) -> RetuneResult:
        run = self.run
        if self.writes:
            self.writer.claim(self.plan.units)
        if run.earlier is not None:
            ended = sum(part.status == "finished" for part in run.session.store.parts(run.id))
            run.account.note(f"going on with run {run.id}: {count(ended, 'run')} below it finished")
        self.rows += [
            EntryRow(one.unit.path, one.entry, "", "skipped", one.reason, old=one.old, before=one.old)
            for one in self.plan.left
            if not run.stopped
        ]
        for number, part in enumerate(self.plan.parts):
            if not run.stopped:
                self._part(part, run.clock.elapsed + run.clock.left / (len(self.plan.parts) - number))
        if self.writes and not run.stopped:
            with process.however_late():  # nothing is timed any more
                for staying in self.stays.values():
                    self._write(staying)
        result = retune_result(run, RetuneDetails(tuple(self.rows), tuple(self.written)))
        run.finish(result)
        return result

    # --- one part -------------------------------------------------------------------------------------------------

    def _part(self, part: Part, ends: float) -> None:
        """Proven, raced, and searched again until so many seconds after the start."""
        account = self.run.account
        account.stage(f"proving {part.unit.path.name} in {part.name}")
        if part.accepted and self.wanted.allow is None:
            account.note(f"{part.accepted} when it was tuned, and are again")
        try:
            proofs = self._proven(part)
        except StorageError:
            raise
        except AutotuneError as error:
            self._leave(part, f"it cannot be proven: {error.message}")
            return
        # What the user's own model does not have may be for another one: it stays as it is.
        others = {key for key, proof in proofs.items() if proof.unmatched and self.wanted.model is not None}
        lost = [proof.lost for key, proof in proofs.items() if proof.lost and key not in others]
        if others and len(others) == len(proofs):
            self._leave(part, f"nothing in {part.name} matches it")
            return
        # A model goes on without what no longer applies; a single problem has nothing else.
        gone = lost[0] if lost and (part.problem is not None or len(lost) == len(proofs) - len(others)) else ""
        raced, searched = self._timed(part, gone, ends)
        state, reason = decide(lost=gone, raced=raced, searched=searched)
        kept: dict[Key, Provenance] = {}
        for key, entry in part.entries.items():
            own_state, own_reason = state, reason
            if key in others:
                own_state, own_reason = "skipped", f"nothing in {part.name} matches it: it stays as it is"
                kept[key] = entry.provenance or Provenance()
            elif state == "kept" and proofs[key].lost:
                own_state, own_reason = "dropped", proofs[key].lost
            elif state == "kept":
                kept[key] = self._provenance(entry.provenance, raced, part)
            self.rows.append(
                EntryRow(
                    key[0],
                    entry.name,
                    entry.provenance.problem if entry.provenance else part.name,
                    own_state,
                    own_reason,
                    proofs[key].applied,
                    old=entry.provenance or part.old,
                    before=entry.provenance if key in others else part.old,
                    raced=None if key in others else raced,
                )
            )
        if not part.entries:
            self.rows.append(EntryRow(part.unit.path, "", part.name, state, reason, 0, part.old, part.old, raced))
        if state in ("kept", "replaced"):
            self._stay(part, kept, raced, searched)

    def _proven(self, part: Part) -> dict[Key, Proof]:
        run = self.run
        with run.account.clocked("build"):
            program, own = program_of(part, run)
            timeout = compile_timeout(run.options, run.clock)
            return Prover(part.unit, program, own, run.target, run.session.tools, timeout).prove(part.entries)

    def _leave(self, part: Part, reason: str) -> None:
        rows = [(key[0], entry.name) for key, entry in part.entries.items()] or [(part.unit.path, "")]
        self.rows += [
            EntryRow(path, name, part.name, "skipped", reason, old=part.old, before=part.old) for path, name in rows
        ]
        self._stay(part, {key: entry.provenance or Provenance() for key, entry in part.entries.items()})

    def _timed(self, part: Part, gone: str, ends: float) -> tuple[Raced | None, Searched | None]:
        """The race, and the search where one is worth it."""
        run, clock = self.run, self.run.clock
        if not run.timed:
            return None, None
        if not gone and clock.left <= 0:
            return Raced("inconclusive", "the time was up before it was raced: a longer --budget would do"), None
        raced = None if gone else self.races.against_default(part, ends - clock.elapsed)
        works, _ = standing(lost=gone, raced=raced)
        if works or run.stopped:
            return raced, None
        return raced, self.races.search(part, ends - clock.elapsed)

    def _provenance(self, old: Provenance | None, raced: Raced | None, part: Part) -> Provenance:
        """What a kept entry says of itself: a model's own entries were not raced alone."""
        run, alone = self.run, part.problem is not None
        before = old or Provenance(problem=part.name)
        figures = raced if raced and alone else None
        return Provenance(
            problem=before.problem or part.name,
            target=run.target.name,
            device=run.session.device if run.session.device != NO_DEVICE else "",
            verdict=figures.verdict if figures else "proven again" if raced is None else "judged in the model",
            us=figures.us if figures else None,
            baseline_us=figures.baseline_us if figures else None,
            command=before.command or shell_line(run.options.command),
            earlier=old.line() if old else "",
        ).stamped(run.session.tools, figures.speedup if figures else None, run.environment if run.timed else None)

    # --- what stays -----------------------------------------------------------------------------------------------

    def _stay(
        self, part: Part, kept: Mapping[Key, Provenance], raced: Raced | None = None, searched: Searched | None = None
    ) -> None:
        before = self.stays.get(part.unit.spec) or Staying(part.unit)
        found = {part.name: searched.found} if searched and searched.found else {}
        binary = {part.name: raced.binary} if raced and raced.binary else {}
        self.stays[part.unit.spec] = replace(
            before,
            kept={**before.kept, **kept},
            parts=(*before.parts, part),
            found={**before.found, **found},
            binaries={**before.binaries, **binary},
        )

    def _write(self, staying: Staying) -> None:
        unit, account = staying.unit, self.run.account
        own = [row for row in self.rows if row.spec in (unit.path, *(one.path for one in unit.files))]
        decided = any(row.state == "replaced" or (row.raced and row.raced.verdict == "win") for row in own)
        if self.run.timed and self.run.clock.left <= 0 and not decided:
            account.note(f"{unit.name} is not written: the time was up before a verdict, and the old files stay")
            return
        if off := [row.problem for row in own if not row.entry and row.state == "dropped"]:
            names = ", ".join(part.name for part in staying.parts)
            account.note(f"{unit.path.name} stays for {names}: compile {', '.join(off)} without it")
        account.stage(f"writing {unit.name}")
        # What cannot be retuned stays as it is.
        left = {one.key: one.old or Provenance() for one in self.plan.left if one.key and one.unit is unit}
        try:
            self.written += self.writer.write(replace(staying, kept={**staying.kept, **left}))
        except (OtherCodeError, *_UNWRITTEN) as error:
            account.note(f"{unit.name} is not written: {error}")
            if isinstance(error, OtherCodeError):
                self._fail(own, error)

    def _fail(self, rows: list[EntryRow], error: OtherCodeError) -> None:
        """What would have stayed of a unit is not written: the old files are."""
        reason = f"it is not written: {error.message}"
        failed = [row for row in rows if row.state in ("kept", "replaced")]
        self.rows = [replace(row, state="failed", reason=reason) if row in failed else row for row in self.rows]
