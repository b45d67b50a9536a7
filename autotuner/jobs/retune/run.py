"""Retuning: every entry proven, raced, searched again where that is worth it, and what stays written anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from autotuner.carriers.provenance import Provenance
from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError, StorageError, UsageError
from autotuner.iree.compile import shell_line
from autotuner.jobs.retune.ahead import Ahead
from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.plan import Plan, Wanted, identity, read_plan
from autotuner.jobs.retune.races import LEAST_SEARCH, Raced, Races, Searched, decide, standing
from autotuner.jobs.retune.result import EntryRow, RetuneDetails, RetuneResult, retune_result
from autotuner.jobs.retune.ship import OtherCodeError, Staying, Writer, Written
from autotuner.jobs.retune.unit import Key, Proof, Unit
from autotuner.system import process
from autotuner.system.progress import Clock
from autotuner.system.text import count
from autotuner.targets import NO_DEVICE
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session, Watched

_WRITING = 0.4
"""Of the time, at most: for compiling what is written."""
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
    known: dict[tuple[object, ...], tuple[Raced | None, Searched | None, Path | None]] = field(default_factory=dict)
    """By what was raced: the same entry may stand in several files."""
    anew: float = 0.0
    """Seconds for compiling what is written."""

    def __post_init__(self) -> None:
        self.races = Races(self.run, self.wanted.trust)
        self.writer = Writer(self.run, self.wanted.in_place, self.wanted.trust)
        self.ahead = Ahead(self.races, self.writer)
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
        ]
        run.account.stage(f"compiling {count(len(self.plan.parts), 'program')} with what is to be proven")
        with run.account.clocked("build"):
            self.ahead.go(self.plan)
        for number, part in enumerate(self.plan.parts):
            if run.stopped:
                break
            self._part(part, self.plan.parts[number:])
        if self.writes and not run.stopped:
            self._say_who_is_better_off()
            self._write()
        details = RetuneDetails(tuple(self.rows), tuple(self.written), self.plan.first_seconds)
        result = retune_result(run, details)
        run.finish(result)
        return result

    def _budget(self, parts: Sequence[Part], left: float) -> float:
        """The first one's part of what was left; some of it is for writing."""
        weights = [self.plan.share(part, self.run.options) for part in parts]
        whole = self.run.clock.budget
        kept = min(self.anew, _WRITING * whole) if self.writes else 0.0
        return max(left - kept, 0.0) * weights[0] / (sum(weights) or 1.0)

    # --- one part -------------------------------------------------------------------------------------------------

    def _part(self, part: Part, parts: Sequence[Part]) -> None:
        """The first of those that are left."""
        run, clock = self.run, self.run.clock
        began, left = clock.elapsed, clock.left
        run.account.stage(f"proving {part.unit.path.name} in {part.name}")
        if part.accepted and self.wanted.allow is None:
            run.account.note(f"{part.accepted} when it was tuned, and are again")
        try:
            proven = self.ahead.proofs[id(part)].result()
        except AutotuneError as error:
            if isinstance(error, StorageError):
                raise
            self._leave(part, f"it cannot be proven: {error.message}")
            return
        part, proofs = proven.part, proven.proofs
        self.anew += proven.seconds
        ends = began + self._budget(parts, left)
        # What the user's own model does not have may be for another one: it stays as it is.
        others = {key for key, proof in proofs.items() if proof.unmatched and self.wanted.model is not None}
        lost = [proof.lost for key, proof in proofs.items() if proof.lost and key not in others]
        if others and len(others) == len(proofs):
            self._leave(part, f"nothing in {part.name} matches it")
            return
        # A model goes on without what no longer applies; a single problem has nothing else.
        gone = lost[0] if lost and (part.problem is not None or len(lost) == len(proofs) - len(others)) else ""
        raced, searched, found = self._timed(part, proofs, gone, ends)
        stands = standing(lost=gone, raced=raced, before=self.races.before(part))
        state, reason = decide(stands, searched, timed=run.timed)
        if run.timed and stands.search and searched is None and not run.stopped:
            run.account.note(f"{part.name}: less than {LEAST_SEARCH:.0f} s were left to search again (--budget)")
        kept: dict[Key, Provenance] = {}
        for file, entry in part.entries:
            key = (file.path, entry.id)
            own_state, own_reason = state, reason
            if key in others:
                own_state, own_reason = "skipped", f"nothing in {part.name} matches it: it stays as it is"
                kept[key] = entry.provenance or Provenance()
            elif state == "kept" and proofs[key].lost:
                own_state, own_reason = "dropped", proofs[key].lost
            if own_state == "kept":
                kept[key] = self._provenance(entry.provenance, raced, part)
            self.rows.append(
                EntryRow(
                    part.unit.shown(file.path),
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
            self._stay(part, kept, found if state == "replaced" else None, raced)

    def _leave(self, part: Part, reason: str) -> None:
        names = [(part.unit.shown(file.path), entry.name) for file, entry in part.entries] or [(part.unit.path, "")]
        self.rows += [
            EntryRow(path, name, part.name, "skipped", reason, old=part.old, before=part.old) for path, name in names
        ]
        self._stay(part, {(f.path, e.id): e.provenance or Provenance() for f, e in part.entries}, None)

    def _timed(
        self, part: Part, proofs: Mapping[Key, Proof], gone: str, ends: float
    ) -> tuple[Raced | None, Searched | None, Path | None]:
        """The race, and the search where one is worth it; what stands in several files is timed once."""
        run, clock = self.run, self.run.clock
        if not run.timed:
            return None, None, None
        same = identity(part)
        if same in self.known:
            return self.known[same]
        if not gone and clock.left <= 0:
            return Raced("inconclusive", "the time was up before it was raced: a longer --budget would do"), None, None
        raced = None if gone else self.races.against_default(part, proofs, ends - clock.elapsed)
        stands = standing(lost=gone, raced=raced, before=self.races.before(part))
        searched, found = None, None
        left = ends - clock.elapsed
        if stands.search and left >= LEAST_SEARCH and not run.stopped:
            searched, found = self.races.search(part, stands, seconds=left)
        self.known[same] = raced, searched, found
        return self.known[same]

    def _provenance(self, old: Provenance | None, raced: Raced | None, part: Part) -> Provenance:
        """What a kept entry says of itself: a model's own entries were not raced alone."""
        run, alone = self.run, part.problem is not None
        before = old or Provenance(problem=part.name)
        verdict = raced.verdict if raced and alone else "proven again" if raced is None else "judged in the model"
        figures = raced if raced and alone else None
        return Provenance(
            problem=before.problem or part.name,
            target=run.target.name,
            device=run.session.device if run.session.device != NO_DEVICE else "",
            verdict=verdict,
            us=figures.us if figures else None,
            baseline_us=figures.baseline_us if figures else None,
            seconds=part.seconds,
            command=before.command or shell_line(run.options.command),
            earlier=old.line() if old else "",
        ).stamped(run.session.tools, figures.speedup if figures else None, run.environment if run.timed else None)

    # --- what stays -----------------------------------------------------------------------------------------------

    def _stay(self, part: Part, kept: Mapping[Key, Provenance], found: Path | None, raced: Raced | None = None) -> None:
        unit, binary = part.unit, self.races.binary(raced.run) if raced and raced.run else ""
        before = self.stays.get(unit.home) or Staying(unit)
        own = [one for one in self.plan.parts if one.unit.spec == unit.home]
        self.stays[unit.home] = replace(
            before,
            kept={**before.kept, **kept},
            parts=(*before.parts, part),
            new={**before.new, **({part.name: found} if found else {})},
            binaries={**before.binaries, **({part.name: binary} if binary else {})},
            alone=len(own) == 1 and found is not None,
            decided=before.decided or found is not None or (raced is not None and raced.verdict == "win"),
        )

    def _say_who_is_better_off(self) -> None:
        """Flags are of a whole file: where they stay for some problems, the others have them too."""
        for staying in self.stays.values():
            path, staying_for = staying.unit.path, [part.name for part in staying.parts]
            off = [row.problem for row in self.rows if row.spec == path and not row.entry and row.state == "dropped"]
            if off:
                self.run.account.note(
                    f"{path.name} stays for {', '.join(staying_for)}: compile {', '.join(off)} without it"
                )

    def _write(self) -> None:
        """Nothing is timed any more."""
        with process.however_late():
            for staying in self.stays.values():
                self._write_unit(staying)

    def _write_unit(self, staying: Staying) -> None:
        unit, account = staying.unit, self.run.account
        if self.run.timed and self.run.clock.left <= 0 and not staying.decided:
            account.note(f"{unit.name} is not written: the time was up before a verdict, and the old files stay")
            return
        account.stage(f"writing {unit.name}")
        # What cannot be retuned stays as it is.
        skipped = {one.id: one.old or Provenance() for one in self.plan.left if one.id and one.unit.spec == unit.home}
        more = {(file.path, e.id): skipped[e.id] for file, e in unit.entries if e.id in skipped}
        try:
            self.written.append(self.writer.write(replace(staying, kept={**staying.kept, **more})))
        except (OtherCodeError, *_UNWRITTEN) as error:
            account.note(f"{unit.name} is not written: {error}")
            if isinstance(error, OtherCodeError):
                self._fail(unit, error)

    def _fail(self, unit: Unit, error: OtherCodeError) -> None:
        """What would have stayed of a unit is not written: the old files are."""
        own = {unit.path, *(unit.shown(one.path) for one in unit.files)}
        self.rows = [
            replace(row, state="failed", reason=f"it is not written: {error.message}")
            if row.spec in own and row.state in ("kept", "replaced")
            else row
            for row in self.rows
        ]
