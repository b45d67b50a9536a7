"""`autotune bench`: the same problems on IREE and on other libraries; a run, with one below it for each problem."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack

from autotuner.errors import AutotuneError, Bug, OutOfTimeError, StorageError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.opening import Experiment, open_model
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.bench.backends import IREE, TUNED, Terms
from autotuner.jobs.bench.given import Given, given_model, given_problem
from autotuner.jobs.bench.library import Libraries
from autotuner.jobs.bench.problem import ProblemBench
from autotuner.jobs.bench.result import OUR_TABLE, BenchResult, ProblemRows
from autotuner.jobs.bench.sides import Backend, IreeBackend, Manner
from autotuner.jobs.opening import MIN_TIME, compile_timeout, model_clock, run_timeout
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.measure.schedule import longer, share_of
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model
from autotuner.programs.program import ModelProgram
from autotuner.store.rows import Json, RunKind
from autotuner.system import process
from autotuner.system.digests import path_digest, read_by_flags
from autotuner.system.files import write_whole
from autotuner.system.progress import Clock
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Question, Run
from autotuner.tuning.session import Session, Watched

_UNKNOWN = 0.5
"""Of a problem is thought to be done where none is: what is left of it takes as long again."""


@dataclass(frozen=True)
class Item:
    """A problem or a model, which is timed on all backends."""

    described: Json
    """As the row and the JSON document have it."""
    asks: Json
    """The words that tell it from others."""
    site: Callable[[Path], ArmSite]
    """Where IREE compiles it, given a folder."""
    given: Callable[[Run, Path], Given]
    seconds: float
    """A repetition, at least."""
    timeout: float
    calls: int = 1
    reads: tuple[str, ...] = ()
    tuned_by: tuple[RunKind, ...] = ("single", "ab")
    """The runs that may have tuned it."""

    @property
    def name(self) -> str:
        return str(self.described["name"])


def bench(
    workload: Workload, terms: Terms, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> BenchResult:
    """Times a problem, or all of a workload, on the backends that a user wants."""
    options = options or Options()
    with Session.open(target, options, **watched) as session:
        clock = Clock(options.budget or math.inf, session.began)
        with _Parties.met(terms, target, options, session, clock) as parties:
            items = [parties.problem(entry) for entry in workload.entries]
            return parties.timed(items, items[0].described if len(items) == 1 else workload.describe())


def bench_model(
    model: Model, terms: Terms, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> BenchResult:
    """Times a model on the backends that a user wants: of libraries those that take ONNX."""
    options = options or Options()
    with (
        Session.open(target, options, **watched) as session,
        _Parties.met(terms, target, options, session, model_clock(options, session)) as parties,
    ):
        item = parties.model(model)
        return parties.timed([item], item.described)


@dataclass(frozen=True)
class _Parties:
    """Who takes part in a comparison, on which terms."""

    terms: Terms
    target: Target
    options: Options
    session: Session
    account: Account
    libraries: Libraries

    @classmethod
    @contextmanager
    def met(cls, terms: Terms, target: Target, options: Options, session: Session, clock: Clock) -> Iterator[_Parties]:
        """With the libraries' processes; those that are not there are named."""
        account = Account(session.reporter, clock)
        with process.until(clock.latest), Libraries.open(terms.chosen, target, session) as libraries:
            for missing in libraries.left_out:
                account.note(str(missing))
            yield cls(terms, target, options, session, account, libraries)

    def timed(self, items: Sequence[Item], described: Json) -> BenchResult:
        """The run of all of them, to its end."""
        one = self.question(items[0]) if len(items) == 1 else self._question(described, described)
        asked, account = replace(one, recalls=True), self.account
        with Run.begin(asked, session=self.session, options=self.options, account=account) as run:
            return _BenchRun(items, self, run).go()

    def problem(self, entry: Entry) -> Item:
        problem, effort = self.target.prepare(entry.problem), self.options.effort

        def given(run: Run, folder: Path) -> Given:
            del run
            return given_problem(problem, folder / "inputs", seed=self.options.seed)

        def site(folder: Path) -> ArmSite:
            where = partial(ArmSite.within, self.session, self.target, folder=folder, timeout=effort.compile_timeout)
            return where(program=problem_mlir(problem), flags=problem.flags, problem=problem)

        described = entry.problem.describe()
        return Item(described, described, site, given, effort.repetition_seconds, effort.run_timeout, calls=entry.calls)

    def model(self, model: Model) -> Item:
        options, onnx = self.options, self.terms.onnx
        experiment = Experiment(DEFAULT, DEFAULT, model=model)
        opened = open_model(experiment, model, self.target, options, self.session, self.account)
        asked = opened.question

        def given(run: Run, folder: Path) -> Given:
            program = opened.subject(run)
            if not isinstance(program, ModelProgram):
                raise Bug(f"{model.path} is no model.")
            described = {**run.problem, "arguments": str(model.path)}
            return given_model(program, described, onnx or model.path, folder / "inputs")

        def site(folder: Path) -> ArmSite:
            file = model.opened_in(self.session.workspace, self.session.tools)
            timeout = compile_timeout(options, self.account.clock)
            return ArmSite.within(self.session, self.target, program=file.source, folder=folder, timeout=timeout)

        item = Item(asked.problem, asked.asks, site, given, MIN_TIME, run_timeout(options))
        reads = (*asked.reads, *([path_digest(onnx)] if onnx is not None else []))
        return replace(item, reads=reads, tuned_by=("model", "ab"))

    def tuned(self, item: Item) -> Arm | str:
        """What `tuned` is for it; or why there is nothing, in words."""
        return self.terms.tuned(item.name, self.session.store.runs_of(item.name, kinds=item.tuned_by), self.target)

    def question(self, item: Item) -> Question:
        """What is asked of one problem: its times depend on the libraries, and on what `tuned` is, too."""
        tuned = self.tuned(item)
        spec = [tuned] if isinstance(tuned, str) else [path_digest(path) for path in tuned.reads]
        libraries = (f"{name} {one.version}" for name, one in self.libraries.there.items())
        return self._question(item.described, item.asks, (*item.reads, *libraries, *spec))

    def _question(self, described: Json, asks: Json, reads: Sequence[str] = ()) -> Question:
        """A comparison reads the programs, what flags and --spec name, and what else is named."""
        terms, session = self.terms, self.session
        asked = {"bench": list(terms.chosen.names), "blocks": terms.blocks, "cold": self.options.cache != "warm"}
        files = read_by_flags(self.target.user_flags, folder=session.workspace.candidates)
        given = map(path_digest, terms.arm.reads if terms.arm is not None else ())
        reads = (*session.tools.programs, *files, *given, *reads)
        return Question("bench", described, self.target, asks={**asks, **asked}, reads=reads)


