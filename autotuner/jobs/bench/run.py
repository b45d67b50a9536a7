"""`autotune bench`: the same problems on IREE and on other libraries; a run, with one below it for each problem."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Unpack

from autotuner.errors import AutotuneError, Bug, OutOfTimeError, UsageError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.opening import Experiment, open_model
from autotuner.jobs.ab.recipe import ArmSite
from autotuner.jobs.bench.backends import IREE, TUNED, Terms
from autotuner.jobs.bench.given import Given, given_model, given_problem
from autotuner.jobs.bench.library import Libraries
from autotuner.jobs.bench.problem import ProblemBench
from autotuner.jobs.bench.result import BenchResult, ProblemRows
from autotuner.jobs.bench.sides import Backend, IreeBackend, Manner
from autotuner.jobs.opening import MIN_TIME, compile_timeout, run_timeout
from autotuner.jobs.suite.workload import Entry, Workload
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model
from autotuner.programs.program import ModelProgram
from autotuner.store.rows import Json, RunKind
from autotuner.system import process
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Question, Run, Turn
from autotuner.tuning.session import Watched


@dataclass(frozen=True)
class Item:
    """A problem or a model, which is timed on all backends."""

    described: Json
    """As the row and the JSON document have it."""
    arguments: str
    """The words that name it on a command line."""
    site: ArmSite
    """What IREE compiles."""
    given: Callable[[Run, Path], Given]
    seconds: float
    """A repetition, at least."""
    timeout: float
    calls: int = 1
    tuned_by: tuple[RunKind, ...] = ("single", "ab")
    """The runs that may have tuned it."""

    @property
    def name(self) -> str:
        return str(self.described["name"])


def bench(
    workload: Workload, terms: Terms, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> BenchResult:
    """Times a problem, or all of a workload, on the backends that a user wants."""
    with Job.open(target, options, watched, otherwise=math.inf) as job, _Bench.opened(terms, job) as comparison:
        items = [comparison.problem(entry) for entry in workload.entries]
        return comparison.timed(items, items[0].described if len(items) == 1 else workload.describe())


def bench_model(
    model: Model, terms: Terms, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> BenchResult:
    """Times a model on the backends that a user wants: of libraries those that take ONNX."""
    with Job.open(target, options, watched) as job, _Bench.opened(terms, job) as comparison:
        item = comparison.model(model)
        return comparison.timed([item], item.described)


@dataclass
class _Bench:
    """All problems, one after the other; for a GPU all are compiled at once."""

    terms: Terms
    job: Job
    libraries: Libraries
    items: Sequence[Item] = ()
    todo: list[int] = field(default_factory=list)
    """The places in the workload of the problems that are not reached yet."""
    rows: dict[int, ProblemRows] = field(default_factory=dict)
    """By the problem's place."""
    compiled: dict[int, dict[str, IreeBackend]] = field(default_factory=dict)
    """Likewise: IREE's modules, which are being compiled."""

    @classmethod
    @contextmanager
    def opened(cls, terms: Terms, job: Job) -> Iterator[_Bench]:
        """With the libraries' processes; those that are not there are named."""
        if job.session.emulated:
            raise UsageError("bench times, and this device is emulated.", remedy="Run it where a device is.")
        until, opening = process.until(job.account.clock.latest), Libraries.open(terms, job.target, job.session)
        with until, opening as libraries:
            for missing in libraries.left_out:
                job.account.remark(str(missing))
            yield cls(terms, job, libraries)

    def __post_init__(self) -> None:
        self.target, self.options, self.session = self.job.target, self.job.options, self.job.session

    # --- what is timed --------------------------------------------------------------------------------------------

    def problem(self, entry: Entry) -> Item:
        problem, effort = self.target.prepare(entry.problem), self.options.effort

        def given(run: Run, folder: Path) -> Given:
            del run
            return given_problem(problem, folder / "inputs", seed=self.options.seed)

        site = ArmSite.within(
            self.session,
            self.target,
            program=problem_mlir(problem),
            flags=problem.flags,
            problem=problem,
            timeout=effort.compile_timeout,
        )
        described, arguments = entry.problem.describe(), " ".join(problem.arguments())
        return Item(described, arguments, site, given, effort.repetition_seconds, effort.run_timeout, entry.calls)

    def model(self, model: Model) -> Item:
        options = self.options
        experiment = Experiment(DEFAULT, DEFAULT, model=model)
        opened = open_model(experiment, model, self.job)

        def given(run: Run, folder: Path) -> Given:
            program = opened.subject(run)
            if not isinstance(program, ModelProgram):
                raise Bug(f"{model.path} is no model.")
            return given_model(program, self.terms.onnx or model.path, folder / "inputs")

        file = model.opened_in(self.session.workspace, self.session.tools)
        compiling = compile_timeout(options, self.job.account.clock)
        site = ArmSite.within(self.session, self.target, program=file.source, timeout=compiling)
        described, timeout = opened.question.problem, run_timeout(options)
        return Item(described, str(model.path), site, given, MIN_TIME, timeout, tuned_by=("model", "ab"))

    # --- the run --------------------------------------------------------------------------------------------------

    def timed(self, items: Sequence[Item], described: Json) -> BenchResult:
        """All of them, to the end or as far as the time goes."""
        self.items, self.todo = items, [*range(len(items))]
        with (
            self._begin(described, self.job) as run,
            self.session.builder.cache.scratch() as folder,
        ):
            work = partial(self._one, run, folder)
            for number, part_result in run.parts([*self.todo], work, name=lambda number: items[number].name):
                if isinstance(part_result, AutotuneError) and not isinstance(part_result, OutOfTimeError):
                    if len(items) == 1:
                        raise part_result
                    run.account.note(f"{items[number].name} failed: {part_result}")
                    self.todo.remove(number)
                elif part_result is True:
                    self.todo.remove(number)
                    self._keep(run)
                shutil.rmtree(folder / str(number), ignore_errors=True)
            if self.todo:
                run.account.note(self._unreached(run))
            result = self._keep(run)
            run.finish(result)
            return result

    def _begin(self, described: Json, job: Job) -> AbstractContextManager[Run]:
        return job.begin(Question("bench", described, self.target, asks=described, reads=()))

    def _unreached(self, run: Run) -> str:
        """How many problems are left out, and which budget would do."""
        missing, problems, clock = len(self.todo), len(self.items), run.clock
        left = f"{missing} of {problems} problems were not reached" if problems > 1 else "nothing was timed"
        if run.stopped:
            return f"it was stopped: {left}"
        # Where none was reached, what is left of the first is thought to take as long again.
        return f"ran out of time: {left}. {clock.longer(problems / max(problems - missing, 0.5))}"

    def _keep(self, run: Run) -> BenchResult:
        """Records the result so far: a kill then loses nothing that was measured."""
        rows = tuple(self.rows[number] for number in sorted(self.rows))
        names = tuple(self.items[number].name for number in self.todo)
        result = BenchResult(run.facts(), rows, self.libraries.left_out, self.terms.blocks, not_reached=names)
        if rows:
            self.session.store.keep_so_far(run.id, result.to_json())
        return result

    def _one(self, run: Run, folder: Path, turn: Turn[int]) -> bool:
        """One problem: a run of its own, unless it is alone. Whether it was reached."""
        number, job = turn.what, turn.job(self.target, otherwise=math.inf)
        compiled = self._compile(number, run)
        if len(self.items) == 1:
            return self._time(run, number, compiled, folder)
        try:
            with self._begin(self.items[number].described, job) as part:
                reached = self._time(part, number, compiled, folder)
                rows = (self.rows[number],) if reached else ()
                part.finish(BenchResult(part.facts(), rows, blocks=self.terms.blocks))
            for row in rows:
                turn.session.reporter.stage(row.line())
            return reached
        finally:
            run.account.add(job.account.seconds)

    def _compile(self, number: int, run: Run) -> Mapping[str, Backend]:
        """Starts the compiles that have not begun; on a processor they end before anything is timed."""
        on_host, version = self.target.backend.on_host, str(run.environment.get("iree", ""))
        with process.behind_timings():
            for one in [number] if on_host else [other for other in self.todo if other not in self.compiled]:
                item = self.items[one]
                arms = {IREE: DEFAULT, TUNED: self._tuned(item)}
                start = partial(IreeBackend.start, site=item.site, session=self.session)
                names = [name for name in self.terms.names if name in arms]
                self.compiled[one] = {name: start(name, arms[name], version=version) for name in names}
        found = self.compiled.pop(number)
        if on_host:
            wait(backend.build for backend in found.values())
        return found

    def _tuned(self, item: Item) -> Arm | str:
        runs = self.session.store.runs_of(item.name, kinds=item.tuned_by)
        return self.terms.tuned(item.name, runs, self.target)

    def _time(self, run: Run, number: int, compiled: Mapping[str, Backend], folder: Path) -> bool:
        item = self.items[number]
        found = ProblemBench(
            run=run,
            backends={**compiled, **self.libraries.there},
            given=item.given(run, folder / str(number)),
            manner=Manner(self.session.runner, item.seconds, item.timeout, self.target.backend.on_host),
            blocks=self.terms.blocks,
            cold=self.options.cache != "warm",
        )
        if rows := found.go():
            described = {**run.problem, "arguments": item.arguments}
            self.rows[number] = ProblemRows(described, rows, run.id, item.calls, found.notes)
        return bool(rows)
