"""The run over a model: routes, dispatches, the tuning of each, and the whole put together and raced."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from typing import Unpack

from autotuner.errors import OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.jobs.model.choice import Routes, choose
from autotuner.jobs.model.context import Context, model_outputs
from autotuner.jobs.model.dispatches import Dispatches, measure_shares
from autotuner.jobs.model.ending import end_schedule, kept_now, longest_compile
from autotuner.jobs.model.expectation import Known, expectation, expected_seconds, too_small
from autotuner.jobs.model.first_kernels import FirstKernels, Kept, try_kernels, untimed_kernels
from autotuner.jobs.model.lineup import Lineup
from autotuner.jobs.model.mixed import put_together
from autotuner.jobs.model.nothing import Tried, without_device
from autotuner.jobs.model.pieces import PieceRoute
from autotuner.jobs.model.promising import Chosen, worth_tuning
from autotuner.jobs.model.reading import question_of, question_unread, read_model, structure_of
from autotuner.jobs.model.result import ModelDetails, ModelResult
from autotuner.jobs.model.routes import RouteOutcome, RouteRace, UnendedCallError, side
from autotuner.jobs.model.summary import Summary
from autotuner.jobs.model.where import time_cold
from autotuner.jobs.model.whole import Tuned, WholeModel
from autotuner.jobs.model.won_routes import routes_that_won
from autotuner.jobs.opening import MIN_TIME, model_clock, model_program
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import Schedule, longer
from autotuner.programs.model import Model
from autotuner.programs.structure import ModelStructure
from autotuner.system import process
from autotuner.targets import PLAIN, Target
from autotuner.targets.base import without_wrong_attention
from autotuner.tuning.options import Options
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.run import Account, Run
from autotuner.tuning.session import Session, Watched
from autotuner.tuning.too_short import too_short

_CLEARLY = 1.2
"""Times faster than the default: a verdict on what is so far ahead comes before the tuning of dispatches."""
_WHOLE = 0.3
"""Without a device, of the time: for compiling the whole."""


def tune_model(
    model: Model,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> ModelResult:
    """Makes a model faster: by flags, and by a spec for the dispatches that take its time."""
    options = options or Options()
    with Session.open(target, options, **watched) as session:
        return tune_within(model, target, options=options, session=session)


def tune_within(model: Model, target: Target, *, options: Options, session: Session) -> ModelResult:
    """The same within a session."""
    model_outputs(model, target, options, session.workspace).claim(model.files(target))
    account = Account(session.reporter, model_clock(options, session))
    with process.until(account.clock.latest), process.ended_by_an_error():
        try:
            found = read_model(model, target, options, session, account)
        except OutOfTimeError:
            question = question_unread(model, target, session)
            return too_short(question, session=session, options=options, account=account, details=ModelDetails())
        target, said = without_wrong_attention(target, found.plain.head_widths)
        if said:
            account.note(said)
            plain = structure_of(model, target, options, found.builder, account, {})
            found = replace(found, plain=plain, ahead={})
        question = question_of(model, found.builder.program, target, session, found.plain)
        with Run.begin(question, session=session, options=options, account=account) as run:
            context = Context(model, found.builder.program, found.builder, run, ahead=found.ahead)
            return _ModelRun(context, found.plain, Summary(context)).go()


@dataclass
class _ModelRun:
    """One run's steps in order."""

    context: Context
    plain: ModelStructure
    found: Summary
    kernels: FirstKernels | None = None
    """By their defaults; tried before most routes where they compute nearly all of the model."""
    least: float = 0.0
    """Seconds, where the budget was seen to be too small for a verdict."""

    def _kept(self, *, files: bool) -> float:
        """Seconds that are kept for the race, its confirmation and the proof of what ships, as things stand now."""
        return kept_now(self._schedule(files=files), self.context.clock.budget, ahead=self._ahead)

    def _schedule(self, *, files: bool) -> Schedule:
        """What ships with `files` beside its flags is compiled once more."""
        made = self.compiling if files else 0.0
        return end_schedule(self.context, self.found.tried, tuned=self._with_kernels, made=made)

    @property
    def _ahead(self) -> bool:
        """Something was faster than the default."""
        return len(self.found.lineup.modules) > 1 or bool(self._with_kernels)

    @property
    def compiling(self) -> float:
        """Seconds of the longest compile so far."""
        # To pack weights for kernels, or to fold a batch norm into these, may take longer than any route's compile.
        return longest_compile(self.context, self.found.tried, also=[one.build for one in self._with_kernels])

    @property
    def _with_kernels(self) -> list[Tuned]:
        """The model with microkernels by their defaults."""
        made = self.kernels.made if self.kernels else None
        return [made] if made else []

    def go(self) -> ModelResult:
        context = self.context
        try:
            result = self._timed(self.plain) if context.timed else self._compiled(self.plain)
        except UnendedCallError as error:
            result = self.found.result("inconclusive", f"{error.message}; a verdict takes several calls")
        except OutOfTimeError:
            reason = f"the time was up before a race of whole models: {longer(2 * context.clock.budget)}"
            result = self.found.result("inconclusive", reason)
        self._clean()
        result = self.found.reported(result)
        context.run.finish(result)
        return result

    def _clean(self) -> None:
        """What is left of a run: the tuned models and their inputs, unless --keep wants none."""
        folder = self.context.folder
        if "none" in self.context.options.keep:
            shutil.rmtree(folder, ignore_errors=True)
            return
        kept = {"inputs", *(path.parent.name for path in folder.glob("*/command.txt"))}
        for path in folder.glob("*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    def _timed(self, plain: ModelStructure) -> ModelResult:
        context = self.context
        won = routes_that_won(
            context.session.store,
            context.run.problem,
            target=context.target.name,
            device_name=str(context.run.environment.get("device_name")),
            but=context.run.id,
        )
        routes = choose(context.target, context.model.routes, plain.ops, won=won)
        program = model_program(context.model, plain, context.builder, context.run)
        context.call, self.found.arbiter = program.call, program.arbiter
        benchmark = Benchmark(program.call, MIN_TIME, context.run_timeout)
        race = RouteRace(context, benchmark, program, tried=self.found.tried)
        pieces = PieceRoute(context, race, routes.knobs)

        def told(seconds: float) -> None:
            self._expect(plain, routes, seconds)
            self.kernels = self._kernels(race, plain, early=True)
            self.tell_if_too_short()

        race.all(routes, told=told, then=pieces.try_it)
        with process.until(context.clock.latest):
            result = self._tuned_on(race, plain)
        pieces.keep_if_shipped(result.flagfile)
        return result

    def _expect(self, plain: ModelStructure, routes: Routes, round_seconds: float) -> None:
        """Without --budget, the run says how long it will take as soon as it can tell, and keeps to it."""
        context = self.context
        if context.options.budget is not None:
            return
        settings = sum(len(knob.settings) for knob in routes.knobs)
        known = Known(
            elapsed=context.clock.elapsed,
            round_seconds=round_seconds,
            rounds=math.ceil((len(routes.first) + settings) / side(context)),
            compile_seconds=self.compiling,
            block_seconds=3 * (context.timing_seconds + context.isolated_seconds),
            dispatches=min(len(plain.groups), context.model.top or len(plain.groups)),
        )
        clock, single = context.clock, context.options.effort.budget
        clock.budget = expected_seconds(known, single=single, most=clock.budget)
        context.note(expectation(clock.budget, clock.left))

    def tell_if_too_short(self) -> None:
        """That --budget has no time for a verdict; where kernels are several times as fast, less of it is needed."""
        context = self.context
        best = min((one.us for one in self.found.tried if one.ok and one.us is not None), default=math.inf)
        files = self.kernels is not None and self.kernels.us < best
        least = context.clock.elapsed + self._schedule(files=files).least
        if context.options.budget is not None and least > context.clock.budget:
            self.least = least
            context.note(too_small(context.clock.budget, least))

    def _tuned_on(self, race: RouteRace, plain: ModelStructure) -> ModelResult:
        """The dispatches of the routes that promise most, and the race of what came out."""
        context, call = self.context, race.call
        if not context.session.stop.requested:
            self.kernels = kernels = self._kernels(race, plain)
            # The tuned model is compiled before it races, and once more when something is dropped.
            reserve = 2 * self.compiling + self._kept(files=True)
            chosen: list[Chosen] = []
            clearly = self._schedule(files=False).gain >= _CLEARLY
            if kernels is not None or not clearly or context.clock.left > reserve:
                chosen = worth_tuning(context, self.found.tried, call, plain, reserve=reserve, kernels=kernels)
            else:
                missing = longer(context.clock.budget + reserve - context.clock.left)
                context.note(f"no time to tune dispatches beside a verdict on routes: {missing}")
            for dispatches, tried, budget in chosen:
                self.found.parts.append(dispatches)
                own = kernels if kernels is not None and dispatches is kernels.dispatches else None
                whole = WholeModel(dispatches, tried, race, self._kept(files=True))
                self.found.tuned += self._tune(whole, own, budget)
            if kernels is not None and not any(part is kernels.dispatches for part in self.found.parts):
                self._leave(kernels)
            race.go_on(ended=lambda: context.clock.budget - self._kept(files=bool(self.found.tuned)))
        if context.session.stop.requested:
            return self.found.result("inconclusive", "interrupted before the race")
        if self.found.arbiter is not None and self.found.arbiter.default_is_wrong:
            # Some may have been compared with the default, before it was known to be wrong.
            self.found.tuned = [made for made in self.found.tuned if race.check(made.build).ok]
        judgement = self._race(race)
        return self.found.judged(judgement)

    def _kernels(self, race: RouteRace, plain: ModelStructure, *, early: bool = False) -> FirstKernels | None:
        """Every microkernel by its defaults: a verdict on that needs less time than a search and a race."""
        schedule = self._schedule(files=True)
        racing = schedule.kept_of(self.context.clock.budget)
        kept = Kept(verdict=min(schedule.least, racing), racing=racing)
        return try_kernels(race, plain, kept=kept, compiling=self.compiling, before=self.kernels, early=early)

    def _leave(self, kernels: FirstKernels) -> None:
        """Microkernels that are too far behind to be searched: the model with them races as it is."""
        self.found.parts.append(kernels.dispatches)
        kernels.dispatches.kernels.decide({}, kernels.made.kernels if kernels.made else ())
        self.found.tuned += [kernels.made] if kernels.made else []

    def _tune(self, whole: WholeModel, kernels: FirstKernels | None, budget: float) -> list[Tuned]:
        """The search, beside the microkernels that stand by their defaults, then all that it found."""
        first = kernels.made if kernels else None
        gains = kernels is not None and kernels.gains
        standing = first.kernels if first else ()
        entries = whole.dispatches.tune(budget=budget, standing=standing, gains=gains)
        if self.context.session.stop.requested:
            return [first] if first else []
        return put_together(whole, entries, first)

    def _compiled(self, plain: ModelStructure) -> ModelResult:
        """Without a device: the most promising candidate of each dispatch, proven in the model."""
        context = self.context
        # One route at a time can be taken without timing: the user's, or the plain one.
        wanted = context.model.routes
        route = choose(context.target, wanted, plain.ops).named(wanted[0]) if wanted else PLAIN
        structure = plain if route == PLAIN else context.configured(route)
        dispatches = Dispatches(context, route, structure, measure_shares(context, route, structure, None, None))
        self.found.parts.append(dispatches)
        tried = RouteOutcome(route, 0)
        self.found.tried = [tried]
        whole = WholeModel(dispatches, tried, None)
        first = untimed_kernels(whole, structure)
        standing = first.kernels if first else ()
        entries = dispatches.tune(budget=(1 - _WHOLE) * context.clock.left, standing=standing, gains=bool(standing))
        self.found.tuned = put_together(whole, entries, first)
        verdict, reason, cause = without_device(self.found.tuned, list(dispatches.rows.values()))
        if self.found.tuned and context.options.output is not None:
            return self.found.shipped(self.found.tuned[-1], verdict, reason)
        result = replace(self.found.result(verdict, reason), cause=cause)
        candidate = context.folder / self.found.tuned[-1].name if self.found.tuned else None
        return replace(result, details=replace(result.details, candidate=candidate))

    # --- the end ------------------------------------------------------------------------------------------------

    def _race(self, race: RouteRace) -> Judgement:
        """The default, the best route and what tuning made of routes, as whole models."""
        context, lineup = self.context, self.found.lineup
        if len(lineup.modules) == 1:
            return self._nothing_to_race(lineup, more_routes=race.search.has_more)
        benchmark, schedule = race.benchmark, self._last_schedule(lineup)
        if schedule.too_late and lineup.tuned and len(lineup.routes) > 1:
            would_do = schedule.would_do(schedule.enough)
            context.note(f"no time to race and to compile again what has files beside its flags: {would_do}")
            self.found.tuned = []
            lineup = self.found.lineup
            schedule = self._last_schedule(lineup)
        judgement = lineup.race(context, benchmark, schedule=schedule)
        kept = schedule.shipping if judgement.winner else 0.0
        modules, rows, left = lineup.modules, lineup.rows, context.clock.left - kept
        self.found.caches = time_cold(context, benchmark, modules, rows, judgement, left=left)
        return judgement

    def _last_schedule(self, lineup: Lineup) -> Schedule:
        """Of those that race no others can ship."""
        racing = [one for name, one in lineup.routes.items() if name != BASELINE]
        made = longest_compile(self.context, (), also=[one.build for one in lineup.tuned])
        return end_schedule(self.context, [lineup.default, *racing], tuned=lineup.tuned, made=made)

    def _nothing_to_race(self, lineup: Lineup, *, more_routes: bool) -> Judgement:
        us = {BASELINE: lineup.base.us or 0.0}
        rows = [row for part in self.found.parts for row in part.rows.values()]
        results = [result for part in self.found.parts for result in part.results]
        tried = Tried.of(self.found.tried, rows, results, more_routes=more_routes)
        wanted = max(2 * self.context.clock.budget, self.least)
        return replace(lineup.alone() or tried.judged(wanted=wanted), us=us)
