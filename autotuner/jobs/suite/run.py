"""A suite's run: time the defaults, weigh the problems, tune those that matter, merge what won."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from autotuner.carriers.outputs import Outputs, files_in
from autotuner.devices.device import Timing
from autotuner.errors import AutotuneError, OutOfTimeError, StorageError, UsageError
from autotuner.jobs.suite import LEAST_SECONDS, THRESHOLD
from autotuner.jobs.suite.defaults import DefaultTimer
from autotuner.jobs.suite.result import Group, Shipper, SuiteDetails, SuiteResult, shared, suite_result
from autotuner.jobs.suite.rows import COLUMNS, FINAL, OUR_TABLE, RAW, Row, Uplift, shares
from autotuner.jobs.suite.workload import Workload
from autotuner.space.table import Config
from autotuner.specfiles.flagfile import objection
from autotuner.store.rows import CandidateRow
from autotuner.system import process
from autotuner.system.digests import read_by_flags
from autotuner.system.files import claim, write_whole
from autotuner.system.text import count, csv_text
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import Result, read_result
from autotuner.tuning.run import Job, Question, Run, Turn
from autotuner.tuning.session import Watched
from autotuner.tuning.tune import search

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
    with Job.open(target, options, watched, otherwise=math.inf) as job:
        return go_through(chosen, job, wanted)


def go_through(
    chosen: Workload,
    job: Job,
    wanted: Selection,
    way: Callable[[Workload, float, Run, Path, Outputs], SuiteRun] | None = None,
) -> SuiteResult:
    """One run over these problems; `way` is another than to tune each here."""
    target, session, outputs = job.target, job.session, job.outputs(chosen.name)
    outputs.claim(files_in(target.user_flags))
    folder = session.workspace.results / "suites" / f"{chosen.name}-{target.name}"
    for name in (RAW, FINAL):
        claim(folder / name, OUR_TABLE, force=job.options.force)
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
    with job.begin(question) as run:
        return (way or SuiteRun)(chosen, wanted.threshold, run, folder, outputs).go()


@dataclass
class SuiteRun:
    """One run's state, and its steps in order."""

    workload: Workload
    threshold: float
    run: Run
    folder: Path
    files: Outputs
    groups: list[Group] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    """Rows of the suite's own in the database, one a problem: how long IREE's default takes, or how it failed."""

    def __post_init__(self) -> None:
        self.target, self.options, self.session = self.run.target, self.run.options, self.run.session
        self.rows = {entry.problem.name: Row(entry) for entry in self.workload.entries}

    @property
    def waiting(self) -> list[Row]:
        return [row for row in self.rows.values() if row.verdict == "waiting"]

    def go(self) -> SuiteResult:
        environment = self._environment()
        write_whole(self.folder / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
        if self.run.earlier is not None:
            self._recall(self.run.earlier)
        if self.run.timed:
            self.time_defaults()
        self.weigh()
        self._tune()
        if self.run.timed:
            self._share()
        if not self.run.stopped:
            self._ship()
        self._write()
        result = self.result(environment)
        self.run.finish(result)
        return result

    def _recall(self, earlier: Sequence[CandidateRow]) -> None:
        """Takes over timed defaults and finished problems; others are tried again."""
        store, root = self.session.store, self.session.workspace.root
        for own in earlier:
            name = str(own.config.as_dict().get("problem", ""))
            if own.kind == "default" and name in self.rows and own.us is not None:
                self._set(name, default_us=own.us)
        with store.intact():
            for part in store.parts(self.run.id):
                row = self.rows.get(str(part.problem["name"]))
                if row is not None and part.status == "finished" and part.result is not None:
                    result = read_result(part.result, workspace=root, storage=self.options.storage)
                    self.rows[row.name] = self._vetted(row.ended(result, store=store))
        left = len(self.waiting)
        self._note(f"going on with run {self.run.id}: {len(self.rows) - left} problems are finished, {left} are left")

    def _vetted(self, row: Row) -> Row:
        """A database may come from anybody, and these flags go into a compile."""
        if objection([flag for flag in row.flags if flag not in self.target.user_flags]):
            raise StorageError(
                f"{self.session.store.name} holds flags for {row.name} that autotune does not write.",
                remedy="Run without --resume to start anew.",
            )
        return row

    # --- weighing -----------------------------------------------------------------------------------------------

    def time_defaults(self) -> None:
        """Largest first by flops, so that the problems left out are small."""
        store = self.session.store
        todo = sorted((row for row in self.waiting if row.default_us is None), key=_work, reverse=True)
        if not todo:
            return
        self.session.reporter.stage(f"timing IREE's default of {len(todo)} problems")
        timer = DefaultTimer(self.target, self.session, self.options.effort, self.options.seed)
        with process.until(self.run.clock.phase("defaults")), suppress(OutOfTimeError):
            for problem, default in timer.time([row.entry.problem for row in todo]):
                if isinstance(default, AutotuneError):
                    self._fail(problem.name, default)
                else:
                    self._set(problem.name, default_us=default)
                    store.record_timing(self._own(problem.name), Timing((default,)), phase="screen", block=0)
        for row in self.waiting if not self.run.stopped else ():
            if row.default_us is None:
                self._set(row.name, verdict="left-out", reason="--budget was used up before its default was timed")

    def weigh(self) -> None:
        """Shares of the time, or of the work where nothing is timed; what is below the threshold is not tuned."""
        weights = self._share()
        unknown = weights.count(0.0)
        if unknown and not self.run.stopped:
            self.run.account.remark(f"shares leave out {count(unknown, 'problem')} whose default could not be timed")
        for row in self.waiting:
            if row.share is not None and row.share < self.threshold:
                reason = f"contributes {row.share:.3g} %, less than --threshold {self.threshold:g}"
                self._set(row.name, verdict="below-threshold", reason=reason)
        self._write()
        if not self.run.timed:
            self.run.account.remark("nothing is timed: shares are by calls and flops, an estimate")

    def _share(self) -> list[float]:
        """By the time as it is known by now, so that tables and totals have one basis; gives all weights."""
        weights = [row.us if self.run.timed else float(_work(row)) for row in self.rows.values()]
        for name, weight, share in zip([*self.rows], weights, shares(weights), strict=True):
            self._set(name, share=share if weight else None)
        return weights

    # --- tuning -------------------------------------------------------------------------------------------------

    def _tune(self) -> None:
        """The largest share first; time that one leaves goes to the others."""
        queue = sorted(self.waiting, key=_share, reverse=True)
        ends = self.run.clock.phase("parts")
        parts = self.run.parts(
            queue, self.tune_one, name=lambda row: row.name, share=_share, before=ends, least=LEAST_SECONDS
        )
        for row, part_result in parts:
            if isinstance(part_result, AutotuneError):
                self._fail(row.name, part_result)
                self.run.account.remark(f"{row.name} failed: {part_result}")
            elif part_result is not None:
                self.rows[row.name] = row.ended(part_result, store=self.session.store)
            elif not self.run.stopped:
                self._set(row.name, verdict="left-out", reason="--budget was used up before its turn")
            self._write()
        left_out = [row for row in self.rows.values() if row.verdict == "left-out"]
        if left_out:
            words = f"{count(len(left_out), 'problem')} ({shared(left_out)})"
            self._note(f"--budget leaves out {words}: give a longer one to tune all")

    def tune_one(self, turn: Turn[Row]) -> Result:
        problem = self.target.prepare(turn.what.entry.problem)
        return search(problem, self.target, options=turn.options, session=turn.session).result

    # --- the end ------------------------------------------------------------------------------------------------

    def _ship(self) -> None:
        kept = [row for row in self.rows.values() if row.kept]
        if not kept:
            return
        self.session.reporter.stage(f"merging {count(len(kept), 'winner')}, and compiling each with the merged files")
        made_by = [f"suite:      {self.workload.name}", f"made by:    {shlex.join(self.options.command)}"]
        self.groups = Shipper(self.run, self.files, made_by).ship(kept)
        for group in self.groups:
            for name, reason in group.lost.items():
                own = self.rows[name].listed()["spec"]
                self.run.account.remark(f"{name} is not in the merged spec: {reason}; its own file is {own}")
        if len(self.groups) > 1:
            self.run.account.remark(
                f"the winners need {len(self.groups)} sets of flags: a compile can have one of them"
            )

    def _set(self, name: str, **fields: Any) -> None:
        self.rows[name] = replace(self.rows[name], **fields)

    def _own(self, name: str) -> int:
        if name not in self.ids:
            self.ids[name] = self.run.candidate("default", "", Config.of({"problem": name}))
        return self.ids[name]

    def _fail(self, name: str, error: AutotuneError) -> None:
        """Recorded in the suite's own row: it may have failed before its own run began."""
        self.rows[name] = self.rows[name].failed(error)
        self.session.store.record_failure(self._own(name), "failed", stderr=str(error))

    def _all_rows(self) -> list[Row]:
        """By share, and after them what this target refuses."""
        rows = sorted(self.rows.values(), key=lambda row: row.share or 0.0, reverse=True)
        refused = [s for s in self.workload.skipped if s.entry is not None]
        return rows + [Row(s.entry, "skipped", s.reason) for s in refused if s.entry]

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

    def result(self, environment: dict[str, Any]) -> SuiteResult:
        rows = self._all_rows()
        timed = any(row.us for row in rows)
        details = SuiteDetails(
            workload=self.workload,
            rows=tuple(rows),
            uplift=Uplift.of(rows, problems=len(self.rows), us_total=sum(row.us for row in rows) if timed else None),
            groups=tuple(self.groups),
            estimate=not self.run.timed,
            folder=self.folder,
        )
        return suite_result(self.run, details, environment=environment)

    def _note(self, text: str) -> None:
        self.run.account.note(text)


def _work(row: Row) -> int:
    return row.entry.calls * row.entry.problem.flops


def _share(row: Row) -> float:
    return row.share or 0.0
