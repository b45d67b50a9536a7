"""The run over a model: routes, dispatches, the tuning of each, and the whole put together and raced."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from autotuner.carriers.outputs import MODEL
from autotuner.errors import OutOfTimeError
from autotuner.iree.run import Benchmark
from autotuner.jobs.model.contestant import Contestant, longest_build
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import Entry, KernelEntry, Library
from autotuner.jobs.model.kernels import (
    KERNELS,
    KernelTrials,
    Tried,
    kernels_first,
    rank_beside_kernels,
    worth_tuning,
)
from autotuner.jobs.model.known import known_model, known_route
from autotuner.jobs.model.parts import PartSearch
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.route_search import Routes, choose, routes_that_won
from autotuner.jobs.model.routes import RouteRace
from autotuner.jobs.model.shares import measure_shares
from autotuner.jobs.model.summary import Summary, nothing_faster, without_device
from autotuner.jobs.model.whole import WholeModel
from autotuner.jobs.opening import MIN_TIME, Racer, judged, model_program, read_model
from autotuner.measure.audit import unknown
from autotuner.measure.judgement import Judgement
from autotuner.measure.schedule import SHIPPED, Schedule, late
from autotuner.measure.standing import BASELINE
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.problems.operations import OPERATIONS
from autotuner.programs.model import Model
from autotuner.programs.structure import KINDS, ModelStructure
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.targets import PLAIN, Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Job, Question
from autotuner.tuning.session import Watched


def tune_model(
    model: Model,
    target: Target,
    *,
    options: Options | None = None,
    **watched: Unpack[Watched],
) -> ModelResult:
    """Makes a model faster: by flags, and by a spec for the dispatches that take its time."""
    with (
        Job.open(target, options, watched) as job,
        process.until(job.account.clock.latest),
        process.ended_by_an_error(),
    ):
        files = job.outputs(model.name, MODEL)
        files.claim(model.files(target))
        routes = check_words(model, target, job.options, workspace=job.session.workspace.root)
        timed = job.session.timed
        builder, plain = read_model(model, job, whole=timed, others=routes if timed else ())
        with job.begin(_question(builder.program, job, plain)) as run:
            context = Context(model, builder, run, files)
            return _ModelRun(context, plain, Summary(context)).go()


def check_words(model: Model, target: Target, options: Options, *, workspace: Path) -> Sequence[Route]:
    """Refuses wrong names of routes and microkernels, and wrong files, before anything is compiled.

    The routes are those of a model that has every operation.
    """
    model.check_words()
    routes = choose(target, model.routes, set(KINDS.values())).first
    for kernel in options.named_microkernels:
        find(kernel.name, search_folders(workspace), OPERATIONS)
    return routes


def _question(model: Model, job: Job, plain: ModelStructure) -> Question:
    asks = model.describe(flops=plain.flops)
    expected = (known_digest(path) for path in model.expected if path.is_file())
    reads = (*job.session.tools.programs, *model.reads(), *expected)
    problem = {**asks, "ops": sorted(plain.ops)}
    return Question("model", problem, job.target, asks=asks, reads=reads, recalls=True)


@dataclass
class _ModelRun:
    """One run's steps in order."""

    context: Context
    plain: ModelStructure
    found: Summary
    known: Tried | None = None
    """The model with what the registry knows."""

    def go(self) -> ModelResult:
        context = self.context
        try:
            result = self._timed() if context.timed else self._compiled()
        except OutOfTimeError as error:
            result = self.found.judged(Judgement("inconclusive", late(error, context.clock), BASELINE))
        self._clean()
        context.run.finish(result)
        return result

    def _clean(self) -> None:
        """The folders that stay: the tuned models and their inputs, unless --keep wants none."""
        folder = self.context.folder
        if "none" in self.context.options.keep:
            shutil.rmtree(folder, ignore_errors=True)
            return
        kept = {"inputs", *(path.parent.name for path in folder.glob("*/command.txt"))}
        for path in folder.glob("*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)

    # --- the time ---------------------------------------------------------------------------------------------------

    @property
    def _schedule(self) -> Schedule:
        """By what there is so far; what ships, mostly the best of it, is compiled once more.

        That begins with the source, as the default's compile did; builds of others begin in the middle.
        """
        context, some = self.context, [*self.found.tried, *self.found.tuned]
        good = [one for one in some if one.ok]
        default = next((one.us for one in self.found.tried if one.us), 0.0)
        best = min(good, key=lambda one: one.us or math.inf, default=None)
        ships = self._compiling
        if best is not None and best.id != BASELINE and best.build is not None:
            first = self.found.tried[0].build
            ships = max(first.took if first is not None else 0.0, SHIPPED * best.build.took)
        return Schedule(
            context.clock,
            context.timing_seconds,
            context.timing_seconds,
            baseline_us=default,
            best_us=(best.us if best is not None else None) or default,
            lasting=MIN_TIME,
            entrants=2 if len(good) > 1 else 1,
            shipping=ships,
        )

    @property
    def _compiling(self) -> float:
        """Seconds of the longest compile so far, whenever that was."""
        return longest_build(one for one in (*self.found.tried, *self.found.tuned) if one.build and one.build.ok)

    # --- with a device ----------------------------------------------------------------------------------------------

    def _timed(self) -> ModelResult:
        """Routes, and kernels; the dispatches of the most promising one; more routes; the race."""
        stop = self.context.session.stop
        race, routes = self._opened()
        kernels = KernelTrials.open(race, self.plain)
        known = known_route(self.context)
        race.begin(routes, alone=known is not None or (kernels is not None and kernels.computes_most))
        # Microkernels that come first have their knobs from the registry, too: the same is not compiled twice.
        same = known == PLAIN and kernels is not None and kernels.come_first and not self.context.registry.specs
        if known is not None and not same and not stop.requested:
            self._begin_with_known(race, known)
        if kernels is not None and not stop.requested:
            kernels.early(ends=self._schedule.race_begins)
        routes_end = self.context.clock.phase("routes")
        race.rounds(lambda: min(routes_end, self._schedule.race_begins), kept=self._schedule.entrants > 1)
        if not stop.requested:
            race.require_one()
            self._tune(race, kernels)
            race.rounds(lambda: self._schedule.race_begins, kept=self._schedule.entrants > 1)
            race.tell_missed()
        if stop.requested:
            return self.found.result("inconclusive", "interrupted before the race")
        if race.arbiter.default_is_wrong:
            # Some may have been compared with the default, before it was known to be wrong.
            self.found.tuned = [made for made in self.found.tuned if race.check(made.module).ok]
        return self.found.judged(self._judged(race))

    def _opened(self) -> tuple[RouteRace, Routes]:
        """The race of routes, and those that are known."""
        context = self.context
        won = routes_that_won(
            context.session.store,
            context.run.problem,
            target=context.target.name,
            device_name=str(context.run.environment.get("device_name")),
            but=context.run.id,
        )
        if (known := context.known_route) is not None:
            won = list(dict.fromkeys([known.entry.route, *won]))
        program = context.called = model_program(context.model, self.plain, context.builder, context.run)
        # Compiles lie between the timings of routes: a GPU has gone idle meanwhile, and its first calls are slow.
        steady = not context.target.compiles_on_device
        benchmark = Benchmark(program.call, MIN_TIME, context.run_timeout, steady=steady)
        race = RouteRace(context, benchmark, program, tried=self.found.tried)
        return race, choose(context.target, context.model.routes, self.plain.ops, won=won)

    def _begin_with_known(self, race: RouteRace, route: Route) -> None:
        """What the registry knows is the first that is tried: others had a whole search for it."""
        ends = self._schedule.race_begins
        with suppress(OutOfTimeError), process.until(ends):
            whole = known_model(self.context, self.plain, route, race, ends=ends)
            if whole is not None and whole[1] is not None:
                self.known = whole
                self._keep([], [])

    def _keep(self, tuned: Sequence[Contestant], parts: Sequence[PartSearch]) -> None:
        """The fastest of these and of what the registry knows, with its parts."""
        self.found.tuned, self.found.parts = [*tuned], [*parts]
        if self.known is not None and self.known[1] is not None:
            known, best = self.known[1], min((one.us or math.inf for one in tuned), default=math.inf)
            if (known.us or math.inf) < best:
                self.found.tuned, self.found.parts = [known], [self.known[0].parts]

    def _tune(self, race: RouteRace, kernels: KernelTrials | None) -> None:
        """What tuning makes of the route that promises most: where microkernels by their defaults lead, of theirs."""
        context = self.context
        found = kernels.after_routes(ends=self._schedule.race_begins) if kernels is not None else None
        whole, first = found or (None, None)
        if whole is not None:
            whole.ends = self._schedule.race_begins
        if whole is not None and first is not None and (first.us or math.inf) < race.best_us:
            self.found.tuned = [first]
            rank_beside_kernels(whole.parts, whole.on)
        else:
            if whole is not None:
                whole.parts.leave_kernels("the model is not faster with microkernels than the best route")
                self.found.parts = [whole.parts]
            first, whole = None, WholeModel(*worth_tuning(race, self.plain), race, self._schedule.race_begins)
        self.found.parts.insert(0, whole.parts)
        ends = self._schedule.tuning_ends(self._compiling)
        entries, calls = whole.parts.tune(ends=ends, standing=first.kernels if first else ())
        if not context.session.stop.requested:
            self._keep(put_together(whole, entries, calls, first), self.found.parts)

    def _judged(self, race: RouteRace) -> Judgement:
        """The default, the best route and what tuning made of routes, as whole models."""
        context, lineup = self.context, self.found.lineup
        if len(lineup.racing) < 2:
            us = {one.id: one.us or 0.0 for one in lineup.racing}
            return replace(nothing_faster(self.found), us=us)
        schedule = self._schedule
        contest = lineup.contest(smallest_gain=context.options.effort.smallest_gain, seed=context.options.seed)
        if schedule.racing < len(contest.rivals):
            contest = replace(contest, chosen=contest.rivals[0])
        racers = [Racer(one.id, one.row, one.module, one.module, one.us or 0.0) for one in lineup.racing]
        agree = unknown if race.arbiter.default_is_wrong and contest.baseline == BASELINE else None
        with context.clocked("time"):
            return judged(
                *(contest, racers, race.program, race.benchmark, context.run, schedule),
                stage=lambda text: context.stage(f"{text}, as whole models"),
                agree=agree,
            )

    # --- without one ------------------------------------------------------------------------------------------------

    def _compiled(self) -> ModelResult:
        """Without a device: the most promising candidate of each dispatch, proven in the model."""
        context = self.context
        # One route at a time can be taken without timing: the user's, or the plain one.
        wanted = context.model.routes
        route = choose(context.target, wanted, self.plain.ops).named(wanted[0]) if wanted else PLAIN
        structure = self.plain if route == PLAIN else context.configured(route)
        parts = PartSearch(context, route, structure, measure_shares(context, route, structure, None))
        self.found.parts.append(parts)
        self.found.tried = [Contestant.of(route, 0)]
        whole = WholeModel(parts, self.found.tried[0], None, context.clock.end)
        first = None
        if context.options.microkernels:
            first = kernels_first(whole, Library.open(context, parts.executable_target))
        standing = first.kernels if first else ()
        found = parts.tune(ends=context.clock.phase("dispatches"), standing=standing)
        parts.leave_kernels("without a device nothing tells which variant is the fastest")
        self.found.tuned = put_together(whole, *found, first)
        verdict, reason, cause = without_device(self.found)
        if self.found.tuned and context.options.output is not None:
            return self.found.shipped(self.found.tuned[-1], verdict, reason)
        result = replace(self.found.result(verdict, reason), cause=cause)
        candidate = context.folder / self.found.tuned[-1].id if self.found.tuned else None
        return replace(result, details=replace(result.details, candidate=candidate))


def put_together(
    whole: WholeModel, entries: Sequence[Entry], kernels: Sequence[KernelEntry], first: Contestant | None
) -> list[Contestant]:
    """The model with these entries and microkernels; `first` is the one with microkernels by their defaults.

    The faster of the two is raced. Where both together do not work, the entries are tried without kernels.
    """
    route = whole.on.route.name
    known = {entry.label: entry.config for entry in first.kernels} if first else {}
    made = [first] if first else []
    if not entries and {entry.label: entry.config for entry in kernels} == known:
        return made
    try:
        with process.until(whole.ends):
            both = whole.make(f"tuned-{route}-{KERNELS}" if kernels else f"tuned-{route}", entries, kernels)
            if both is None and entries and kernels:
                both = whole.make(f"tuned-{route}", entries)
            made += [both] if both else []
    except OutOfTimeError:
        whole.context.note("no time to compile the model with what was found")
    # Without a device nothing is timed, and the last has the most in it.
    return sorted(made, key=lambda one: one.us or 0.0)[:1] if whole.race else made[-1:]
