"""One problem tuned: the loop, the only place that sees all the rooms."""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotuner.build import Builder
from autotuner.build.isa import NO_FIGURES
from autotuner.carriers.outputs import files_in
from autotuner.devices.environment import capture
from autotuner.errors import AutotuneError, NoCandidateError, OutOfTimeError
from autotuner.iree.compile import first_error
from autotuner.iree.tools import Tools
from autotuner.measure.judge import LEAD_BLOCKS, Judgement, longer
from autotuner.measure.race import ALPHA
from autotuner.microkernels.variants import find_variants
from autotuner.problems import Array, Problem
from autotuner.space import ABSENT, Config
from autotuner.store.keys import run_key
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import read_by_flags
from autotuner.system.progress import Clock, Reporter, Stop
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning import reproduce
from autotuner.tuning.calibrate import calibrate
from autotuner.tuning.contest import LEADERS, best_stock, judge_finalists, lead_of_search
from autotuner.tuning.estimate import rank
from autotuner.tuning.evaluate import Evaluator, Outcome
from autotuner.tuning.loop import LEAST_TIMINGS, RACE_TIMINGS, Loop
from autotuner.tuning.options import Options
from autotuner.tuning.plan import BASELINE, Candidate, Plan
from autotuner.tuning.result import FinalVerdict, Result
from autotuner.tuning.session import Session, ends
from autotuner.tuning.ship import Shipped, outputs, ship

_LEAD_TIMINGS = 3 * (LEADERS + 1) * LEAD_BLOCKS
"""What a lead takes, with what building the finalists costs."""
RANKED = 10
"""How many candidates a run without a device reports."""


def tune(
    problem: Problem,
    target: Target,
    *,
    options: Options | None = None,
    reporter: Reporter | None = None,
    stop: Stop | None = None,
    tools: Tools | None = None,
) -> Result:
    """Searches for a configuration that beats IREE's default, and proves what it claims."""
    options = options or Options()
    prepared = target.prepare(problem)
    with Session.open(target, options, reporter=reporter, stop=stop, tools=tools) as session:
        return search(prepared, target, options=options, session=session).result


@dataclass(frozen=True)
class Found:
    """A run's result, and the candidate behind it with the plan that made it."""

    result: Result
    plan: Plan
    winner: Candidate | None
    """The one that won; without a device, the most promising of those that were built."""
    leader: Candidate | None = None
    """Where the time was too short for a verdict: the fastest so far, which others may still put to the test."""


def search(problem: Problem, target: Target, *, options: Options, session: Session) -> Found:
    """One run within a session; with `--resume`, a finished run of the same problem stands when `recall` is set."""
    run = _Run(problem, target, options, session)
    run.claim_outputs()
    with process.until(run.clock.latest):
        run.read_space()
        result = run.recalled() if options.resume and options.recall else None
        return Found(result or run.go(), run.plan, run.winner, run.leader)


