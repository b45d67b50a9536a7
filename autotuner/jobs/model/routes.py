"""Which stock flags suit a whole model: each route is compiled, its outputs compared with the default's, and timed."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotuner.devices.device import Computed
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError, UsageError
from autotuner.iree.benchmark import Benchmark
from autotuner.iree.compile import Compiled, first_error
from autotuner.iree.run import Invocation
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.program import finite, same_outputs
from autotuner.measure.check import Check
from autotuner.system import process
from autotuner.system.names import checked_name
from autotuner.system.process import last_line
from autotuner.system.text import short
from autotuner.targets import PLAIN, Route, Target

ROUTES_SHARE = 0.3
"""Of the budget, for trying routes; the first two are tried in any case."""
_ROUTES_END = 0.5
"""Of the budget: when even a route that was begun is given up."""


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


def choose(target: Target, wanted: Sequence[str], ops: set[str]) -> tuple[Route, ...]:
    """The routes to try, the plain one first.

    `wanted` are the user's: NAME keeps to the routes that are named, NAME=FLAGS adds one.
    """
    known = {route.name: route for route in target.routes}
    added: list[Route] = []
    pinned = []
    for text in wanted:
        name, defines, flags = text.partition("=")
        if defines:
            route = _own(name.strip(), flags)
            if route.name in (*known, *(other.name for other in added)):
                raise UsageError(f"there is a route {route.name} already.", remedy="Give yours another name.")
            added.append(route)
        elif name in known:
            pinned.append(known[name])
        else:
            raise UsageError(
                f"unknown route {short(name)}.",
                remedy=f"Known on {target.name}: {', '.join(known)}; or define one: --route 'NAME=--flag …'.",
            )
    routes = pinned or list(target.model_routes(ops))
    return tuple(dict.fromkeys([PLAIN, *routes, *added]))


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


@dataclass
class RouteRace:
    """Tries routes one after the other; what fails is a row, and the default is what others are compared with."""

    context: Context
    benchmark: Benchmark
    """How a whole model is timed."""
    rounding: float
    """The relative error that is expected between the outputs of two builds."""
    tried: list[RouteOutcome] = field(default_factory=list)
    reference: Computed = field(default_factory=Computed)

    def all(self, routes: Sequence[Route]) -> None:
        """The default, and as many routes as there is time for."""
        context, tried = self.context, self.tried
        tried.append(self.default())
        limit = max(60.0, 5 * (tried[0].build.took if tried[0].build else 0.0))
        for number, route in enumerate(routes[1:], 2):
            if context.session.stop.requested:
                break
            if number > 2 and context.clock.elapsed > ROUTES_SHARE * context.clock.budget:
                names = ", ".join(r.name for r in routes[number - 1 :])
                context.note(f"no time for the routes {names}: a longer --budget, or --route, would make some")
                break
            context.stage(f"trying route {route.name} ({number} of {len(routes)})")
            try:
                with process.until(context.clock.at(_ROUTES_END * context.clock.budget)):
                    tried.append(self._try(route, timeout=limit))
            except OutOfTimeError:
                context.note(f"route {route.name}: no time for it, a longer --budget would make some")

    def default(self) -> RouteOutcome:
        """The baseline must compile, run, and compute something that others can be compared with."""
        context, name = self.context, self.context.program.name
        context.stage("compiling and timing IREE's default")
        row = context.row("baseline", PLAIN)
        build = self._build(row, PLAIN, timeout=context.compile_timeout)
        if not build.ok:
            raise NoCandidateError(
                f"IREE's default does not compile {name}: {first_error(build.stderr)}",
                remedy="Check the model, --flag and --target.",
            )
        self.reference = self.outputs(build)
        if self.reference.failure is not None:
            raise DeviceError(
                f"device {context.session.device!r} does not run {name}: {last_line(self.reference.detail)}",
                remedy="Check --input, --parameters and --device; `autotune doctor` lists the devices that answer.",
            )
        if not finite(self.reference):
            raise UsageError(
                f"{name} computes no finite numbers on these inputs: nothing can be compared with them.",
                remedy="Give --input with values that the model is made for.",
            )
        timed = self._time(RouteOutcome(PLAIN, row, build, error=0.0))
        runner = context.session.runner
        if runner.isolated is not runner:
            started = time.monotonic()
            with context.clocked("time"):
                runner.isolated.time(build, self.benchmark)
            context.isolated_seconds = time.monotonic() - started
        return timed

    @property
    def call(self) -> Invocation:
        return self.benchmark.invocation

    def outputs(self, build: Compiled) -> Computed:
        runner, timeout = self.context.session.runner, self.context.run_timeout
        (computed,) = runner.check(build.vmfb, [self.call], timeout=timeout)
        return computed

    def check(self, build: Compiled) -> Check:
        """Does it compute what the default does?"""
        return same_outputs(
            self.outputs(build), self.reference, tolerance=self.context.model.tolerance, rounding=self.rounding
        )

    def _try(self, route: Route, *, timeout: float) -> RouteOutcome:
        row = self.context.row("stock", route)
        build = self._build(row, route, timeout=timeout)
        if not build.ok:
            return self._failed(RouteOutcome(route, row, build), build.failure or "", build.stderr)
        check = self.check(build)
        tried = RouteOutcome(route, row, build, error=check.error if math.isfinite(check.error) else None)
        if check.failure is not None:
            return self._failed(tried, check.failure, check.detail)
        self.context.session.store.record_check(row, error=check.error)
        return self._time(tried)

    def _build(self, row: int, route: Route, *, timeout: float) -> Compiled:
        context, flags = self.context, self.context.flags(route)
        with context.clocked("build"):
            build = context.builder.build(flags, timeout=timeout)
        context.record_build(row, build, flags)
        return build

    def _time(self, tried: RouteOutcome) -> RouteOutcome:
        if tried.build is None:
            raise ValueError(f"{tried.route.name} was not built")
        started = time.monotonic()
        with self.context.clocked("time"):
            timing = self.context.session.runner.time(tried.build, self.benchmark)
        if tried.route == PLAIN:
            self.context.timing_seconds = self.context.isolated_seconds = time.monotonic() - started
        if not timing.ok:
            if tried.route == PLAIN:
                raise DeviceError(f"the model cannot be timed: {last_line(timing.detail)}", remedy="Check --device.")
            return self._failed(tried, timing.failure or "", timing.detail)
        self.context.session.store.record_timing(tried.row, timing, phase="screen", block=0)
        self.context.note(f"route {tried.route.name}: {timing.median / 1000:.3f} ms")
        return replace(tried, us=timing.median)

    def _failed(self, tried: RouteOutcome, failure: str, detail: str) -> RouteOutcome:
        self.context.session.store.record_failure(tried.row, failure, stderr=detail)
        self.context.note(f"route {tried.route.name}: {failure}, {first_error(detail)[:120]}")
        return replace(tried, failure=failure, detail=detail)
