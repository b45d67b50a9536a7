"""Which stock flags suit a whole model: routes are compiled side by side, compared with the default, and timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial

from autotuner.devices.device import Computed, Timing
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError
from autotuner.iree.compile import Compiled, FailureClass, first_error
from autotuner.iree.run import Benchmark, failed_because, known_remedy
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.route_search import Routes, RouteSearch
from autotuner.measure.check import Check
from autotuner.measure.contest import SLOW_US, Takes, take_turns, timed_by
from autotuner.measure.schedule import beginning
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.program import ModelProgram
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.system.settings import usable_cores
from autotuner.targets import PLAIN, Route

GIVE_UP = 1.5
"""A route that takes so many times what the best does is timed by one repetition and no more."""
_NEAREST = 3
"""So many of those that were not given up are timed once more, in turns: one of them may have been lucky."""
_SIDE = 8
"""Compiles at once, at most: each holds the model's weights."""
_LATE = 1.1
"""Times what routes have: then those under way are given up."""


def side(context: Context) -> int:
    """How many routes are compiled side by side."""
    return max(2, min(context.options.jobs or usable_cores(), _SIDE))


@dataclass
class RouteRace:
    """Compiles routes side by side and times them one by one; what fails is a row."""

    context: Context
    benchmark: Benchmark
    """How a whole model is timed."""
    program: ModelProgram
    """The model, how it is called, and whose outputs are right."""
    tried: list[Contestant] = field(default_factory=list)
    search: RouteSearch = field(default_factory=lambda: RouteSearch(()))
    round_seconds: float = 0.0
    """For compiling some routes side by side and timing them."""
    _flights: dict[Future[Compiled], Contestant] = field(default_factory=dict)
    """Routes whose compile is under way."""

    def begin(self, routes: Routes) -> None:
        """The default, and the first routes beside it."""
        self.search = RouteSearch(routes.knobs, list(routes.first[1:]))
        self._start([PLAIN, *self.search.ask(side(self.context) - 1)], timeout=self.context.compile_timeout)
        self._settle()
        # No other round has the default in it, which may take ten times a route's time.
        built = max((one.build.seconds for one in self.tried if one.build), default=0.0)
        self.round_seconds = built + sum(3 * (one.us or 0.0) / 1e6 for one in self.tried[1:])

    def rounds(self, ends: Callable[[], float]) -> None:
        """Compiles and times routes: a round is begun if it is expected to be over after so many seconds of the run.

        It takes about as long as the last one.
        """
        context, clock = self.context, self.context.clock
        while not context.session.stop.requested and (self._flights or self.fits(ends())):
            free = side(context) - len(self._flights) if self.fits(ends()) else 0
            asked = self.search.ask(free)
            if not asked and not self._flights:
                break
            started = time.monotonic()
            took = next((one.build.took for one in self.tried if one.build), 0.0)
            with process.until(clock.at(min(_LATE * ends(), clock.budget))):
                self._start(asked, timeout=max(60.0, 5 * took))
            self._settle()
            self.round_seconds = time.monotonic() - started
        while self._flights:
            self._settle()

    def fits(self, ends: float) -> bool:
        """One more round, before so many seconds of the run."""
        return self.context.clock.elapsed + self.round_seconds < ends

    def tell_missed(self) -> None:
        """Routes that had no time are named."""
        if self.search.queue:
            names = ", ".join(route.name for route in self.search.queue)
            what = "route" if len(self.search.queue) == 1 else "routes"
            self.context.note(f"no time for {what} {names}: give a longer --budget, or name them by --route")

    @property
    def right(self) -> list[Contestant]:
        """Those that are right, the fastest first."""
        return sorted((one for one in self.tried if one.ok), key=lambda one: one.us or math.inf)

    @property
    def best_us(self) -> float:
        return self.right[0].us or math.inf if self.right else math.inf

    def takes(self, *some: Contestant) -> Takes:
        """How these are timed in turns."""
        modules = {one.id: one.module for one in some}
        call_us = {one.id: one.us for one in some if one.us is not None}
        return timed_by(self.context.session.runner, self.benchmark, modules, call_us=call_us)

    def check(self, build: Compiled) -> Check:
        """Does it compute what is right? What is known of others may change with the answer."""
        return self._judged(self.program.outputs(build.vmfb))

    @property
    def arbiter(self) -> Arbiter:
        return self.program.arbiter

    def _start(self, routes: Sequence[Route], *, timeout: float) -> None:
        context = self.context
        if routes:
            names = ["IREE's default" if route == PLAIN else f"route {route.name}" for route in routes]
            context.stage(f"compiling {', '.join(names)}")
        for route in routes:
            row = context.row("baseline" if route == PLAIN else "stock", route)
            build = context.ahead.pop(route, None)
            if build is None:
                build = context.session.executor.start(context.builder.job(context.flags(route), timeout=timeout))
            self._flights[build] = Contestant.of(route, row)

    def _settle(self) -> None:
        """Waits for builds and times them; where that needs the cores, for all."""
        all_of_them = self.context.target.compiles_on_device
        # Everything is compared with the default: until it is there, nothing can be told.
        first = [one for one, flight in self._flights.items() if flight.route == PLAIN and not all_of_them]
        with self.context.clocked("build"):
            done, _ = wait(first or self._flights, return_when=ALL_COMPLETED if all_of_them else FIRST_COMPLETED)
        # In the order in which they were asked for: the default before all others.
        for future in [one for one in self._flights if one in done]:
            one = self._flights.pop(future)
            try:
                build = future.result()
                self.context.record_build(one.row, build, self.context.flags(one.route))
                one = replace(one, build=build)
                one = self._default(one, build) if one.route == PLAIN else self._try(one, build)
            except OutOfTimeError:
                if one.route == PLAIN:
                    raise
                self.context.note(f"route {one.route.name}: no time for it, a longer --budget would make some")
                continue
            self.tried.append(one)
            self.search.tell(one.route, one.us if one.ok else None)

    def _default(self, default: Contestant, build: Compiled) -> Contestant:
        """The baseline must compile and run. It is timed also where it is known to be wrong."""
        context, name = self.context, self.context.builder.program.name
        context.stage("timing IREE's default")
        if not build.ok:
            raise NoCandidateError(
                f"IREE's default does not compile {name}: {first_error(build.stderr)}",
                remedy="Check the model, --flag and --target.",
            )
        with beginning("the first call of IREE's default"):
            outputs = self.program.outputs(build.vmfb)
        if outputs.failure is not None:
            raise DeviceError(
                f"device {context.session.device!r} does not run {name}: {failed_because(outputs.detail)}",
                remedy=known_remedy(outputs.detail)
                or "Check --input, --parameters and --device; `autotune doctor` lists the devices that answer.",
            )
        check = self.arbiter.begin(outputs, again=partial(self.program.outputs, build.vmfb))
        started = time.monotonic()
        default = replace(default, error=_error(check))
        if outputs.seconds is not None and 1e6 * outputs.seconds > SLOW_US:  # a measurement by itself
            timed = self._timed(default, Timing((1e6 * outputs.seconds,)))
        else:
            timed = self._time(default, build, give_up_us=SLOW_US)
        if not timed.ok:
            raise DeviceError(f"the model cannot be timed: {failed_because(timed.detail)}", remedy="Check --device.")
        context.timing_seconds = max(time.monotonic() - started, (timed.us or 0.0) / 1e6)
        context.isolated_seconds = self._isolated_seconds(timed, build)
        return timed if check.ok else self._found_wrong(timed, check)

    def _isolated_seconds(self, timed: Contestant, build: Compiled) -> float:
        """What a timing in a process of its own takes: of a slow model that is known without trying."""
        runner = self.context.session.runner
        if runner.isolated is runner or (timed.us or 0.0) > SLOW_US:
            return self.context.timing_seconds
        started = time.monotonic()
        with self.context.clocked("time"):
            runner.isolated.time(build, self.benchmark)
        return time.monotonic() - started

    def _try(self, one: Contestant, build: Compiled) -> Contestant:
        context = self.context
        if not build.ok:
            return self._failed(one, build.failure or "compile-error", build.stderr)
        if (same := self._same(build)) is not None:
            context.session.store.record_duplicate(one.row, of=same.row)
            context.note(f"route {one.route.name}: the same module as route {same.route.name}")
            return replace(one, us=same.us, error=same.error, duplicate_of=same.id)
        context.stage(f"timing route {one.route.name}")
        check = self.check(build)
        one = replace(one, error=_error(check))
        if check.failure is not None:
            return self._failed(one, check.failure, check.detail)
        context.session.store.record_check(one.row, error=check.error)
        return self._time(one, build, give_up_us=GIVE_UP * self.best_us)

    def _same(self, build: Compiled) -> Contestant | None:
        """A route whose module is the very same; the same executables may still be called in another way."""
        digest = known_digest(build.vmfb)
        return next((one for one in self.tried if one.ok and known_digest(one.module.vmfb) == digest), None)

    def _judged(self, outputs: Computed) -> Check:
        source = self.arbiter.source
        check = self.arbiter.check(outputs)
        if self.arbiter.source != source:
            self._judge_again()
        return check

    def _judge_again(self) -> None:
        """What was compared with the default is compared with what is right."""
        for number, one in enumerate(self.tried):
            if not one.ok:
                continue
            check = self.arbiter.default_check
            if one.route != PLAIN:
                check = self.arbiter.check(self.program.outputs(one.module.vmfb))
            self.tried[number] = replace(one, error=_error(check))
            if not check.ok:
                self.tried[number] = self._found_wrong(self.tried[number], check)
                self.search.tell(one.route, None)

    def _found_wrong(self, one: Contestant, check: Check) -> Contestant:
        """A route that was timed: its time stays."""
        self.context.session.store.record_failure(one.row, "wrong-result", stderr=check.detail)
        return replace(one, failure="wrong-result", detail=check.detail)

    def _time(self, one: Contestant, build: Compiled, *, give_up_us: float) -> Contestant:
        """Three repetitions, or only one where that is not near the best."""
        with self.context.clocked("time"):
            timing = self.context.session.runner.time(build, self.benchmark, give_up_us=give_up_us)
        if not timing.ok:
            return self._failed(one, timing.failure or "run-error", timing.detail)
        return self._timed(one, timing)

    def _timed(self, one: Contestant, timing: Timing) -> Contestant:
        self.context.session.store.record_timing(one.row, timing, phase="screen", block=0)
        self.context.note(f"route {one.route.name}: {timing.median / 1000:.3f} ms")
        return replace(one, us=timing.median)

    def _failed(self, one: Contestant, failure: FailureClass, detail: str) -> Contestant:
        self.context.session.store.record_failure(one.row, failure, stderr=detail)
        self.context.note(f"route {one.route.name}: {failure}, {first_error(detail, most=160)}")
        return replace(one, failure=failure, detail=detail)

    def time_the_nearest(self) -> None:
        """Once more those that can hardly be told from the best, in turns; the faster of two readings counts."""
        different = [one for one in self.right if one.duplicate_of is None]
        near = [one for one in different if (one.us or math.inf) <= GIVE_UP * self.best_us][:_NEAREST]
        if len(near) < 2 or self.best_us > SLOW_US or self.context.session.stop.requested:
            return
        names, rows = [one.id for one in near], {one.id: one.row for one in near}
        store = self.context.session.store

        def record(name: str, block: int, timing: Timing) -> None:
            store.record_timing(rows[name], timing, phase="screen", block=block)

        with self.context.clocked("time"):
            turns = take_turns(
                names, self.takes(*near).race, lambda so_far: () if so_far.blocks else names, record=record
            )
        for one in near:
            again = turns.medians.get(one.id, math.inf)
            self.tried[self.tried.index(one)] = replace(one, us=min(again, one.us or math.inf))


def _error(check: Check) -> float | None:
    return check.error if math.isfinite(check.error) else None
