"""Which stock flags suit a whole model: routes are compiled side by side, compared with the default, and timed."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace

from autotuner.devices.device import Computed
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError, UsageError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.compile import Compiled, first_error
from autotuner.iree.run import Invocation, failed_because, lacks_parameters
from autotuner.jobs.model.context import Ahead, Context
from autotuner.jobs.model.dissent import Dissent
from autotuner.jobs.model.program import finite, same_outputs
from autotuner.jobs.model.route_search import RouteSearch
from autotuner.measure.check import Check
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.system.names import checked_name
from autotuner.system.settings import usable_cores
from autotuner.targets import PLAIN, Route, Target
from autotuner.targets.knobs import Knob, named_route, touching

ROUTES_SHARE = 0.3
"""Of the budget, for trying routes; the default and the one that is expected to win are tried in any case."""
_ROUTES_END = 0.5
"""Of the budget: when even a route that was begun is given up."""
GIVE_UP = 1.5
"""A route that takes so many times what the best does is timed by one repetition and no more."""
_NEAR, _NEAREST = 1.1, 3
"""So near the best, and so many at most, are timed once more, in turns: one of them may have been lucky."""
SLOW_US = 200_000.0
"""A call that takes longer is a measurement by itself: it is not repeated."""
_SIDE = 8
"""Compiles at once, at most: each holds the model's weights."""
_START_SECONDS = 0.5
"""Of a process that times a module."""


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


@dataclass(frozen=True)
class Routes:
    """What is tried on a model."""

    first: tuple[Route, ...]
    """In this order, the plain one before all."""
    knobs: tuple[Knob, ...] = ()
    """What is turned after that; none where the user names the routes."""

    def named(self, text: str) -> Route:
        """The route that the user means by `NAME` or `NAME=FLAGS`."""
        name = text.partition("=")[0].strip()
        return next((route for route in self.first if route.name == name), self.first[-1])


def choose(target: Target, wanted: Sequence[str], ops: set[str], *, won: Sequence[str] = ()) -> Routes:
    """The routes to try.

    `wanted` are the user's: NAME keeps to the routes that are named, NAME=FLAGS adds one. `won` are the names of those
    that were the fastest on this chip before.
    """
    added: list[Route] = []
    pinned: list[Route] = []
    for text in wanted:
        name, defines, flags = text.partition("=")
        if not defines:
            pinned.append(named_route(target.knobs, name))
            continue
        route = _own(name.strip(), flags)
        if route.name == PLAIN.name or any(route.name == other.name for other in (*pinned, *added)):
            raise UsageError(f"there is a route {route.name} already.", remedy="Give yours another name.")
        added.append(route)
    if pinned:
        return Routes(tuple(dict.fromkeys([PLAIN, *pinned, *added])))
    knobs = touching(target.knobs, ops)
    first = [*_known(knobs, won), *target.model_routes(ops)[1:]]
    return Routes(tuple(dict.fromkeys([PLAIN, *added, *first])), knobs)


def _known(knobs: tuple[Knob, ...], names: Sequence[str]) -> list[Route]:
    """The routes of these names that can still be made of the knobs."""
    settings = {setting.name for knob in knobs for setting in knob.settings}
    found = [Route(name).settings for name in names]
    return [named_route(knobs, "+".join(one)) for one in found if one and settings.issuperset(one)]


