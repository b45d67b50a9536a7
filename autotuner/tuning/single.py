"""One problem's run, step by step: the only place that sees all the rooms."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from autotuner.build import Compiled
from autotuner.carriers.outputs import files_in
from autotuner.devices.device import Device
from autotuner.errors import NoCandidateError, OutOfTimeError
from autotuner.iree.compile import first_error, shell_line
from autotuner.iree.folder import PROBLEM
from autotuner.measure.caches import Caches
from autotuner.measure.calibrate import Calibration, Calibrator
from autotuner.measure.check import Data
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import FINALIST, Schedule, beginning, late
from autotuner.measure.standing import Standing
from autotuner.microkernels.variants import find_variants, refuse_unfit
from autotuner.problems import Problem
from autotuner.system import process
from autotuner.system.progress import clocked
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.contest import after_verdict, judge_finalists, lead_of_search, time_caches
from autotuner.tuning.earlier import learned, question, recall, remembered
from autotuner.tuning.estimate import without_device
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.loop import Loop
from autotuner.tuning.options import Options, Task
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, Candidate, Plan
from autotuner.tuning.result import Files, Result
from autotuner.tuning.run import Job, Run
from autotuner.tuning.session import Session
from autotuner.tuning.ship import Winner, outputs, reproduced_by
from autotuner.tuning.summary import NOTHING, Summary


@dataclass(frozen=True)
class Found:
    """A run's result, and the candidate behind it with the plan that made it."""

    result: Result
    plan: Plan
    chosen: Candidate | None
    """The one that won, or is ahead where there is no verdict; without a device, the most promising."""
    run: Run | None
    """None where the result is recalled from a run that is finished."""


