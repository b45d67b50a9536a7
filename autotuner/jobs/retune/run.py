"""Retuning: every entry is proven, raced and, if it lost, searched again; what stays is written to new files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Unpack

from autotuner.carriers.provenance import Provenance
from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError, UsageError
from autotuner.iree.compile import shell_line
from autotuner.jobs.opening import compile_timeout
from autotuner.jobs.retune.plan import Part, Plan, Wanted, read_plan
from autotuner.jobs.retune.races import Races, Searched, decide, standing
from autotuner.jobs.retune.result import EntryRow, Raced, RetuneDetails, RetuneResult, Written, retune_result
from autotuner.jobs.retune.ship import OtherCodeError, Writer
from autotuner.jobs.retune.unit import Key, Proof, Prover, Unit
from autotuner.specfiles.provenance import line_of
from autotuner.system import process
from autotuner.targets import NO_DEVICE
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Question, Run, Turn
from autotuner.tuning.session import Watched


def retune(wanted: Wanted, *, options: Options | None = None, **watched: Unpack[Watched]) -> RetuneResult:
    """Proves and races every entry with this IREE, and writes those that stay."""
    options = options or Options()
    plan = read_plan(wanted, options)
    with Job.open(plan.target, options, watched, otherwise=plan.seconds) as job:
        if job.session.emulated:
            remedy = "Prove entries with --device none, or run it where a device is."
            raise UsageError("retune races entries, and this device is emulated.", remedy=remedy)
        name = wanted.path.resolve().stem
        question = Question(
            kind="retune",
            problem={"op": "retune", "name": name, "flops": 0, "bytes": 0},
            target=plan.target,
            asks={"retune": str(wanted.path.resolve()), "model": str(wanted.model.path) if wanted.model else ""},
            reads=(*job.session.tools.programs, *plan.reads),
            recalls=True,
        )
        with job.begin(question) as run:
            return _RetuneRun(wanted, plan, run).go()


@dataclass
class _RetuneRun:
    """One run's steps in order."""

    wanted: Wanted
    plan: Plan
    run: Run
    rows: list[EntryRow] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    raced: list[tuple[Part, str]] = field(default_factory=list)
    """The entries that stay, with the code that was raced."""

    def __post_init__(self) -> None:
        self.races = Races(self.run, self.wanted.trust)
        self.writer = Writer(self.run, self.wanted)

    def go(self) -> RetuneResult:
        run, plan = self.run, self.plan
        writes = run.timed or run.options.output is not None
        if writes:
            self.writer.claim(plan.units)
        run.tell_resumed("part")
        self.rows += plan.left if not run.stopped else ()
        for part, part_result in run.parts(plan.parts, self._part, name=lambda part: part.name):
            if isinstance(part_result, AutotuneError):
                why = f"it cannot be proven: {part_result.message}"
                self.rows += [part.row(key, "skipped", why) for key in part.entries]
            elif part_result is not None:
                self.rows += part_result
            elif not run.stopped:
                self.rows += [part.row(key, "skipped", "ran out of time before its turn") for key in part.entries]
        if writes and not run.stopped:
            with process.however_late():  # nothing is timed any more
                for unit in plan.units:
                    self._write(unit)
        result = retune_result(run, RetuneDetails(tuple(self.rows), tuple(self.written)))
        run.finish(result)
        return result

    # --- one part -------------------------------------------------------------------------------------------------

    def _part(self, turn: Turn[Part]) -> list[EntryRow]:
        """Proven, raced, and searched again."""
        part = turn.what
        turn.session.reporter.stage(f"proving {part.unit.spec.name}")
        proofs = self._proven(part)
        # A model goes on without what no longer applies; a single problem has nothing else.
        lost = [proof.lost for proof in proofs.values() if proof.lost]
        gone = lost[0] if lost and (part.problem is not None or len(lost) == len(proofs)) else ""
        raced, searched = self._timed(turn, gone)
        state, reason = decide(lost=gone, raced=raced, searched=searched)
        if state == "kept" and raced and raced.binary:
            self.raced.append((part, raced.binary))
        if searched is not None and searched.found is not None:
            self.written.append(Written(part.unit.spec, searched.found))
        rows = []
        for key, proof in proofs.items():
            if state == "kept" and proof.lost:
                rows.append(part.row(key, "dropped", proof.lost, raced=raced))
            else:
                said = self._provenance(part.entries[key].provenance, raced, part) if state == "kept" else None
                rows.append(part.row(key, state, reason, applied=proof.applied, raced=raced, said=said))
        return rows

    def _proven(self, part: Part) -> dict[Key, Proof]:
        run = self.run
        with run.account.clocked("build"):
            program, own = part.program(run.session, run.target)
            timeout = compile_timeout(run.options, run.clock)
            return Prover(part.unit, program, own, run.target, run.session.tools, timeout).prove(part.entries)

    def _timed(self, turn: Turn[Part], gone: str) -> tuple[Raced | None, Searched | None]:
        """The race, and the search where one is worth it."""
        run, part = self.run, turn.what
        if not run.timed:
            return None, None
        if not gone and run.clock.up:
            return Raced("inconclusive", "ran out of time before it was raced"), None
        raced = None if gone else self.races.against_default(turn)
        works, _ = standing(lost=gone, raced=raced)
        if works or run.stopped:
            return raced, None
        # What is found anew has files of its own, unless nothing else is in the old ones.
        name = part.name if len(part.entries) < len(part.unit.entries) else ""
        return raced, self.races.search(turn, output=self.writer.place(part.unit, name).spec)

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
            earlier=line_of(old) if old else "",
        ).stamped(run.session.tools, figures.speedup if figures else None, run.environment if run.timed else None)

    # --- what stays -----------------------------------------------------------------------------------------------

    def _write(self, unit: Unit) -> None:
        run, account = self.run, self.run.account
        own = [row for row in self.rows if row.spec in unit.files]
        kept = [row for row in own if row.state == "kept"]
        if not kept:
            return
        if run.timed and run.clock.up and not any(row.raced and row.raced.verdict == "win" for row in kept):
            account.note(f"{unit.name} is not written: ran out of time; the old files stay")
            return
        account.stage(f"writing {unit.name}")
        raced = {part.name: (part, binary) for part, binary in self.raced if part.unit is unit}
        said = {(row.spec, row.id): row.said for row in own if row.said is not None}
        try:
            self.written.append(self.writer.write(unit, said, raced))
        except (OtherCodeError, UsageError, NoCandidateError, OutOfTimeError) as error:
            account.note(f"{unit.name} is not written: {error}")
            if isinstance(error, OtherCodeError):
                reason = f"it is not written: {error.message}"
                self.rows = [replace(row, state="failed", reason=reason) if row in kept else row for row in self.rows]
