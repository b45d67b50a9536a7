"""`autotune bench`: the same problems on IREE and on other libraries; a run, with one below it for each problem."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from autotuner.devices.sampling import open_sampler
from autotuner.devices.throttling import open_throttle
from autotuner.errors import AutotuneError, EnvironmentFailure, StorageError, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.bench.backends import HIPBLASLT, IREE, LIBRARIES, TUNED, Chosen, LeftOut, Library
from autotuner.jobs.bench.building import Built, Given, Site
from autotuner.jobs.bench.library import LibraryProcess, open_library
from autotuner.jobs.bench.problem import ProblemBench
from autotuner.jobs.bench.result import BenchResult, ProblemRows, to_csv
from autotuner.jobs.bench.tuned import won_arm
from autotuner.jobs.suite.defaults import too_large
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.system import process
from autotuner.system.execution import done, local_executor
from autotuner.system.progress import Clock
from autotuner.system.workspace import write_whole
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session, Watched

BLOCKS = 6
"""The fewest that give a median an interval of 95 %."""
_CHECKERS = 4
"""Results that are compared at once, where that takes no core from what is timed."""


@dataclass(frozen=True)
class Comparison:
    """What a user asks."""

    workload: Workload
    chosen: Chosen = field(default_factory=Chosen)
    arm: Arm | None = None
    """What `tuned` is made of; None: the last that won in the workspace."""
    blocks: int = BLOCKS
    csv: Path | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= 1000:
            raise UsageError(f"--blocks {self.blocks} is not between 1 and 1000.", remedy=f"{BLOCKS} is the default.")

    @property
    def alone(self) -> bool:
        return len(self.workload.entries) == 1

    def question(self, target: Target, session: Session, entry: Entry | None) -> Question:
        problem = entry.problem.describe() if entry is not None else self.workload.describe()
        asks = {**problem, "bench": list(self.chosen.names)}
        return Question("bench", problem, target, asks=asks, reads=session.tools.programs, has_parts=entry is None)


@dataclass(frozen=True)
class Libraries:
    """The libraries that take part, in their processes, and the backends that do not."""

    there: Mapping[str, LibraryProcess]
    left_out: tuple[LeftOut, ...]

    @classmethod
    @contextmanager
    def open(cls, chosen: Chosen, target: Target, options: Options, session: Session) -> Iterator[Libraries]:
        """One that the user has named and that is not there is an error."""
        there: dict[str, LibraryProcess] = {}
        left_out: list[LeftOut] = []
        sampler = open_sampler(session.device)
        with ExitStack() as stack:
            folder = stack.enter_context(session.builder.cache.scratch())
            for name in chosen.names:
                if name in (IREE, TUNED):
                    continue
                session.reporter.stage(f"opening {name}")
                try:
                    library = _library(name, target)
                    opening = open_library(
                        library,
                        python=chosen.python(name),
                        device=session.device,
                        on_host=target.backend.on_host,
                        folder=folder / name,
                        sampler=sampler,
                        state=options.state,
                    )
                    there[name] = stack.enter_context(opening)
                except EnvironmentFailure as error:
                    if chosen.named:
                        raise
                    install = LIBRARIES[name].install if name in LIBRARIES and "not installed" in str(error) else ""
                    left_out.append(LeftOut(name, error.message.rstrip("."), install))
            yield cls(there, tuple(left_out))


def _library(name: str, target: Target) -> Library:
    """The library, where it can run at all."""
    if name == HIPBLASLT:
        raise EnvironmentFailure(
            f"{name} computes on AMD GPUs, and the target is {target.name}.", remedy="Leave it out."
        )
    library = LIBRARIES[name]
    if why := library.objection(target):
        raise EnvironmentFailure(f"{why}.", remedy="Leave it out of --backends.")
    return library


def bench(
    wanted: Comparison, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> BenchResult:
    """Times a problem, or all of a workload, on the backends that a user wants."""
    options = options or Options()
    with (
        Session.open(target, options, **watched) as session,
        Libraries.open(wanted.chosen, target, options, session) as libraries,
    ):
        account = Account(session.reporter, Clock(float("inf"), session.began))
        for one in libraries.left_out:
            account.note(str(one))
        first = wanted.workload.entries[0] if wanted.alone else None
        question = wanted.question(target, session, first)
        with Run.begin(question, session=session, options=options, account=account) as run:
            return _BenchRun(wanted, run, libraries).go()


@dataclass
class _Ahead:
    """What is made of a problem before its turn."""

    site: Site
    builds: dict[str, Future[Built] | str]
    given: Future[Given] | None = None


@dataclass
class _BenchRun:
    """All problems, one after the other; what runs beside a GPU is compiled and computed ahead."""

    wanted: Comparison
    run: Run
    libraries: Libraries
    rows: list[ProblemRows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target, self.session, self.options = self.run.target, self.run.session, self.run.options
        self.entries = self.wanted.workload.entries
        self.on_host = self.target.backend.on_host
        self.throttle = open_throttle(self.session.device)

    def go(self) -> BenchResult:
        with ExitStack() as stack:
            beside = None if self.on_host else stack.enter_context(local_executor(_CHECKERS))
            folder = stack.enter_context(self.session.builder.cache.scratch())
            ahead: dict[int, _Ahead] = {}
            for number in range(len(self.entries)):
                if self.run.stopped:
                    break
                self._look_ahead(number, ahead, folder, beside)
                self._one(number, ahead.pop(number), beside)
                shutil.rmtree(folder / str(number), ignore_errors=True)
        result = self._result()
        self.run.finish(result)
        return result

    def _look_ahead(self, number: int, ahead: dict[int, _Ahead], folder: Path, beside: Executor | None) -> None:
        """On a processor this problem alone; else all are compiled at once, and the next one's answer is computed."""
        wanted = [number] if self.on_host else range(number, len(self.entries))
        with process.behind_timings():
            for one in wanted:
                if one not in ahead:
                    ahead[one] = self._start(one, folder / str(one))
        for one in (number, *(() if beside is None else (number + 1,))):
            if one in ahead and ahead[one].given is None:
                ahead[one].given = self._given(ahead[one], beside)

    def _start(self, number: int, folder: Path) -> _Ahead:
        problem = self.target.prepare(self.entries[number].problem)
        site = Site(problem, self.target, self.session, self.options.effort.compile_timeout, folder)
        builds: dict[str, Future[Built] | str] = {}
        for name in self.wanted.chosen.names:
            if name in (IREE, TUNED):
                arm = DEFAULT if name == IREE else self._tuned(problem.name)
                builds[name] = arm if isinstance(arm, str) else site.start(arm)
        if self.on_host:  # nothing is compiled while something is timed
            for build in builds.values():
                if not isinstance(build, str):
                    build.exception()
        return _Ahead(site, builds)

    def _tuned(self, problem: str) -> Arm | str:
        if self.wanted.arm is not None:
            return self.wanted.arm
        return won_arm(self.session.store.runs_of(problem, kinds=("single", "ab")), self.target)

    def _given(self, ahead: _Ahead, beside: Executor | None) -> Future[Given]:
        problem, folder, seed = ahead.site.problem, ahead.site.folder / "inputs", self.options.seed
        if beside is None:
            return done(Given.make(problem, folder, seed=seed))
        return beside.submit(Given.make, problem, folder, seed=seed)

    def _one(self, number: int, ahead: _Ahead, beside: Executor | None) -> None:
        """One problem; what goes wrong with it is its own end."""
        entry = self.entries[number]
        if self.wanted.alone:
            self.rows.append(self._bench(self.run, entry, ahead, beside))
            return
        session = self.run.within(f"{number + 1}/{len(self.entries)} {entry.problem.name}: ")
        question = self.wanted.question(self.target, session, entry)
        account = Account(session.reporter, Clock(float("inf"), session.began))
        try:
            with Run.begin(question, session=session, options=self.options, account=account) as part:
                found = self._bench(part, entry, ahead, beside)
                part.finish(BenchResult(part.facts(), (found,), blocks=self.wanted.blocks))
            self.rows.append(found)
        except StorageError:
            raise
        except AutotuneError as error:
            self.run.account.note(f"{entry.problem.name} failed: {error}")
        self.run.account.add(account.seconds)

    def _bench(self, run: Run, entry: Entry, ahead: _Ahead, beside: Executor | None) -> ProblemRows:
        if ahead.given is None:
            raise ValueError("its inputs were not made")
        try:
            return ProblemBench(
                run=run,
                problem=ahead.site.problem,
                calls=entry.calls,
                libraries=self.libraries.there,
                site=ahead.site,
                builds=ahead.builds,
                given=ahead.given,
                blocks=self.wanted.blocks,
                cold=self.options.cache != "warm",
                throttle=self.throttle,
                checks=beside,
            ).go()
        except MemoryError as error:
            raise too_large(entry.problem) from error

    def _result(self) -> BenchResult:
        wanted = self.wanted
        rows = tuple(self.rows)
        if wanted.csv is not None:
            write_whole(wanted.csv, to_csv(rows))
        return BenchResult(self.run.facts(), rows, self.libraries.left_out, wanted.blocks, wanted.csv)