@dataclass
class SingleRun:
    """One run's state, and its steps in order."""

    problem: Problem
    target: Target
    options: Options
    session: Session
    task: Task
    chosen: Candidate | None = None
    evaluator: Evaluator = field(init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        effort = self.options.effort
        self.reporter, self.stop = self.session.reporter, self.session.stop
        self.tools, self.workspace = self.session.tools, self.session.workspace
        self.store, self.executor = self.session.store, self.session.executor
        self.job = Job.within(self.session, self.target, self.options)
        self.account = self.job.account
        self.clock = self.account.clock
        self.seconds = self.account.seconds
        default = effort.trials if self.session.timed else effort.compile_only_trials
        self.trials = self.options.trials or default
        self.builder = self.session.builder

    # --- the run ------------------------------------------------------------------------------------------------

    def claim_outputs(self) -> None:
        """Before anything is compiled: what cannot be written is no surprise at the end."""
        self.files = outputs(self.problem, self.target, self.options, self.task, self.workspace)
        if self.task.ship:
            objects = [path for kernel in self.options.microkernels for path in kernel.objects]
            self.files.claim([*objects, *files_in(self.target.user_flags)])

    def read_space(self) -> None:
        root = self.workspace.root
        refuse_unfit(self.options.microkernels, self.problem, chip=self.session.chip, workspace=root)
        self.reporter.stage("reading the space from the compiler")
        with self.account.clocked("space"):
            self.plan = self._make_plan()
        for note in self.plan.notes:
            self.account.remark(note)

    def _make_plan(self) -> Plan:
        timeout = self.options.effort.compile_timeout
        plan = Plan.make(self.problem, self.target, self.executor, timeout=timeout)
        if self.task.rows_vary:
            plan = plan.where_rows_vary()
        variants, left_out = find_variants(
            self.options.microkernels,
            self.problem,
            chip=self.session.chip,
            workspace=self.workspace.root,
            executable_target=plan.executable_target,
        )
        alone = self.task.microkernels_alone
        plan = plan.with_kernels(variants, alone=alone)
        if self.task.kind == "ab":
            for kernel in variants:
                kernel.call(kernel.default())  # In an experiment a kernel that does not fit is an error, at once.
        for note in left_out:
            self.account.remark(note)
        return plan

    def recalled(self) -> Found | None:
        """A finished run of this very problem, with its winner, where that is wanted."""
        if not self.options.resume or not self.task.recall:
            return None
        new = question(self.plan, self.task, self.session).row(self.session, self.options)
        found = recall(new, self.plan, self.session, self.options)
        if found is None:
            return None
        result, self.chosen = found
        return self.found(result, recalled=True)

    def found(self, result: Result, *, recalled: bool = False) -> Found:
        return Found(result, self.plan, self.chosen, None if recalled else self.run)

    def begun(self) -> AbstractContextManager[Run]:
        asked = question(self.plan, self.task, self.session)
        return self.job.begin(asked)

    def go(self, run: Run) -> Result:
        self.open(run)
        try:
            return self._steps()
        finally:
            self.clean()

    def _steps(self) -> Result:
        if not self.session.timed:
            self.reporter.stage("building and proving candidates")
            self.loop.compile_only()
            default = self.evaluator.outcomes.get(BASELINE)
            if default is not None and default.failure is not None:
                why = first_error(default.detail)
                raise NoCandidateError(f"IREE's default does not compile: {why}", remedy="Check --flag and --target.")
            return self._executed() if self.session.emulated else self._estimated()
        try:
            self.prepare()
            return self._timed()
        except OutOfTimeError as error:
            return self.summary.result("inconclusive", late(error, self.clock))

    def _timed(self) -> Result:
        self.reporter.stage("timing IREE's default")
        loop = self._calibrated()
        if loop.too_late and not self.stop.requested:
            return self.summary.result("inconclusive", loop.schedule.too_short())
        loop.keep_time_for_the_end()
        kernel = loop.likeliest_kernel()  # before the routes: in little time nothing else is worth as much
        if self.plan.stock or kernel:
            routes = [count(len(self.plan.stock), "stock route")] if self.plan.stock else []
            self.reporter.stage(f"timing {' and '.join(['a microkernel'] * len(kernel) + routes)}")
            loop.evaluate([*kernel, *self.plan.stock])
        self.reporter.stage(f"searching {count(len(self.plan.space), 'configuration')}")
        loop.search()
        if self.stop.requested:
            return self.summary.result("inconclusive", "interrupted before the race")
        judgement = self.session.devices.on_one(self.evaluator.calibration.device, self._judged)
        if not self.task.race:
            return self._leading(judgement)
        return self.ended(judgement, self._caches(judgement))

    # --- IREE's default -----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """What needs no device: inputs as files, IREE's default, the right answers."""
        options, folder = self.options, self.run.folder / "inputs"
        self.calibrator = Calibrator(
            make=self._default,
            device=self.session.runner,
            data=Data.write(self.problem, folder, seed=options.seed),
            thoroughness=options.effort,
            cache=options.searched_cache,
            seconds=self.seconds,
            on_cores=self.target.compiles_on_device,
            confirmed=self.task.race,
        )
        self.first = self.calibrator.first_build()

    def _default(self, repeat: int, known: Compiled | None) -> Compiled:
        """With this many repeats; what is known is used again."""
        timeout = self.options.effort.compile_timeout
        job = self.plan.job(self.plan.baseline, timeout=timeout, repeat=repeat, timed=True)
        if known is not None and known.repeat == job.repeat:  # not all may be repeated
            return known
        with clocked(self.seconds, "build"):
            made = self.builder.build(job)
        # What was compiled a moment ago is not what the cache spared us.
        return made if known is None else replace(made, cached=known.cached)

    def _calibrated(self) -> Loop:
        """The loop, once IREE's default is timed: on the first device, or on one that works where this does not."""
        found = self.session.devices.on_one(
            self.session.runner, lambda one: replace(self.calibrator, device=one).calibrated(self.first)
        )
        self.evaluator.calibrate(found)
        with beginning("timing it"):
            self.loop.time_baseline(self._schedule(found))
        if self.standing.words:
            self.account.remark(self.standing.words)
        return self.loop

    def _schedule(self, found: Calibration[Compiled]) -> Schedule:
        """By what the default took."""
        self.shipping, self.cold = after_verdict(found, self.task, self.options)
        building = FINALIST * found.baseline.took / self.session.jobs
        schedule = found.schedule(
            self.clock, self.options.effort, building=building, shipping=self.shipping, judges=self.task.race
        )
        return schedule.with_cold(self.cold)

    # --- the verdict --------------------------------------------------------------------------------------------

    def _judged(self, device: Device) -> Judgement:
        """What the candidates of a search come to side by side on this device."""
        device.open()  # where one that is lost was not needed any more, the time was up for want of it
        self.evaluator.move_to(device)
        return (judge_finalists if self.task.race else lead_of_search)(self.loop, self.options.effort)

    def ended(self, judgement: Judgement, caches: Caches | None) -> Result:
        """The result of a verdict, with the files that ship."""
        if judgement.winner is not None:
            self.chosen = self._outcome(judgement.winner).candidate
        elif judgement.verdict == "inconclusive":
            self.chosen = self.evaluator.leader()
        right = self.standing.fastest(judgement)
        if self.standing.default_is_wrong and right is not None and "best" in self.options.keep:
            self.evaluator.keep_folder(right)  # without a win it is all that a user has in place of the default
        try:
            files = self._ship(judgement, caches) if self.task.ship else NOTHING
        except OutOfTimeError:
            files, self.chosen = NOTHING, None
            judgement = replace(judgement, verdict="inconclusive", reason=self.run.unproven, winner=None)
        return self.summary.result(judgement.verdict, judgement.reason, judgement=judgement, files=files, caches=caches)

    def _caches(self, judgement: Judgement) -> Caches | None:
        """The default and the best with a warm and with a cold cache, and what is to be said of it."""
        if self.options.cache == "warm" or judgement.verdict == "inconclusive" or self.stop.requested:
            return None
        if not self.task.cold:  # what it is a part of is compared warm, and tells its own times
            return None
        seconds = self.cold + (self.shipping if judgement.winner else 0.0)
        with self.account.clocked("time"):
            found, notes = time_caches(self.loop, judgement, self.standing, seconds)
        for note in notes:
            self.account.remark(note)
        return found

    def _leading(self, judgement: Judgement) -> Result:
        """No race: the caller compares the one that is ahead within something larger."""
        result = self.summary.result(judgement.verdict, judgement.reason)
        if judgement.leader is None:
            return result
        leading = self._outcome(judgement.leader)
        self.chosen = leading.candidate
        best = self.summary.best(leading, judgement.us)
        return replace(result, best=best, baseline=self.summary.measured(self._outcome(BASELINE), judgement.us))

    @property
    def standing(self) -> Standing[Outcome]:
        return Standing(self.evaluator.outcomes)

    def _outcome(self, name: str) -> Outcome:
        return self.evaluator.outcomes[name]

    def _estimated(self) -> Result:
        """Nothing was timed: the ranking is by what the machine code promises, and says so."""
        found = without_device(self.evaluator)
        ranked, best = found.ranked, found.chosen
        if ranked and "best" in self.options.keep:
            self.evaluator.keep_folder(ranked[0][0])
        files = NOTHING
        if best is not None:
            self.chosen = best.candidate
            files = self._ship_files(None, best) if self.task.ship and self.options.output is not None else NOTHING
        elif self.task.ship and self.options.output is not None:
            why = found.reason if found.cause else "nothing promises more than the default"
            self._note(f"nothing is written to {self.options.output}: {why}")
        result = self.summary.result(found.verdict, found.reason, files=files)
        default = replace(result.baseline, estimate=found.default.to_json() if found.default else None)
        ranking = tuple(self.summary.best(outcome, {}, estimate=estimate) for outcome, estimate in ranked)
        best_one = ranking[0] if ranking else None
        return replace(result, baseline=default, best=best_one, ranking=ranking, cause=found.cause)

    def _executed(self) -> Result:
        """On an emulated device each binary is run and checked; one that computes something else is no candidate."""
        data = Data.write(self.problem, self.run.folder / "inputs", seed=self.options.seed)
        checker = data.checker(self.session.runner, timeout=self.options.effort.run_timeout)
        built = [one for one in self.evaluator.outcomes.values() if one.built and not one.duplicate_of]
        self.reporter.stage(f"executing {count(len(built), 'binary')}")
        tried = right = 0
        for outcome in built:
            if self.stop.requested or self.clock.up or outcome.build is None:
                break
            check = checker.check(outcome.build.vmfb)
            outcome.checked, tried, right = True, tried + 1, right + check.ok
            if not check.ok:
                self.evaluator.refuse(outcome.candidate.id, check)
        result = self._estimated()
        told = f"executed on an emulated device: {right} of {tried} right"
        return replace(result, reason=f"{result.reason}; {told}" if result.reason else told)

    def _learn(self) -> None:
        """What earlier runs of this chip suggest comes first; an experiment is about its own candidates."""
        if not self.session.timed or self.task.microkernels_alone or self.task.elsewhere:
            return
        chip = str(self.run.environment.get("device_name", ""))
        with self.account.clocked("search"), self.store.intact():
            self.plan, note = learned(self.plan, self.store, run=self.run.id, device_name=chip, trials=self.trials)
            self.plan, known = remembered(self.plan, self.options.registry, sku=chip, iree=self.tools.release)
        for one in filter(None, (note, known)):
            self.account.remark(one)

    def open(self, run: Run) -> None:
        """Takes up a run that has begun."""
        self.run = run
        self._learn()
        self.evaluator = Evaluator(
            plan=self.plan,
            builder=self.builder,
            store=self.store,
            run=self.run.id,
            folder=self.run.folder,
            keep=frozenset(self.options.keep),
            compile_timeout=self.options.effort.compile_timeout,
            devices=self.session.devices,
            elsewhere=self.task.elsewhere,
        )
        self.summary = Summary(self.run, self.evaluator)
        self.loop = Loop(self.evaluator, self.session, self.clock, self.options, self.trials, self.seconds)
        if (rows := self.run.earlier) is not None:
            binaries = {build.candidate: build.binary for build in self.store.builds(self.run.id)}
            self.loop.unfinished = self.evaluator.restore(rows, binaries)
            self._note(f"going on with run {self.run.id}: {sum(r.us is not None for r in rows)} candidates are timed")

    # --- the end ------------------------------------------------------------------------------------------------

    def _ship(self, judgement: Judgement, caches: Caches | None) -> Files:
        if judgement.winner is None:
            return NOTHING
        self.reporter.stage("shipping, and compiling once more with what is shipped")
        winner = self._outcome(judgement.winner)
        if winner.build is None:
            with process.however_late(latest=self.run.proof_ends):
                winner.build = self.evaluator.start_build(winner.candidate, self.executor).result()
        if "best" in self.options.keep:
            self.evaluator.keep_folder(winner)
        return self._ship_files(judgement, winner, caches)

    def _ship_files(self, judgement: Judgement | None, winner: Outcome, caches: Caches | None = None) -> Files:
        with process.however_late(latest=self.run.proof_ends):
            command = shell_line(reproduced_by(self.problem, self.run, task=self.task, trials=self.trials))
            file = self.run.folder / winner.candidate.id / PROBLEM
            kept = winner.candidate.carrier.only_for and file.is_file() and {"all", "best"} & set(self.options.keep)
            program = file.absolute() if kept else None
            ended = Winner(self.run, self.plan, winner, judgement, self.standing, command, caches, program)
            return ended.ship(self.files)

    def clean(self) -> None:
        """What is not kept goes: builds that the deadline overtook, and the inputs when no candidate needs them."""
        kept = {path.parent.name for path in self.run.folder.glob("*/command.txt")}
        if "none" in self.options.keep:
            shutil.rmtree(self.run.folder, ignore_errors=True)
        for path in self.run.folder.glob("*"):
            if path.name not in (kept | {"inputs"} if kept else set()):
                shutil.rmtree(path, ignore_errors=True)  # the log is a file: it stays

    def _note(self, text: str) -> None:
        self.account.note(text)
