"""`autotune bench`: the same problems on IREE and on other libraries; a run, with one below it for each problem."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from autotuner.devices.sampling import open_throttle
from autotuner.errors import AutotuneError, OutOfTimeError, StorageError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.bench.backends import IREE, TUNED
from autotuner.jobs.bench.budget import share_of, short_of, unreached
from autotuner.jobs.bench.building import Built, Given, ProblemGiven, Site
from autotuner.jobs.bench.opening import Libraries, Terms
from autotuner.jobs.bench.problem import ProblemBench
from autotuner.jobs.bench.result import OUR_TABLE, BenchResult, ProblemRows, to_csv
from autotuner.jobs.bench.tuned import tuned_arm
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.measure.check import too_large
from autotuner.problems import Problem
from autotuner.store.rows import Json, RunKind
from autotuner.system import process
from autotuner.system.digests import path_digest, read_by_flags
from autotuner.system.execution import local_executor
from autotuner.system.files import write_whole
from autotuner.system.progress import Clock
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session, Watched

_CHECKERS = 4
"""Results that are compared at once, where that takes no core from what is timed."""


def question(
    problem: Json, terms: Terms, target: Target, options: Options, session: Session, *, reads: Sequence[str] = ()
) -> Question:
    """What a comparison asks; it reads the programs, what flags and --spec name, and what else is named."""
    asks = {**problem, "bench": list(terms.chosen.names), "blocks": terms.blocks, "cold": options.cache != "warm"}
    files = read_by_flags(target.user_flags, folder=session.workspace.candidates)
    given = map(path_digest, terms.arm.reads if terms.arm is not None else ())
    return Question("bench", problem, target, asks=asks, reads=(*session.tools.programs, *files, *given, *reads))


def read_of(libraries: Libraries, tuned: Arm | str) -> tuple[str, ...]:
    """What the times of one problem depend on beside: the libraries, and what `tuned` is."""
    spec = [tuned] if isinstance(tuned, str) else [path_digest(path) for path in tuned.reads]
    return (*(f"{name} {library.version}" for name, library in libraries.there.items()), *spec)


def bench(
    workload: Workload,
    terms: Terms,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> BenchResult:
    """Times a problem, or all of a workload, on the backends that a user wants."""
    options = options or Options()
    entries = workload.entries
    with ExitStack() as stack:
        session = stack.enter_context(Session.open(target, options, **watched))
        clock = Clock(options.budget or math.inf, session.began)
        stack.enter_context(process.until(clock.latest))
        account = Account(session.reporter, clock)
        libraries = stack.enter_context(Libraries.open(terms.chosen, target, options, session))
        for missing in libraries.left_out:
            account.note(str(missing))
        one = entries[0].problem if len(entries) == 1 else None
        described = one.describe() if one is not None else workload.describe()
        reads = read_of(libraries, last_tuned(one.name, terms, target, session)) if one is not None else ()
        asked = question(described, terms, target, options, session, reads=reads)
        with Run.begin(replace(asked, recalls=True), session=session, options=options, account=account) as run:
            return _BenchRun(workload, terms, run, libraries).go()


def last_tuned(
    name: str, terms: Terms, target: Target, session: Session, *, kinds: Sequence[RunKind] = ("single", "ab")
) -> Arm | str:
    """What `tuned` is for a problem or a model; or why there is nothing, in words."""
    if TUNED not in terms.chosen.names:
        return "it is not asked for"
    return tuned_arm(terms.arm, name, session.store.runs_of(name, kinds=kinds), target)


def known_rows(document: Json, session: Session) -> ProblemRows | None:
    """What a finished comparison of one problem or model has come to, where nothing is missing."""
    with session.store.intact():
        found = [ProblemRows.from_json(one) for one in document.get("problems") or ()]
    return found[0] if found and found[0].whole and not document.get("interrupted") else None


def say_again(rows: ProblemRows, account: Account) -> None:
    """Of a comparison of one problem that is recalled: that it is, and its own notes."""
    account.stage("this is timed already")
    for note in rows.notes:
        account.note(note)


@dataclass
class _Ahead:
    """What is made of a problem before its turn."""

    problem: Problem
    site: Site
    builds: dict[str, Future[Built] | str]
    given: Future[Given] | None = None


@dataclass
class _BenchRun:
    """All problems, one after the other; what runs beside a GPU is compiled and computed ahead."""

    workload: Workload
    terms: Terms
    run: Run
    libraries: Libraries
    rows: dict[int, ProblemRows] = field(default_factory=dict)
    """By the place of the problem in the workload."""

    def __post_init__(self) -> None:
        self.target, self.session, self.options = self.run.target, self.run.session, self.run.options
        self.entries = self.workload.entries
        self.on_host = self.target.backend.on_host
        self.throttle = open_throttle(self.session.device)
        self._open = [*range(len(self.entries))]

    def go(self) -> BenchResult:
        with ExitStack() as stack:
            beside = None if self.on_host else stack.enter_context(local_executor(_CHECKERS))
            folder = stack.enter_context(self.session.builder.cache.scratch())
            ahead: dict[int, _Ahead] = {}
            self._recall()
            self._warn_of_short_time()
            for number in tuple(self._open):
                if self.run.stopped or self.run.clock.left <= 0:
                    break
                try:
                    self._look_ahead(number, ahead, folder, beside)
                    if self._one(number, ahead.pop(number), beside):
                        self._open.remove(number)
                except OutOfTimeError:
                    break
                if self._open:
                    self._keep()
                shutil.rmtree(folder / str(number), ignore_errors=True)
        missing, problems = len(self._open), len(self.entries)
        if missing and self.run.stopped:
            left = f"{missing} of {count(problems, 'problem')} were not reached"
            self.run.account.note(f"it was stopped: {left}; the same command with --resume goes on")
        elif said := unreached(self.run.clock, problems - missing, problems):
            self.run.account.note(said)
        return concluded(self.run, self._so_far())

    def _recall(self) -> None:
        """With --resume, what this comparison has timed to the end is not timed again."""
        session, several = self.session, len(self.entries) > 1
        known = {0: self.run.known}
        if several and self.run.earlier is not None:
            keys = [self._asked(entry, session).row(session, self.options).key for entry in self.entries]
            done = {
                part.key: part.result or {} for part in session.store.parts(self.run.id) if part.status == "finished"
            }
            known = {number: done.get(key, {}) for number, key in enumerate(keys)}
        found = {number: known_rows(document, session) for number, document in known.items()}
        self.rows = {number: rows for number, rows in found.items() if rows is not None}
        self._open = [number for number in self._open if number not in self.rows]
        if self.rows and several:
            self.run.account.stage(f"{count(len(self.rows), 'problem')} of {len(self.entries)} are timed already")
        elif self.rows:
            say_again(self.rows[0], self.run.account)
        self._keep()

    def _asked(self, entry: Entry, session: Session) -> Question:
        """What is asked of one of several problems."""
        reads = read_of(self.libraries, last_tuned(entry.problem.name, self.terms, self.target, session))
        return question(entry.problem.describe(), self.terms, self.target, self.options, session, reads=reads)

    def _warn_of_short_time(self) -> None:
        missing, backends = len(self._open), self.libraries.timed_of(self.terms.chosen)
        short = short_of(self.run.clock, missing, backends, lasting=self.options.effort.repetition_seconds)
        if missing and short:
            self.run.account.note(short)

    def _so_far(self) -> BenchResult:
        terms, names = self.terms, tuple(self.entries[number].problem.name for number in self._open)
        left_out = self.libraries.left_out
        rows = tuple(self.rows[number] for number in sorted(self.rows))
        return BenchResult(self.run.facts(), rows, left_out, terms.blocks, terms.csv, not_reached=names)

    def _keep(self) -> None:
        """What is there if nothing follows: a kill ends the command, not what was measured."""
        if not self.rows:
            return
        result = self._so_far()
        self.run.session.store.keep_so_far(self.run.id, result.to_json())
        write_table(result, force=self.run.options.force)

    def _look_ahead(self, number: int, ahead: dict[int, _Ahead], folder: Path, beside: Executor | None) -> None:
        """On a processor this problem alone; else all are compiled at once, and the next one's answer is computed."""
        wanted = [number] if self.on_host else self._open
        with process.behind_timings():
            for one in wanted:
                if one not in ahead:
                    ahead[one] = self._start(one, folder / str(one))
        following = [one for one in self._open if one > number][:1]
        for one in (number, *(() if beside is None else following)):
            if one in ahead and ahead[one].given is None:
                ahead[one].given = self._given(ahead[one], beside)

    def _start(self, number: int, folder: Path) -> _Ahead:
        problem = self.target.prepare(self.entries[number].problem)
        timeout = self.options.effort.compile_timeout
        site = Site.of(problem, self.target, self.session, timeout=timeout, folder=folder)
        builds = start_builds(site, self.terms, last_tuned(problem.name, self.terms, self.target, self.session))
        return _Ahead(problem, site, builds)

    def _given(self, ahead: _Ahead, beside: Executor | None) -> Future[Given]:
        def make() -> Given:
            return ProblemGiven.make(ahead.problem, ahead.site.folder / "inputs", seed=self.options.seed)

        return beside.submit(make) if beside is not None else at_once(make)

    def _one(self, number: int, ahead: _Ahead, beside: Executor | None) -> bool:
        """One problem; what goes wrong with it is its own end. Whether it was reached."""
        entry = self.entries[number]
        if len(self.entries) == 1:
            return self._add(number, self._bench(self.run, entry, ahead, beside))
        session = self.run.within(f"{number + 1}/{len(self.entries)} {entry.problem.name}: ")
        asked = self._asked(entry, session)
        whole = self.run.clock
        left = whole.budget - (session.began - whole.started)
        account = Account(session.reporter, Clock(left, session.began, part=True))
        try:
            with Run.begin(asked, session=session, options=self.options, account=account) as part:
                found = self._bench(part, entry, ahead, beside)
                rows = () if found is None else (found,)
                part.finish(BenchResult(part.facts(), rows, blocks=self.terms.blocks))
            if found is not None:
                session.reporter.stage(found.line())
            return self._add(number, found)
        except (StorageError, OutOfTimeError):
            raise
        except AutotuneError as error:
            self.run.account.note(f"{entry.problem.name} failed: {error}")
            return True
        finally:
            self.run.account.add(account.seconds)

    def _add(self, number: int, found: ProblemRows | None) -> bool:
        if found is not None:
            self.rows[number] = found
        return found is not None

    def _bench(self, run: Run, entry: Entry, ahead: _Ahead, beside: Executor | None) -> ProblemRows | None:
        if ahead.given is None:
            raise ValueError("its inputs were not made")
        try:
            return ProblemBench(
                run=run,
                calls=entry.calls,
                libraries=self.libraries.there,
                hipblaslt=self.libraries.hipblaslt,
                site=ahead.site,
                builds=ahead.builds,
                given=ahead.given,
                blocks=self.terms.blocks,
                cold=self.options.cache != "warm",
                throttle=self.throttle,
                checks=beside,
                seconds=self.options.effort.repetition_seconds,
                timeout=self.options.effort.run_timeout,
                ends=share_of(run.clock, len(self._open)),
            ).go()
        except MemoryError as error:
            raise too_large(entry.problem) from error