@dataclass
class _Run:
    """One run's state, and its steps in order."""

    problem: Problem
    target: Target
    options: Options
    session: Session
    winner: Candidate | None = None
    leader: Candidate | None = None
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("space", "build", "time", "search"), 0.0))
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        effort = self.options.effort
        self.device, self.reporter, self.stop = self.session.device, self.session.reporter, self.session.stop
        self.tools, self.workspace = self.session.tools, self.session.workspace
        self.store, self.executor = self.session.store, self.session.executor
        self.clock = Clock(self.options.budget or effort.budget)
        default = effort.compile_only_trials if self.device == NO_DEVICE else effort.trials
        self.trials = self.options.trials or default
        self.jobs = self.options.jobs or usable_cores()
        self.builder = Builder(self.tools, Cache(cache_dir()))

    # --- the run ------------------------------------------------------------------------------------------------

    def claim_outputs(self) -> None:
        """Before anything is compiled: what cannot be written is no surprise at the end."""
        self.files = outputs(self.problem, self.target, self.options, self.workspace)
        if self.options.ship:
            objects = [path for kernel in self.options.microkernels for path in kernel.objects]
            self.files.claim([*objects, *files_in(self.target.user_flags)])

    def read_space(self) -> None:
        self.reporter.stage("reading the space from the compiler")
        started = time.monotonic()
        self.plan = Plan.make(
            self.problem, self.target, self.builder, self.executor, timeout=self.options.effort.compile_timeout
        )
        variants, left_out = find_variants(
            self.options.microkernels,
            self.problem,
            self.target,
            device=self.device,
            workspace=self.workspace.root,
            executable_target=self.plan.executable_target,
        )
        self.plan = self.plan.with_kernels(variants, alone=self.options.microkernels_alone)
        self.plan = self.plan.with_seeds(self.options.seeds)
        if self.options.microkernels_alone:
            for kernel in variants:
                kernel.call(kernel.default())  # In an experiment a kernel that does not fit is an error, at once.
        self.seconds["space"] = time.monotonic() - started
        for note in left_out:
            self._note(note)
        for note in self.plan.notes:
            self._note(note)

    def recalled(self) -> Result | None:
        """The result of a finished run of this very problem, with its winner."""
        earlier = self.store.finished_run(self._key())
        if earlier is None or earlier.result is None:
            return None
        with self.store.intact():
            result = Result.from_json(earlier.result, workspace=self.workspace.root, storage=self.options.storage)
        config = Config(tuple((result.best or {}).get("config", {}).items()))
        if result.verdict == "win" or result.ranking or (result.verdict == "inconclusive" and config.items):
            whole = self._complete(config)
            if whole not in self.plan.space:
                return None  # this version of the space does not have it any more
            candidate = self.plan.candidate(whole, id="recalled")
            if result.verdict == "inconclusive":
                self.leader = candidate
            else:
                self.winner = candidate
        return result

    def _complete(self, config: Config) -> Config:
        """A result leaves out the knobs that its route or pipeline does not have."""
        known = config.as_dict()
        return Config(tuple((knob.name, known.get(knob.name, ABSENT)) for knob in self.plan.space.knobs))

    def go(self) -> Result:
        self._open_run()
        environment = capture(self.device, self.tools).as_dict()
        self.store.record_environment(self.run, environment)
        with ends(self.store, self.run):
            try:
                result = self._steps(environment)
            except AutotuneError:
                self._clean()
                raise
        self.store.record_verdict(self.run, result.verdict, result.to_json())
        self.store.finish_run(self.run, "interrupted" if result.interrupted else "finished", result=result.to_json())
        self._clean()
        return result

    def _steps(self, environment: dict[str, object]) -> Result:
        if self.device == NO_DEVICE:
            self.reporter.stage("building and proving candidates")
            self.loop.compile_only()
            default = self.evaluator.outcomes.get(BASELINE)
            if default is not None and default.failure is not None:
                why = first_error(default.detail)
                raise NoCandidateError(f"IREE's default does not compile: {why}", remedy="Check --flag and --target.")
            return self._estimated(environment)
        try:
            return self._timed(environment)
        except OutOfTimeError:
            reason = f"the time was up before IREE's default was timed: {longer(2 * self.clock.budget)}"
            return self._result("inconclusive", reason, None, None, environment)

    def _timed(self, environment: dict[str, object]) -> Result:
        self.reporter.stage("timing IREE's default")
        if noise := calibrate(
            self.evaluator,
            self.loop,
            tools=self.tools,
            device=self.device,
            effort=self.options.effort,
            seed=self.options.seed,
            inputs=self.options.inputs,
        ):
            self._note(noise)
        if (missing := self.loop.least_seconds() - self.clock.left) > 0 and not self.stop.requested:
            reason = f"too short a time for any verdict here: {longer(self.clock.budget + missing)}"
            return self._result("inconclusive", reason, None, None, environment)
        self.loop.keep_time_for_the_race()
        if self.plan.stock:
            self.reporter.stage(f"timing {len(self.plan.stock)} stock routes")
            self.loop.evaluate(self.plan.stock)
        self.reporter.stage(f"searching {len(self.plan.space)} configurations")
        self.loop.search()
        if self.stop.requested:
            return self._result("inconclusive", "interrupted before the race", None, None, environment)
        if not self.options.race:
            return self._leading(environment)
        judgement = judge_finalists(self.loop, self.options.effort)
        self.winner = self._outcome(judgement.winner).candidate if judgement.winner else None
        if judgement.verdict == "inconclusive":
            self.leader = self.evaluator.leader()
        shipped = self._ship(judgement) if self.options.ship else None
        return self._result(judgement.verdict, judgement.reason, judgement, shipped, environment)

    def _leading(self, environment: dict[str, object]) -> Result:
        """No race: the caller compares the one that is ahead within something larger."""
        judgement = lead_of_search(self.loop, self.options.effort)
        if judgement.leader is None:
            return self._result(judgement.verdict, judgement.reason, None, None, environment)
        leading = self._outcome(judgement.leader)
        self.leader = leading.candidate
        result = self._result(judgement.verdict, judgement.reason, None, None, environment)
        best = self._best(leading, dict(judgement.us))
        return replace(result, best=best, baseline={**result.baseline, "us": judgement.us[BASELINE]})

    def _outcome(self, name: str) -> Outcome:
        return self.evaluator.outcomes[name]

    def _estimated(self, environment: dict[str, object]) -> Result:
        """Nothing was timed: the ranking is by what the machine code promises, and says so."""
        ranked = rank(self.evaluator.outcomes.values(), self.target)[:RANKED]
        reason = "no device: built and proven, not timed"
        if not ranked:
            if self.options.output is not None:
                self._note(f"nothing is written to {self.options.output}: all that was built is the default")
            return self._result("compile-only", reason, None, None, environment)
        best = ranked[0][0]
        self.winner = best.candidate
        if "best" in self.options.keep:
            self.evaluator.keep_folder(best)
        shipped = self._ship_files(None, best) if self.options.ship and self.options.output is not None else None
        result = self._result("compile-only", f"{reason}; the ranking is an estimate", None, shipped, environment)
        ranking = tuple({**(self._best(o, {}) or {}), "estimate": e.to_json()} for o, e in ranked)
        return replace(result, best=ranking[0], ranking=ranking)

    def _key(self) -> str:
        return run_key(
            problem={
                **self.problem.describe(),
                "arguments": (*self.problem.arguments(), *_digests(self.options.inputs)),
            },
            target=f"{self.target.name}/{self.device}/{self.options.seed}",
            flags=self.target.user_flags,
            reads=self._reads(),
        )

    def _reads(self) -> list[str]:
        """What earlier timings depend on beside the question's words: programs, microkernels, files that flags name."""
        files = read_by_flags(self.target.user_flags, folder=self.workspace.candidates)
        kernels = [variants.digest() for _, variants in sorted(self.plan.kernels.items())]
        return [*self.tools.programs, *kernels, *files]

    def _open_run(self) -> None:
        key = self._key()
        earlier = self.store.unfinished_run(key) if self.options.resume else None
        if self.options.resume and earlier is None and (outdated := self.store.outdated_run(key)) is not None:
            self._note(f"run {outdated.id} is not gone on with: IREE, a microkernel or a file of --flag is another now")
        if earlier is None:
            self.run = self.store.start_run(
                key=key,
                command=self.options.command,
                problem=self.problem.describe(),
                target=self.target.name,
                device=self.device,
                seed=self.options.seed,
                space_size=len(self.plan.space),
            )
        else:
            self.run = earlier.id
            self.store.resume_run(earlier.id)
        self.folder = self.workspace.run_folder(self.run)
        self.evaluator = Evaluator(
            plan=self.plan,
            builder=self.builder,
            store=self.store,
            run=self.run,
            folder=self.folder,
            keep=frozenset(self.options.keep),
            compile_timeout=self.options.effort.compile_timeout,
        )
        self.loop = Loop(
            self.evaluator,
            self.executor,
            self.clock,
            self.stop,
            self.reporter,
            seed=self.options.seed,
            trials=self.trials,
            jobs=self.jobs,
            seconds=self.seconds,
            race_timings=RACE_TIMINGS if self.options.race else _LEAD_TIMINGS,
            least_timings=LEAST_TIMINGS if self.options.race else 2 * LEAD_BLOCKS,
        )
        if earlier is not None:
            rows = self.store.candidates(earlier.id)
            binaries = {build.candidate: build.binary for build in self.store.builds(earlier.id)}
            self.loop.unfinished = self.evaluator.restore(rows, binaries)
            self._note(f"going on with run {earlier.id}: {sum(r.us is not None for r in rows)} candidates are timed")

    # --- the end ------------------------------------------------------------------------------------------------

    def _ship(self, judgement: Judgement) -> Shipped | None:
        if judgement.winner is None:
            return None
        self.reporter.stage("shipping, and compiling once more with what is shipped")
        winner = self._outcome(judgement.winner)
        if winner.build is None:
            with process.however_late():
                winner.build = self.evaluator.build(winner.candidate)
        if "best" in self.options.keep:
            self.evaluator.keep_folder(winner)
        return self._ship_files(judgement, winner)

    def _ship_files(self, judgement: Judgement | None, winner: Outcome) -> Shipped:
        with process.however_late():
            return ship(
                self.plan,
                judgement,
                winner,
                files=self.files,
                builder=self.builder,
                device=self.device,
                command=reproduce.command(
                    self.problem,
                    self.target,
                    self.options,
                    device=self.device,
                    tools=self.tools,
                    budget=self.clock.budget,
                    trials=self.trials,
                ),
                timeout=self.options.effort.compile_timeout,
            )

    def _result(
        self,
        verdict: FinalVerdict,
        reason: str,
        judgement: Judgement | None,
        shipped: Shipped | None,
        environment: dict[str, object],
    ) -> Result:
        outcomes = self.evaluator.outcomes
        timed = [o for o in outcomes.values() if o.contends]
        stock = self._outcome(judgement.stock) if judgement else best_stock(self.evaluator) if timed else None
        won = self._outcome(judgement.winner) if judgement and judgement.winner else None
        best = won or min(timed, key=lambda o: o.us or math.inf, default=None)
        us = dict(judgement.us) if judgement else {}
        self.seconds["total"] = self.clock.elapsed
        return Result(
            run=self.run,
            problem=self.problem.describe(),
            target=self.target.name,
            device=self.device,
            verdict=verdict,
            reason=reason,
            baseline=self._entry(outcomes.get(BASELINE), us),
            stock=self._entry(stock, us),
            best=self._best(best, us),
            speedup=judgement.speedup if judgement else None,
            speedup_over_stock=judgement.over_stock if judgement else None,
            confidence=1 - ALPHA,
            spec=shipped.spec if shipped else None,
            flagfile=shipped.flagfile if shipped else None,
            carrier=shipped.carrier if shipped else None,
            counts=self.evaluator.counts(),
            seconds=self.seconds,
            environment=environment,
            notes=tuple(self.notes),
            interrupted=self.stop.requested,
            workspace=self.workspace.root,
            storage=self.options.storage,
        )

    def _entry(self, outcome: Outcome | None, us: dict[str, float]) -> dict[str, object]:
        if outcome is None:
            return {"us": None, "flags": []}
        # A candidate that an earlier part of a resumed run has timed is not built again.
        isa = outcome.build.isa if outcome.build else self.store.isa(self.run).get(outcome.row, NO_FIGURES)
        return {
            "us": us.get(outcome.candidate.id, outcome.us),
            "flags": list(outcome.candidate.route.flags),
            "route": outcome.candidate.route.name,
            "isa": isa.to_json(),
        }

    def _best(self, outcome: Outcome | None, us: dict[str, float]) -> dict[str, object] | None:
        if outcome is None:
            return None
        entry = self._entry(outcome, us)
        kind = "microkernel" if outcome.candidate.kind == "microkernel" else "codegen"
        return {**entry, "config": outcome.candidate.knobs, "kind": kind, "candidate": outcome.candidate.id}

    def _clean(self) -> None:
        """What is not kept goes: builds that the deadline overtook, and the inputs when no candidate needs them."""
        kept = {path.parent.name for path in self.folder.glob("*/command.txt")}
        for path in list(self.folder.glob("*")) if kept else [self.folder]:
            if path.name not in kept | {"inputs"}:
                shutil.rmtree(path, ignore_errors=True)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.reporter.note(text)


def _digests(inputs: Sequence[Array]) -> list[str]:
    """A run on inputs of one's own is another run."""
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in inputs]