def _own(name: str, flags: str) -> Route:
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"--route {name}: {error}.", remedy="Quote it as a shell would.") from error
    checked_name(name, what="a route")
    if not words or not all(word.startswith("--") for word in words):
        raise UsageError(
            f"--route {name}={flags} names no flags.", remedy="Write it as --route 'NAME=--iree-flag --other-flag=1'."
        )
    return Route(name, tuple(words))


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
    """Compiles routes side by side and times them one by one; what fails is a row, and the default is the reference."""

    context: Context
    benchmark: Benchmark
    """How a whole model is timed."""
    rounding: float
    """The relative error that is expected between the outputs of two builds."""
    tried: list[RouteOutcome] = field(default_factory=list)
    reference: Computed = field(default_factory=Computed)
    search: RouteSearch = field(default_factory=lambda: RouteSearch(()))
    _flights: dict[Future[Compiled], _Flight] = field(default_factory=dict)
    _dissent: Dissent = field(default_factory=Dissent)
    _round_seconds: float = 0.0

    def all(self, routes: Routes, *, told: Callable[[float], None], then: Callable[[], None]) -> None:
        """The default, the first routes, and then what the search asks for while there is time.

        `told` is called when the default and those that were compiled with it are known, with the seconds they took;
        `then` when the first routes are, before any knob is turned.
        """
        self.search = RouteSearch(routes.knobs, list(routes.first[1:]))
        self._start([PLAIN, *self.search.ask(side(self.context) - 1)], timeout=self.context.compile_timeout)
        began = min(flight.began for flight in self._flights.values())
        self._settle()
        self._round_seconds = time.monotonic() - began
        told(self._round_seconds)
        budget = self.context.clock.budget
        self._rounds(begun=ROUTES_SHARE * budget, ended=_ROUTES_END * budget, first=True)
        then()
        self._rounds(begun=ROUTES_SHARE * budget, ended=_ROUTES_END * budget)
        if self.search.queue:
            names = ", ".join(route.name for route in self.search.queue)
            self.context.note(f"no time yet for the routes {names}: a longer --budget, or --route, makes some")
        self._time_the_nearest()

    @property
    def has_time(self) -> bool:
        """For one more route."""
        clock = self.context.clock
        return clock.elapsed < ROUTES_SHARE * clock.budget and clock.at(clock.elapsed + self._round_seconds) < self.ends

    @property
    def ends(self) -> float:
        """The moment of `time.monotonic()` at which routes give way to dispatches."""
        return self.context.clock.at(_ROUTES_END * self.context.clock.budget)

    def add(self, route: Route) -> None:
        """One more, made for this very model."""
        with process.until(self.ends):
            self._start([route], timeout=self.context.compile_timeout)
        while self._flights:
            self._settle()
        self._time_the_nearest()

    def go_on(self, *, ended: float) -> None:
        """With what the dispatches left of the time, up to that many seconds of the run."""
        before = len(self.tried)
        self._rounds(begun=ended, ended=ended)
        if len(self.tried) > before:
            self._time_the_nearest()

    def _rounds(self, *, begun: float, ended: float, first: bool = False) -> None:
        """Compiles and times routes: no more are begun after `begun` seconds of the run, and none lasts beyond `ended`.

        A round takes about as long as the last one. With `first` no knob is turned.
        """
        context, clock = self.context, self.context.clock
        while not context.session.stop.requested and clock.elapsed + self._round_seconds < ended:
            most = side(context) - len(self._flights)
            wanted = min(most, len(self.search.queue)) if first else most
            asked = self.search.ask(wanted) if clock.elapsed < begun else []
            if not asked and not self._flights:
                break
            started = time.monotonic()
            took = next((t.build.took for t in self.tried if t.build), 0.0)
            with process.until(clock.at(ended)):
                self._start(asked, timeout=max(60.0, 5 * took))
            self._settle()
            self._round_seconds = time.monotonic() - started
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
        # Everything is compared with the default: until it is there, nothing can be told.
        all_of_them = self.context.target.compiles_on_device or not self.tried
        with self.context.clocked("build"):
            done, _ = wait(self._flights, return_when=ALL_COMPLETED if all_of_them else FIRST_COMPLETED)
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
        return self._default(tried, build) if flight.route == PLAIN else self._try(tried, build)

    def _default(self, tried: RouteOutcome, build: Compiled) -> RouteOutcome:
        """The baseline must compile, run, and compute something that others can be compared with."""
        context, name = self.context, self.context.program.name
        context.stage("timing IREE's default")
        if not build.ok:
            raise NoCandidateError(
                f"IREE's default does not compile {name}: {first_error(build.stderr)}",
                remedy="Check the model, --flag and --target.",
            )
        self.reference = self.outputs(build)
        if self.reference.failure is not None:
            raise DeviceError(
                f"device {context.session.device!r} does not run {name}: {failed_because(self.reference.detail)}",
                remedy=lacks_parameters(self.reference.detail)
                or "Check --input, --parameters and --device; `autotune doctor` lists the devices that answer.",
            )
        if not finite(self.reference):
            raise UsageError(
                f"{name} computes no finite numbers on these inputs: nothing can be compared with them.",
                remedy="Give --input with values that the model is made for.",
            )
        started = time.monotonic()
        timed = self._time(replace(tried, error=0.0), build, give_up_us=SLOW_US)
        if not timed.ok:
            raise DeviceError(f"the model cannot be timed: {failed_because(timed.detail)}", remedy="Check --device.")
        context.timing_seconds = time.monotonic() - started
        context.isolated_seconds = self._isolated_seconds(timed, build)
        return timed

    def _isolated_seconds(self, timed: RouteOutcome, build: Compiled) -> float:
        """What a timing in a process of its own takes: of a slow model that is known without trying."""
        runner, seconds = self.context.session.runner, (timed.us or 0.0) / 1e6
        if runner.isolated is runner:
            return self.context.timing_seconds
        if seconds * 1e6 > SLOW_US:
            return _START_SECONDS + 2 * seconds
        started = time.monotonic()
        with self.context.clocked("time"):
            runner.isolated.time(build, self.benchmark)
        return time.monotonic() - started

    @property
    def call(self) -> Invocation:
        return self.benchmark.invocation

    def outputs(self, build: Compiled) -> Computed:
        runner, timeout = self.context.session.runner, self.context.run_timeout
        (computed,) = runner.check(build.vmfb, [self.call], timeout=timeout)
        return computed

    def check(self, build: Compiled) -> Check:
        """Does it compute what the default does?"""
        return self._compared(self.outputs(build), self.reference)

    def _compared(self, found: Computed, wanted: Computed) -> Check:
        return same_outputs(found, wanted, tolerance=self.context.model.tolerance, rounding=self.rounding)

    def _dissents(self, route: Route, build: Compiled, outputs: Computed) -> None:
        said = self._dissent.add(
            route.name, known_digest(build.vmfb), outputs, same=lambda one, other: self._compared(one, other).ok
        )
        if said:
            self.context.note(said)

    def _try(self, tried: RouteOutcome, build: Compiled) -> RouteOutcome:
        if not build.ok:
            return self._failed(tried, build.failure or "", build.stderr)
        if (same := self._same(build)) is not None:
            self.context.session.store.record_duplicate(tried.row, of=same.row)
            self.context.note(f"route {tried.route.name}: the same module as route {same.route.name}")
            return replace(tried, us=same.us, error=same.error)
        self.context.stage(f"timing route {tried.route.name}")
        outputs = self.outputs(build)
        check = self._compared(outputs, self.reference)
        tried = replace(tried, error=check.error if math.isfinite(check.error) else None)
        if check.failure is not None:
            failed = self._failed(tried, check.failure, check.detail)
            if check.failure == "wrong-result":
                self._dissents(tried.route, build, outputs)
            return failed
        self.context.session.store.record_check(tried.row, error=check.error)
        return self._time(tried, build, give_up_us=GIVE_UP * min(t.us for t in self.tried if t.ok and t.us is not None))

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
        self.context.session.store.record_timing(tried.row, timing, phase="screen", block=0)
        self.context.note(f"route {tried.route.name}: {timing.median / 1000:.3f} ms")
        return replace(tried, us=timing.median)

    def _time_the_nearest(self) -> None:
        """Once more those that can hardly be told from the best, in turns; the faster of two readings counts."""
        ranked = sorted((t for t in self.tried if t.ok), key=lambda t: t.us or math.inf)
        limit = _NEAR * min((t.us for t in ranked if t.us is not None), default=0.0)
        apart = {known_digest(t.build.vmfb): t for t in reversed(ranked) if t.build and (t.us or math.inf) <= limit}
        near = sorted(apart.values(), key=lambda t: t.us or math.inf)[:_NEAREST]
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
        self.context.note(f"route {tried.route.name}: {failure}, {first_error(detail)[:120]}")
        return replace(tried, failure=failure, detail=detail)


def _listed(routes: Sequence[Route]) -> str:
    names = ["IREE's default" if route == PLAIN else f"route {route.name}" for route in routes]
    return ", ".join(names)
