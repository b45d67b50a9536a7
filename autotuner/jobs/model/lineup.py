"""Which whole models race: what they are compared with, the best route, and what tuning made of routes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotuner.carriers.carrier import Parts
from autotuner.devices.device import Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.whole import Tuned
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.contest import timed_by
from autotuner.measure.judge import Judge, JudgePhase
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.reference import right_but_slower, told
from autotuner.measure.schedule import Schedule
from autotuner.programs.arbiter import Arbiter
from autotuner.targets import PLAIN
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Measured


@dataclass(frozen=True)
class Lineup:
    """Those that are timed against each other."""

    tried: Sequence[RouteOutcome]
    """The default before all others; there is one."""
    tuned: Sequence[Tuned]

    @property
    def default(self) -> RouteOutcome:
        return self.tried[0]

    @property
    def stock(self) -> RouteOutcome | None:
        """The fastest of the routes that are right; None where none is."""
        good = [t for t in self.tried if t.ok and t.build is not None]
        return min(good, key=lambda t: t.us or math.inf, default=None)

    @property
    def base(self) -> RouteOutcome:
        """What a win is over: the default; where that is wrong and faster than all routes that are right, the best of
        these."""
        stock = self.stock
        faster = stock is not None and (stock.us or math.inf) >= (self.default.us or math.inf)
        return stock if stock is not None and faster and not self.default.ok else self.default

    @property
    def routes(self) -> dict[str, RouteOutcome]:
        """By the names that they race under."""
        found = {BASELINE: self.base}
        if self.stock is not None and self.stock.route not in (PLAIN, self.base.route):
            found[self.stock.route.name] = self.stock
        return found

    def named(self, name: str) -> Tuned:
        """What races under this name: what tuning made of a route, or a route as it is."""
        made = next((t for t in self.tuned if t.name == name), None)
        if made is not None:
            return made
        stock = next(t for t in self.tried if t.route.name == name)
        if stock.build is None:
            raise ValueError("a route without a build cannot be raced")
        return Tuned(stock, name, (), Parts(), stock.build, stock.error, stock.row)

    @property
    def modules(self) -> dict[str, Compiled]:
        built = {name: one.build for name, one in self.routes.items() if one.build is not None}
        return {**built, **{made.name: made.build for made in self.tuned}}

    @property
    def rows(self) -> dict[str, int]:
        return {**{name: one.row for name, one in self.routes.items()}, **{made.name: made.row for made in self.tuned}}

    @property
    def stock_name(self) -> str:
        return next((name for name in self.routes if name != BASELINE), BASELINE)

    @property
    def us(self) -> dict[str, float]:
        """What each took so far. Entries are put in because each is ahead: a model that was not timed has its route's
        time."""
        found = {made.name: made.us or made.tried.us or math.inf for made in self.tuned}
        return found | {name: one.us or math.inf for name, one in self.routes.items()}

    @property
    def order(self) -> list[str]:
        """The fastest first; what tuning made comes before its route."""
        us = self.us
        return sorted([*(made.name for made in self.tuned), *self.routes], key=us.__getitem__)

    def contest(self, context: Context) -> Contest:
        effort = context.options.effort
        complexity = {name: len(one.route.flags) if name != BASELINE else 0 for name, one in self.routes.items()}
        complexity |= {made.name: made.complexity for made in self.tuned}
        labels = {name: f"route {one.route.name}" for name, one in self.routes.items() if one.route != PLAIN}
        return Contest(
            entrants=tuple(Entrant(name, complexity[name]) for name in self.order),
            baseline=BASELINE,
            stock=self.stock_name,
            rules=Rules(smallest_gain=effort.smallest_gain),
            seed=context.options.seed,
            labels={BASELINE: "the default", **labels},
        )

    def race(self, context: Context, benchmark: Benchmark, *, schedule: Schedule) -> Judgement:
        modules, rows = self.modules, self.rows

        def record(phase: JudgePhase, name: str, block: int, timing: Timing) -> None:
            context.session.store.record_timing(rows[name], timing, phase=phase, block=block)

        contest = self.contest(context)
        if schedule.racing < len(contest.rivals):
            contest = replace(contest, chosen=contest.rivals[0])
        judge = Judge(
            contest,
            timed_by(context.session.runner, benchmark, modules, call_us=self.us),
            schedule.judging,
            context.session.stop,
            schedule.pair,
            record,
            stage=lambda text: context.stage(f"{text}, as whole models"),
        )
        with context.clocked("time"):
            return schedule.told(judge.verdict())

    def told(self, judgement: Judgement, arbiter: Arbiter) -> str:
        """The reason of a verdict; where the default is wrong that comes first, with what a win is over."""
        route = None if self.base is self.default else self.base.route.name
        return told(arbiter.words, judgement.verdict, judgement.reason, route=route)

    def alone(self) -> Judgement | None:
        """The verdict where the default is wrong and nothing is left to race; None where it is right."""
        if self.default.ok:
            return None
        if self.stock is None:
            return Judgement("no-winner", "nothing that was tried gives right ones", BASELINE)
        reason = right_but_slower(self.stock.route.name, self.stock.us, self.default.us)
        return Judgement("no-winner", reason, BASELINE)


def measured(one: RouteOutcome | None, us: float | None) -> Measured:
    """A route with its time in the race; with that of before where it was not in one."""
    if one is None:
        return Measured()
    return Measured(one.us if us is None else us, tuple(one.route.flags), one.route.name)


def raced_as(stock: RouteOutcome | None, base: RouteOutcome | None) -> str:
    """The name of the best route in a race."""
    return BASELINE if stock is None or base is None or stock.route == base.route else stock.route.name
