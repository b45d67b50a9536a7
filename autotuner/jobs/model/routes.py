"""Which stock flags suit a whole model: routes are compiled side by side, compared with the default, and timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial

from autotuner.devices.child_base import needs_warming
from autotuner.devices.device import Computed, Timing
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.compile import Compiled, first_error
from autotuner.iree.run import Invocation, failed_because, known_remedy
from autotuner.jobs.model.choice import Routes
from autotuner.jobs.model.context import Ahead, Context
from autotuner.jobs.model.route_search import RouteSearch
from autotuner.jobs.model.stages import Stages
from autotuner.jobs.opening import SLOW_US, START_SECONDS, is_slow
from autotuner.measure.check import Check
from autotuner.programs.arbiter import Arbiter, Dissent
from autotuner.programs.program import ModelProgram
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.system.settings import usable_cores
from autotuner.targets import PLAIN, Route

GIVE_UP = 1.5
"""A route that takes so many times what the best does is timed by one repetition and no more."""
_NEAR, _NEAREST = 1.1, 3
"""So near the best, and so many at most, are timed once more, in turns: one of them may have been lucky."""
_DOUBTED = 3.0
"""Where the default leads, the first route behind it is timed once more, up to so many times as slow: on a busy machine
a single repetition is no verdict."""
_SIDE = 8
"""Compiles at once, at most: each holds the model's weights."""


@dataclass(frozen=True)
class RouteOutcome:
    """What became of a route."""

    route: Route
    row: int
    build: Compiled | None = None
    us: float | None = None
    error: float | None = None
    failure: str = ""
    detail: str = ""
    twin: bool = False
    """Its module is that of a route before it, whose time it has."""

    @property
    def ok(self) -> bool:
        return not self.failure and self.us is not None

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.route.name,
            "flags": list(self.route.flags),
            "us": self.us,
            "error": self.error,
            "compile_seconds": round(self.build.took, 2) if self.build else None,
            **({"failure": self.failure, "detail": first_error(self.detail)} if self.failure else {}),
        }