@dataclass
class _BenchRun:
    """All problems, one after the other; for a GPU all are compiled at once."""

    items: Sequence[Item]
    parties: _Parties
    run: Run
    rows: dict[int, ProblemRows] = field(default_factory=dict)
    """By the place of the problem in the workload."""
    compiled: dict[int, dict[str, Backend]] = field(default_factory=dict)
    """Likewise: IREE's modules, which are being compiled."""

    def __post_init__(self) -> None:
        self.session, self.options, self.terms = self.run.session, self.run.options, self.parties.terms
        self.on_host = self.run.target.backend.on_host
        self._open = [*range(len(self.items))]

    def go(self) -> BenchResult:
        self._recall()
        with self.session.builder.cache.scratch() as folder:
            for number in tuple(self._open):
                if self.run.stopped or self.run.clock.left <= 0:
                    break
                self._keep()
                try:
                    reached = self._one(number, folder)
                except OutOfTimeError:
                    break
                if reached:
                    self._open.remove(number)
                shutil.rmtree(folder / str(number), ignore_errors=True)
        if said := self._unreached():
            self.run.account.note(said)
        result = self._keep()
        self.run.finish(result)
        return result

    def _recall(self) -> None:
        """With --resume, what this comparison has timed to the end is not timed again."""
        session, known = self.session, {0: self.run.known}
        if len(self.items) > 1:
            parts = session.store.parts(self.run.id) if self.run.earlier is not None else []
            done = {part.key: part.result or {} for part in parts if part.status == "finished"}
            asked = (self.parties.question(item).row(session, self.options) for item in self.items if done)
            known = {number: done.get(one.key, {}) for number, one in enumerate(asked)}
        for number, document in known.items():
            with session.store.intact():
                found = [ProblemRows.from_json(one) for one in document.get("problems") or ()]
            if found and found[0].whole and not document.get("interrupted"):
                self.rows[number] = found[0]
                self._open.remove(number)
        if self.rows:
            self.run.account.stage(f"{len(self.rows)} of {count(len(self.items), 'problem')} timed already")
            for note in self.rows[0].notes if len(self.items) == 1 else ():
                self.run.account.note(note)

    def _unreached(self) -> str:
        """How many problems are left out, and what would do; nothing where all were reached."""
        missing, problems, clock = len(self._open), len(self.items), self.run.clock
        if not missing:
            return ""
        left = f"{missing} of {problems} problems were not reached" if problems > 1 else "nothing was timed"
        if self.run.stopped:
            return f"it was stopped: {left}; the same command with --resume goes on"
        would_do = longer(max(clock.elapsed, clock.budget) * problems / max(problems - missing, _UNKNOWN))
        return f"the time was up: {left}: {would_do}, or --resume goes on"

    def _keep(self) -> BenchResult:
        """What is there if nothing follows: a kill ends the command, not what was measured."""
        terms, names = self.terms, tuple(self.items[number].name for number in self._open)
        rows = tuple(self.rows[number] for number in sorted(self.rows))
        left_out = self.parties.libraries.left_out
        result = BenchResult(self.run.facts(), rows, left_out, terms.blocks, terms.csv, not_reached=names)
        if rows:
            self.session.store.keep_so_far(self.run.id, result.to_json())
        if result.csv is not None and (rows or not names):
            write_whole(result.csv, result.table(), OUR_TABLE, force=self.options.force)
        return result

    def _compile(self, number: int, folder: Path) -> dict[str, Backend]:
        """Begins with what is not begun; on a processor it is done before anything is timed."""
        version = str(self.run.environment.get("iree", ""))
        with process.behind_timings():
            for one in [number] if self.on_host else [other for other in self._open if other not in self.compiled]:
                item, where = self.items[one], folder / str(one)
                arms = {IREE: DEFAULT, TUNED: self.parties.tuned(item)}
                start = partial(IreeBackend.start, site=item.site(where), session=self.session, version=version)
                names = [name for name in self.terms.chosen.names if name in arms]
                self.compiled[one] = {name: start(name, arms[name]) for name in names}
        found = self.compiled.pop(number)
        for backend in found.values() if self.on_host else ():
            _ = backend.kind
        return found

    def _one(self, number: int, folder: Path) -> bool:
        """One problem; what goes wrong with it is its own end. Whether it was reached."""
        item, backends = self.items[number], self._compile(number, folder)
        if len(self.items) == 1:
            return self._bench(self.run, number, backends, folder)
        session, whole = self.run.within(f"{number + 1}/{len(self.items)} {item.name}: "), self.run.clock
        left = whole.budget - (session.began - whole.started)
        account = Account(session.reporter, Clock(left, session.began, part=True))
        try:
            with Run.begin(self.parties.question(item), session=session, options=self.options, account=account) as part:
                reached = self._bench(part, number, backends, folder)
                rows = (self.rows[number],) if reached else ()
                part.finish(BenchResult(part.facts(), rows, blocks=self.terms.blocks))
            for row in rows:
                session.reporter.stage(row.line())
            return reached
        except (StorageError, OutOfTimeError):
            raise
        except AutotuneError as error:
            self.run.account.note(f"{item.name} failed: {error}")
            return True
        finally:
            self.run.account.add(account.seconds)

    def _bench(self, run: Run, number: int, backends: dict[str, Backend], folder: Path) -> bool:
        item, clock = self.items[number], run.clock
        found = ProblemBench(
            run=run,
            calls=item.calls,
            backends={**backends, **self.parties.libraries.there},
            given=item.given(run, folder / str(number)),
            manner=Manner(self.session.runner, item.seconds, item.timeout, self.on_host),
            blocks=self.terms.blocks,
            cold=self.options.cache != "warm",
            ends=clock.elapsed + share_of(clock.left, [1.0] * len(self._open)),
        ).go()
        if found is not None:
            self.rows[number] = found
        return found is not None
