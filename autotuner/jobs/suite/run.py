"""A suite's run: time the defaults, weigh the problems, tune those that matter, merge what won."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from autotuner.carriers.outputs import Outputs, files_in
from autotuner.errors import AutotuneError, OutOfTimeError, StorageError, UsageError
from autotuner.jobs.suite import LEAST_SECONDS, THRESHOLD
from autotuner.jobs.suite.defaults import DefaultTimer
from autotuner.jobs.suite.result import Group, Shipper, SuiteDetails, SuiteResult, suite_result
from autotuner.jobs.suite.rows import (
    COLUMNS,
    FINAL,
    OUR_TABLE,
    RAW,
    TUNED,
    ProblemRows,
    Row,
    Uplift,
    failure,
    outcome,
    shares,
)
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.measure.check import too_large
from autotuner.measure.schedule import share_of
from autotuner.system import process
from autotuner.system.digests import read_by_flags
from autotuner.system.files import claim, write_whole
from autotuner.system.progress import LATE_SECONDS, Clock
from autotuner.system.text import count, csv_text, percent
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import Result
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.tune import search

_DEFAULTS_SHARE = 0.5
"""Of the budget, at most, for timing the defaults."""
_SHIPPING = 0.1
"""Of the budget, for merging the winners and compiling each with what ships."""
_ANOTHER_TARGET = "Try another --target."
ENVIRONMENT = "environment.json"


@dataclass(frozen=True)
class Selection:
    """What a user asks: a workload, and how much of it."""

    workload: Workload
    threshold: float = THRESHOLD
    """Per cent of the time, below which a problem is not tuned."""
    sample: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 100:
            raise UsageError(f"--threshold {self.threshold:g} is not a percentage.", remedy="Give 0 to 100.")
        if self.sample is not None and self.sample < 1:
            raise UsageError(f"--sample {self.sample} is not positive.", remedy="Give --sample 1 or more.")

    def on(self, target: Target, *, seed: int) -> Workload:
        """The problems that this target can tune, as many as are wanted."""
        chosen = self.workload.for_target(target).sample(self.sample, seed=seed)
        if not chosen.entries:
            first, name = chosen.skipped[0] if chosen.skipped else "it is empty", self.workload.name
            raise UsageError(f"{target.name} can tune no problem of {name} (first: {first}).", remedy=_ANOTHER_TARGET)
        return chosen


def tune_suite(
    wanted: Selection,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> SuiteResult:
    """Tunes what matters of a workload.

    `options.budget` is for all of it, `options.trials` for each problem, and `options.output` is where the merged spec
    goes. Results lie in `results/suites/<name>-<target>` of the workspace.
    """
    options = options or Options()
    chosen = wanted.on(target, seed=options.seed)
    with Session.open(target, options, **watched) as session:
        # The merged spec; where winners need several sets of flags, further files have a number.
        merged = options.output or session.workspace.specs / f"{chosen.name}-{target.name}.mlir"
        outputs = Outputs.at(merged, session.workspace, force=options.force)
        outputs.claim(files_in(target.user_flags))
        folder = session.workspace.results / "suites" / f"{chosen.name}-{target.name}"
        for name in (RAW, FINAL):
            claim(folder / name, OUR_TABLE, force=options.force)
        question = Question(
            kind="suite",
            problem=chosen.describe(),
            target=target,
            asks={"suite": chosen.name},
            reads=(
                *(chosen.sha256, str(wanted.sample), *session.tools.programs),
                *read_by_flags(target.user_flags, folder=folder),
            ),
            recalls=True,
        )
        account = Account(session.reporter, Clock(options.budget or float("inf"), session.began))
        with Run.begin(question, session=session, options=options, account=account) as run:
            return _SuiteRun(chosen, wanted.threshold, run, folder, outputs).go()


@dataclass
class _SuiteRun:
    """One run's state, and its steps in order."""

    workload: Workload
    threshold: float
    run: Run
    folder: Path
    files: Outputs
    groups: list[Group] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target, self.options, self.session = self.run.target, self.run.options, self.run.session
        self.clock, self.timed = self.run.clock, self.run.timed
        self.builder, self.own = self.session.builder, ProblemRows.of(self.run)
        self.entries = {entry.problem.name: entry for entry in self.workload.entries}
        self.rows = {name: Row.of(entry) for name, entry in self.entries.items()}
        self.defaults = {name: us for name, us in self.own.defaults.items() if name in self.rows}
        known, self.begun = self.own.recall(self.rows)
        self.rows |= known
        self.rows |= {name: replace(self.rows[name], interrupted=True) for name in self.begun}

    def go(self) -> SuiteResult:
        environment = self._environment()
        write_whole(self.folder / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
        if self.timed:
            self._time_defaults()
        self._weigh()
        self._tune([name for name, row in self.rows.items() if row.verdict == "waiting"])
        if not self.run.stopped:
            self._ship()
        self._write()
        result = self._result(environment)
        self.run.finish(result)
        return result

    # --- weighing -----------------------------------------------------------------------------------------------

    def _time_defaults(self) -> None:
        """Largest first by flops: when the time does not suffice, what is left out is small."""
        known = self.defaults
        waiting = [name for name, row in self.rows.items() if row.verdict == "waiting"]
        todo = [self.entries[name] for name in waiting if name not in known]
        todo.sort(key=_work, reverse=True)
        if not todo:
            return
        self.session.reporter.stage(f"timing IREE's default of {len(todo)} problems")
        limit = self.clock.budget * _DEFAULTS_SHARE
        timer = DefaultTimer(self.target, self.session, self.options.effort, self.options.seed)
        problems = [entry.problem for entry in todo]

        def should_stop() -> bool:
            return self.run.stopped or self.clock.elapsed > limit

        with process.until(self.clock.at(limit + LATE_SECONDS)), suppress(OutOfTimeError):
            for problem, default in timer.time(problems, should_stop=should_stop):
                if isinstance(default, AutotuneError):
                    self._fail(problem.name, default)
                else:
                    known[problem.name] = default
                    self.own.time(problem.name, default)
        for name in waiting:
            if name not in known and self.rows[name].verdict == "waiting" and not self.run.stopped:
                self._set(name, verdict="left-out", reason="--budget was used up before its default was timed")

    def _weigh(self) -> None:
        """Shares of the time, or of the work where nothing is timed; what is below the threshold is not tuned."""
        for name, row in self.rows.items():
            us = self.defaults.get(name)
            self.rows[name] = replace(row, default_us=us, reference_us=row.reference_us or us)
        weights = {
            name: row.calls * row.default_us if row.default_us is not None else 0.0 for name, row in self.rows.items()
        }
        if not self.timed:
            weights = {name: float(_work(entry)) for name, entry in self.entries.items()}
        unknown = sum(weight == 0 for weight in weights.values())
        if unknown and not self.run.stopped:
            self._note(f"shares leave out {count(unknown, 'problem')} whose default could not be timed")
        for name, share in zip(weights, shares(list(weights.values())), strict=True):
            row = self.rows[name] = replace(self.rows[name], share=share if weights[name] else None)
            if row.verdict == "waiting" and weights[name] and share < self.threshold:
                reason = f"contributes {share:.3g} %, less than --threshold {self.threshold:g}"
                self._set(name, verdict="below-threshold", reason=reason)
        self._write()
        if not self.timed:
            self._note("no device: shares are by calls and flops, an estimate")

    # --- tuning -------------------------------------------------------------------------------------------------

    def _tune(self, names: Sequence[str]) -> None:
        """The largest share first; what one leaves of its time the others have, be it those that had none before."""
        queue = sorted(names, key=lambda name: self.rows[name].share or 0.0, reverse=True)
        if self.run.earlier is not None:
            finished = sum(row.verdict in TUNED for row in self.rows.values())
            self._note(f"going on with run {self.run.id}: {finished} problems are finished, {len(queue)} are left")
        places = {name: f"{number}/{len(queue)} {name}: " for number, name in enumerate(queue, 1)}
        while queue and not self.run.stopped:
            seconds = self._seconds(queue, first=len(queue) == len(places))
            if seconds == 0.0:
                break
            name = queue.pop(0)
            self._tune_one(name, seconds, prefix=places[name])
        for name in queue if not self.run.stopped else ():
            self._set(name, verdict="left-out", reason=f"--budget leaves less than {LEAST_SECONDS:.0f} s for it")
        left_out = [row for row in self.rows.values() if row.verdict == "left-out"]
        if left_out:
            known = [row.share for row in left_out if row.share is not None]
            share = f"{percent(sum(known) / 100)} of the time" if known else "their share is not known"
            self._note(
                f"--budget leaves out {count(len(left_out), 'problem')} ({share}): give a longer one to tune all"
            )

    def _seconds(self, queue: Sequence[str], *, first: bool) -> float | None:
        """For the next; the first has what there is, be it ever so little. None where the user has set no limit."""
        budget = self.options.budget
        if budget is None:
            return None
        left = max(self.clock.left - _SHIPPING * budget, 0.0)
        least = min(LEAST_SECONDS, left) if first else LEAST_SECONDS
        return share_of(left, [self.rows[name].share or 0.0 for name in queue], least=least)

    def _tune_one(self, name: str, budget: float | None, *, prefix: str) -> None:
        problem, session = self.entries[name].problem, self.run.within(prefix)
        options = replace(self.options, budget=budget, output=None, resume=name in self.begun)
        try:
            found = search(self.target.prepare(problem), self.target, options=options, session=session)
            self._ended(name, found.result)
        except StorageError:
            raise
        except AutotuneError as error:
            self._ended(name, error)
        except MemoryError:
            self._ended(name, too_large(problem))

    def _ended(self, name: str, came_to: Result | AutotuneError) -> None:
        if isinstance(came_to, Result):
            self._set(name, **outcome(came_to, store=self.session.store))
        else:
            self._fail(name, came_to)
            self._note(f"{name} failed: {came_to}")
        self._write()

    # --- the end ------------------------------------------------------------------------------------------------

    def _ship(self) -> None:
        kept = [row for row in self.rows.values() if row.kept]
        if not kept:
            return
        self.session.reporter.stage(f"merging {count(len(kept), 'winner')}, and compiling each with the merged files")
        problems = {name: entry.problem for name, entry in self.entries.items()}
        made_by = [f"suite:      {self.workload.name}", f"made by:    {shlex.join(self.options.command)}"]
        self.groups = Shipper(self.run, problems, self.files, made_by).ship(kept)
        for group in self.groups:
            for problem, reason in group.lost.items():
                self._note(f"{problem} is not in the merged spec: {reason}; its own file is {self.rows[problem].spec}")
        if len(self.groups) > 1:
            self._note(f"the winners need {len(self.groups)} sets of flags: a compile can have one of them")

    def _set(self, name: str, **fields: Any) -> None:
        self.rows[name] = replace(self.rows[name], **fields)

    def _fail(self, name: str, error: AutotuneError) -> None:
        self._set(name, **failure(str(error), error.exit_code))
        self.own.fail(name, error)

    def _all_rows(self) -> list[Row]:
        """By share, and after them what this target refuses."""
        rows = sorted(self.rows.values(), key=lambda row: row.share or 0.0, reverse=True)
        refused = [s for s in self.workload.skipped if s.entry is not None]
        return rows + [replace(Row.of(s.entry), verdict="skipped", reason=s.reason) for s in refused if s.entry]

    def _write(self) -> None:
        """Rows are written down as soon as they are known."""
        rows = self._all_rows()
        for name, some in ((RAW, rows), (FINAL, [row for row in rows if row.kept])):
            write_whole(self.folder / name, csv_text(COLUMNS, map(Row.listed, some)), OUR_TABLE, force=self.files.force)

    def _environment(self) -> dict[str, Any]:
        return {
            **self.run.environment,
            "flags": list(self.target.compile_flags),
            "command": list(self.options.command),
            "input": self.workload.source,
            "input_sha256": self.workload.sha256,
        }

    def _result(self, environment: dict[str, Any]) -> SuiteResult:
        rows = self._all_rows()
        times = [row.calls * row.default_us for row in rows if row.default_us is not None]
        details = SuiteDetails(
            workload=self.workload,
            rows=tuple(rows),
            uplift=Uplift.of(rows, problems=len(self.rows), us_total=sum(times) if times else None),
            groups=tuple(self.groups),
            estimate=not self.timed,
            folder=self.folder,
        )
        return suite_result(self.run, details, environment=environment)

    def _note(self, text: str) -> None:
        self.run.account.note(text)


def _work(entry: Entry) -> int:
    return entry.calls * entry.problem.flops