class UnendedCallError(OutOfTimeError):
    """The time was up in the first call of the default: no budget can be named that would do."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the first call of IREE's default had not ended after {seconds:.0f} s, when the time was up")


def side(context: Context) -> int:
    """How many routes are compiled side by side."""
    return max(2, min(context.options.jobs or usable_cores(), _SIDE))


@dataclass(frozen=True)
class _Flight:
    """A route whose compile is under way."""

    route: Route
    row: int
    began: float


@dataclass
class RouteRace:
    """Compiles routes side by side and times them one by one; what fails is a row."""

    context: Context
    benchmark: Benchmark
    """How a whole model is timed."""
    program: ModelProgram
    """The model, how it is called, and whose outputs are right."""
    tried: list[RouteOutcome] = field(default_factory=list)
    search: RouteSearch = field(default_factory=lambda: RouteSearch(()))
    _flights: dict[Future[Compiled], _Flight] = field(default_factory=dict)
    _dissent: Dissent = field(default_factory=Dissent)
    _round_seconds: float = 0.0
    _default_seconds: float = 0.0
    """That the default was called and timed: no other round has that in it, and it may take ten times a route's."""

    def all(self, routes: Routes, *, told: Callable[[float], None], then: Callable[[], None]) -> None:
        """The default, the first routes, and then what the search asks for while there is time.

        `told` is called when the default and those that were compiled with it are known, with the seconds of such a
        round; `then` when the first routes are, before any knob is turned.
        """
        self.search = RouteSearch(routes.knobs, list(routes.first[1:]))
        self._start([PLAIN, *self.search.ask(side(self.context) - 1)], timeout=self.context.compile_timeout)
        began = min(flight.began for flight in self._flights.values())
        self._settle()
        self._round_seconds = time.monotonic() - began - self._default_seconds
        told(self._round_seconds)
        self._rounds(expected=self.stages.routes, ended=self.stages.routes_end, first=True)
        then()
        self._rounds(expected=self.stages.routes, ended=self.stages.routes_end)
        self._time_the_nearest()

    @property
    def has_time(self) -> bool:
        """For one more route."""
        return self.context.clock.elapsed + self._round_seconds < self.stages.routes

    @property
    def ends(self) -> float:
        """The moment of `time.monotonic()` at which routes give way to dispatches."""
        return self.context.clock.at(self.stages.routes_end)

    @property
    def stages(self) -> Stages:
        return self.context.stages

    def add(self, route: Route) -> None:
        """One more, made for this very model."""
        with process.until(self.ends):
            self._start([route], timeout=self.context.compile_timeout)
        while self._flights:
            self._settle()
        self._time_the_nearest()

    def go_on(self, *, ended: Callable[[], float]) -> None:
        """With what the dispatches left of the time, up to that many seconds of the run: asked before each round."""
        before = last = len(self.tried)
        self._rounds(expected=ended(), ended=ended(), once=True)
        while len(self.tried) > last:
            last = len(self.tried)
            self._rounds(expected=ended(), ended=ended(), once=True)
        if len(self.tried) > before:
            self._time_the_nearest()
        if self.search.queue:
            names = ", ".join(route.name for route in self.search.queue)
            what = "route" if len(self.search.queue) == 1 else "routes"
            self.context.note(f"no time for {what} {names}: give a longer --budget, or name them by --route")

    def _rounds(self, *, expected: float, ended: float, first: bool = False, once: bool = False) -> None:
        """Compiles and times routes: a round is begun if it is expected to be over after so many seconds of the run,
        and none lasts beyond `ended`.

        A round takes about as long as the last one. With `first` no knob is turned, with `once` there is one round.
        """
        context, clock = self.context, self.context.clock
        while not context.session.stop.requested and (self._flights or clock.elapsed + self._round_seconds < expected):
            most = side(context) - len(self._flights)
            wanted = min(most, len(self.search.queue)) if first else most
            asked = self.search.ask(wanted) if clock.elapsed + self._round_seconds < expected else []
            if not asked and not self._flights:
                break
            started = time.monotonic()
            took = next((t.build.took for t in self.tried if t.build), 0.0)
            with process.until(clock.at(ended)):
                self._start(asked, timeout=max(60.0, 5 * took))
            self._settle()
            self._round_seconds = time.monotonic() - started
            if once:
                break
        while self._flights:
            self._settle()

    def _start(self, routes: Sequence[Route], *, timeout: float) -> None:
        context = self.context
        if routes:
            context.stage(f"compiling {_listed(routes)}")
        for route in routes:
            row = context.row("baseline" if route == PLAIN else "stock", route)
            ahead = context.ahead.pop(route, None)
            if ahead is None:
                job = context.builder.job(context.flags(route), timeout=timeout)
                ahead = Ahead(context.session.executor.start_whole(job), time.monotonic())
            self._flights[ahead.build] = _Flight(route, row, ahead.began)

    def _settle(self) -> None:
        """Waits for builds and times them; where that needs the cores, for all."""
        all_of_them = self.context.target.compiles_on_device
        # Everything is compared with the default: until it is there, nothing can be told.
        first = [one for one, flight in self._flights.items() if flight.route == PLAIN and not all_of_them]
        with self.context.clocked("build"):
            done, _ = wait(first or self._flights, return_when=ALL_COMPLETED if all_of_them else FIRST_COMPLETED)
        # In the order in which they were asked for: the default before all others.
        for future in [one for one in self._flights if one in done]:
            flight = self._flights.pop(future)
            try:
                outcome = self._outcome(flight, future.result())
            except OutOfTimeError:
                if flight.route == PLAIN:
                    raise
                self.context.note(f"route {flight.route.name}: no time for it, a longer --budget would make some")
                continue
            self.tried.append(outcome)
            self.search.tell(flight.route, outcome.us if outcome.ok else None)

    def _outcome(self, flight: _Flight, build: Compiled) -> RouteOutcome:
        self.context.record_build(flight.row, build, self.context.flags(flight.route))
        tried = RouteOutcome(flight.route, flight.row, build)
        if flight.route != PLAIN:
            return self._try(tried, build)
        started = time.monotonic()
        default = self._default(tried, build)
        self._default_seconds = time.monotonic() - started
        return default

    def _default(self, tried: RouteOutcome, build: Compiled) -> RouteOutcome:
        """The baseline must compile and run. It is timed also where it is known to be wrong."""
        context, name = self.context, self.context.program.name
        context.stage("timing IREE's default")
        if not build.ok:
            raise NoCandidateError(
                f"IREE's default does not compile {name}: {first_error(build.stderr)}",
                remedy="Check the model, --flag and --target.",
            )
        outputs = self._first_call(build)
        if outputs.failure is not None:
            raise DeviceError(
                f"device {context.session.device!r} does not run {name}: {failed_because(outputs.detail)}",
                remedy=known_remedy(outputs.detail)
                or "Check --input, --parameters and --device; `autotune doctor` lists the devices that answer.",
            )
        check = self.arbiter.begin(outputs, again=partial(self.program.outputs, build.vmfb))
        started = time.monotonic()
        tried = replace(tried, error=_error(check))
        timed = self._as_called(tried, outputs) or self._time(tried, build, give_up_us=SLOW_US)
        if not timed.ok:
            raise DeviceError(f"the model cannot be timed: {failed_because(timed.detail)}", remedy="Check --device.")
        context.timing_seconds = max(time.monotonic() - started, (timed.us or 0.0) / 1e6)
        context.isolated_seconds = self._isolated_seconds(timed, build)
        return timed if check.ok else self._found_wrong(timed, check)

    def _as_called(self, tried: RouteOutcome, outputs: Computed) -> RouteOutcome | None:
        """With the time of the call that gave its outputs, where that is so long that it is a measurement by itself."""
        if outputs.seconds is None or not is_slow(1e6 * outputs.seconds, self.benchmark):
            return None
        return self._timed(tried, Timing((1e6 * outputs.seconds,)))

    def _isolated_seconds(self, timed: RouteOutcome, build: Compiled) -> float:
        """What a timing in a process of its own takes: of a slow model that is known without trying."""
        runner, seconds = self.context.session.runner, (timed.us or 0.0) / 1e6
        if runner.isolated is runner:
            return self.context.timing_seconds
        if seconds * 1e6 > SLOW_US:
            return START_SECONDS + (2 if needs_warming(seconds, self.benchmark.seconds) else 1) * seconds
        started = time.monotonic()
        with self.context.clocked("time"):
            runner.isolated.time(build, self.benchmark)
        return time.monotonic() - started

    @property
    def call(self) -> Invocation:
        return self.benchmark.invocation

    @property
    def arbiter(self) -> Arbiter:
        return self.program.arbiter

    def _first_call(self, build: Compiled) -> Computed:
        """Nothing is known of how long a call takes: a model may have no end."""
        began = time.monotonic()
        try:
            return self.program.outputs(build.vmfb)
        except OutOfTimeError as error:
            raise UnendedCallError(time.monotonic() - began) from error

    def check(self, build: Compiled) -> Check:
        """Does it compute what is right? What is known of others may change with the answer."""
        return self._judged(self.program.outputs(build.vmfb))

    def _judged(self, outputs: Computed) -> Check:
        source = self.arbiter.source
        check = self.arbiter.check(outputs)
        if self.arbiter.source != source:
            self._judge_again()
        return check

    def _judge_again(self) -> None:
        """What was compared with the default is compared with what is right."""
        for number, one in enumerate(self.tried):
            if not one.ok or one.build is None:
                continue
            check = (
                self.arbiter.default_check
                if one.route == PLAIN
                else self.arbiter.check(self.program.outputs(one.build.vmfb))
            )
            self.tried[number] = replace(one, error=_error(check))
            if not check.ok:
                self.tried[number] = self._found_wrong(self.tried[number], check)
                self.search.tell(one.route, None)

    def _found_wrong(self, tried: RouteOutcome, check: Check) -> RouteOutcome:
        """A route that was timed: its time stays."""
        self.context.session.store.record_failure(tried.row, "wrong-result", stderr=check.detail)
        return replace(tried, failure="wrong-result", detail=check.detail)

    def _dissents(self, route: Route, build: Compiled, outputs: Computed) -> None:
        if self.arbiter.source != "default":
            return
        said = self._dissent.add(route.name, known_digest(build.vmfb), outputs, same=self.arbiter.agree)
        if said:
            self.context.note(said)

    def _try(self, tried: RouteOutcome, build: Compiled) -> RouteOutcome:
        if not build.ok:
            return self._failed(tried, build.failure or "", build.stderr)
        if (same := self._same(build)) is not None:
            self.context.session.store.record_duplicate(tried.row, of=same.row)
            self.context.note(f"route {tried.route.name}: the same module as route {same.route.name}")
            return replace(tried, us=same.us, error=same.error, twin=True)
        self.context.stage(f"timing route {tried.route.name}")
        outputs = self.program.outputs(build.vmfb)
        check = self._judged(outputs)
        tried = replace(tried, error=_error(check))
        if check.failure is not None:
            failed = self._failed(tried, check.failure, check.detail)
            if check.failure == "wrong-result":
                self._dissents(tried.route, build, outputs)
            return failed
        self.context.session.store.record_check(tried.row, error=check.error)
        best = min((t.us for t in self.tried if t.ok and t.us is not None), default=math.inf)
        return self._time(tried, build, give_up_us=GIVE_UP * best)

    def _same(self, build: Compiled) -> RouteOutcome | None:
        """A route whose module is the very same; the same executables may still be called in another way."""
        digest = known_digest(build.vmfb)
        return next((t for t in self.tried if t.ok and t.build and known_digest(t.build.vmfb) == digest), None)

    def _time(self, tried: RouteOutcome, build: Compiled, *, give_up_us: float) -> RouteOutcome:
        """Three repetitions, or only one where that is not near the best."""
        with self.context.clocked("time"):
            timing = self.context.session.runner.time(build, self.benchmark, give_up_us=give_up_us)
        if not timing.ok:
            return self._failed(tried, timing.failure or "", timing.detail)
        return self._timed(tried, timing)

    def _timed(self, tried: RouteOutcome, timing: Timing) -> RouteOutcome:
        self.context.session.store.record_timing(tried.row, timing, phase="screen", block=0)
        self.context.note(f"route {tried.route.name}: {timing.median / 1000:.3f} ms")
        return replace(tried, us=timing.median)

    def _time_the_nearest(self) -> None:
        """Once more those that can hardly be told from the best, in turns; the faster of two readings counts.

        Where the default alone is so near, the first behind it, too."""
        ranked = sorted((t for t in self.tried if t.ok), key=lambda t: t.us or math.inf)
        limit = _NEAR * min((t.us for t in ranked if t.us is not None), default=0.0)
        apart = {known_digest(t.build.vmfb): t for t in reversed(ranked) if t.build and (t.us or math.inf) <= limit}
        near = sorted(apart.values(), key=lambda t: t.us or math.inf)[:_NEAREST]
        if [one.route for one in near] == [PLAIN] and limit <= SLOW_US:
            others = (t for t in ranked if t.build and known_digest(t.build.vmfb) not in apart)
            near += [t for t in others if (t.us or math.inf) <= _DOUBTED * limit][:1]
        if len(near) < 2 or self.context.session.stop.requested:
            return
        for one in near:
            if one.build is None:
                continue
            with self.context.clocked("time"):
                timing = self.context.session.runner.time(one.build, self.benchmark)
            if timing.ok:
                self.context.session.store.record_timing(one.row, timing, phase="screen", block=1)
                self.tried[self.tried.index(one)] = replace(one, us=min(timing.median, one.us or math.inf))

    def _failed(self, tried: RouteOutcome, failure: str, detail: str) -> RouteOutcome:
        self.context.session.store.record_failure(tried.row, failure, stderr=detail)
        self.context.note(f"route {tried.route.name}: {failure}, {first_error(detail, most=160)}")
        return replace(tried, failure=failure, detail=detail)


def _error(check: Check) -> float | None:
    return check.error if math.isfinite(check.error) else None


def _listed(routes: Sequence[Route]) -> str:
    names = ["IREE's default" if route == PLAIN else f"route {route.name}" for route in routes]
    return ", ".join(names)