def start_builds(site: Site, terms: Terms, tuned: Arm | str) -> dict[str, Future[Built] | str]:
    """IREE's modules, or in words why there is none; on a processor they are done before anything is timed."""
    arms: dict[str, Arm | str] = {IREE: DEFAULT, TUNED: tuned}
    builds: dict[str, Future[Built] | str] = {}
    for name in (name for name in terms.chosen.names if name in arms):
        arm = arms[name]
        builds[name] = arm if isinstance(arm, str) else site.start(arm)
    if site.target.backend.on_host:
        for build in builds.values():
            if not isinstance(build, str):
                build.exception()
    return builds


def concluded(run: Run, result: BenchResult) -> BenchResult:
    """The end of a comparison: its table, and its row."""
    write_table(result, force=run.options.force)
    run.finish(result)
    return result


def write_table(result: BenchResult, *, force: bool) -> None:
    """The table that --csv asks for."""
    if result.csv is not None:
        write_whole(result.csv, to_csv(result.problems), OUR_TABLE, force=force)


def at_once(make: Callable[[], Given]) -> Future[Given]:
    """What is made here and now; what goes wrong shows where it is used."""
    future: Future[Given] = Future()
    try:
        future.set_result(make())
    except (AutotuneError, MemoryError) as error:
        future.set_exception(error)
    return future
