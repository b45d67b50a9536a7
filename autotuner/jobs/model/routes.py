"""Which stock flags suit a whole model: routes are compiled side by side, compared with the default, and timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace

from autotuner.devices.device import Computed, Timing
from autotuner.errors import DeviceError, NoCandidateError, OutOfTimeError
from autotuner.iree.compile import Compiled, FailureClass, first_error
from autotuner.iree.run import Benchmark, failed_because, known_remedy
from autotuner.jobs.model.contestant import Contestant, longest_build
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.route_search import Routes, RouteSearch
from autotuner.measure.check import Check
from autotuner.measure.contest import SLOW_US
from autotuner.measure.schedule import beginning
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.program import ModelProgram
from autotuner.system import process
from autotuner.system.digests import known_digest
from autotuner.system.settings import usable_cores
from autotuner.system.text import count
from autotuner.targets import PLAIN, Route

GIVE_UP = 1.5
"""A route this many times slower than the best is timed once."""
_SIDE = 8
"""Compiles at once, at most: each holds the model's weights."""


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
    starting: float = 0.0
    """Seconds of the default's first call beside the call itself: a module is loaded, inputs are read."""

    def begin(self, routes: Routes, *, alone: bool = False) -> None:
        """The default, and the first routes beside it unless it is to be built alone."""
        self.search = RouteSearch(routes.knobs, list(routes.first[1:]))
        first = [PLAIN, *self.search.ask(0 if alone else side(self.context) - 1)]
        self._settle(self._start(first, timeout=self.context.compile_timeout))
        # No other round has the default in it, which may take ten times a route's time.
        self.round_seconds = longest_build(self.tried) + sum(3 * (one.us or 0.0) / 1e6 for one in self.tried[1:])

    def rounds(self, ends: Callable[[], float], *, kept: bool = False) -> None:
        """Compiles and times routes: a round is begun if it is expected to be over at that moment.

        It takes about as long as the last one would have taken without a cache. `kept`: the time after that moment is
        for what has been found already, and no round may use a part of it.
        """
        context, clock = self.context, self.context.clock
        while not context.session.stop.requested and self.fits(ends()) and (asked := self.search.ask(side(context))):
            started, before = time.monotonic(), len(self.tried)
            took = next((one.build.took for one in self.tried if one.build), 0.0)
            with process.until(ends() if kept else clock.given_up(ends())):
                building = self._start(asked, timeout=max(60.0, 5 * took))
            self._settle(building)
            self.round_seconds = max(time.monotonic() - started, longest_build(self.tried[before:]))

    def fits(self, ends: float) -> bool:
        """One more round, before that moment."""
        return self.context.clock.fits(self.round_seconds, before=ends)

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

    def check(self, build: Compiled) -> Check:
        """Is its output right? The answer may change what is known of others."""
        return self._judged(self.program.outputs(build.vmfb))

    @property
    def arbiter(self) -> Arbiter:
        return self.program.arbiter

    def _start(self, routes: Sequence[Route], *, timeout: float) -> dict[Future[Compiled], Contestant]:
        context, building = self.context, {}
        names = ["IREE's default" if route == PLAIN else f"route {route.name}" for route in routes]
        context.trying(f"compiling {', '.join(names)}")
        for route in routes:
            row = context.row("baseline" if route == PLAIN else "stock", route)
            job = context.builder.job(context.flags(route), timeout=timeout)
            building[context.session.executor.start(job)] = Contestant.of(route, row)
        return building

    def _settle(self, building: dict[Future[Compiled], Contestant]) -> None:
        """Waits for all builds, then times them in order, the default first.

        A compile beside a timing slows down the host's share of a call. In a network of many short dispatches that is
        most of it.
        """
        with self.context.clocked("build"):
            wait(building)
        for future, one in building.items():
            try:
                build = future.result()
                self.context.record_build(one.row, build, self.context.flags(one.route))
                one = replace(one, build=build)
                one = self._default(one) if one.route == PLAIN else self._try(one)
            except OutOfTimeError:
                if one.route == PLAIN:
                    raise
                self.context.note(f"route {one.route.name}: no time for it")
                continue
            if one.us is not None and not any(other.us is not None for other in self.tried):
                self.context.timing_seconds = self._timing_seconds(one)
            self.tried.append(one)
            self.search.tell(one.route, one.us if one.ok else None)

    def _default(self, default: Contestant) -> Contestant:
        """It is timed also where it is wrong; where it fails, the first route that runs takes its place."""
        self.context.trying("timing IREE's default")
        if not default.module.ok:
            self._rescue(f"does not compile: {first_error(default.module.stderr, most=120)}")
            return self._failed(default, default.module.failure or "compile-error", default.module.stderr)
        started = time.monotonic()
        with beginning("the first call of IREE's default"):
            outputs = self.program.outputs(default.module.vmfb)
        self.starting = max(time.monotonic() - started - (outputs.seconds or 0.0), 0.0)
        if remedy := known_remedy(outputs.detail):  # the call is at fault, whatever is called
            raise DeviceError(self._not_run(failed_because(outputs.detail)), remedy=remedy)
        if outputs.failure is not None:
            self._rescue(f"does not run: {failed_because(outputs.detail)}")
            return self._failed(default, outputs.failure, outputs.detail)
        check = self.arbiter.begin(outputs)
        default = replace(default, error=_error(check))
        if outputs.seconds is not None and 1e6 * outputs.seconds > SLOW_US:  # a measurement by itself
            timed = self._timed(default, Timing((1e6 * outputs.seconds,)))
        else:
            timed = self._time(default, give_up_us=SLOW_US)
        if not timed.ok:
            raise DeviceError(f"the model cannot be timed: {failed_because(timed.detail)}", remedy="Check --device.")
        return timed if check.ok else self._found_wrong(timed, check)

    def _rescue(self, why: str) -> None:
        self.arbiter.failed, self.search.rescuing = why, True

    def require_one(self) -> None:
        """Raises where nothing was timed: nothing that was tried compiles and runs."""
        default = self.tried[0]
        if any(one.us is not None for one in self.tried):
            return
        others = len(self.tried) - 1
        what = f"IREE's default {self.arbiter.failed}" + (
            f"; {count(others, 'other route')} failed, too" * (others > 0)
        )
        if default.build is None or not default.build.ok:
            raise NoCandidateError(f"{self.context.model.name}: {what}", remedy="Check --flag and --target.")
        look = "Check --input, --parameters and --device; `autotune doctor` lists the devices that answer."
        raise DeviceError(self._not_run(what), remedy=look)

    def _not_run(self, why: str) -> str:
        return f"device {self.context.session.device!r} does not run {self.context.model.name}: {why}"

    def _timing_seconds(self, timed: Contestant) -> float:
        """Seconds of a timing in a process of its own; those of a slow model are known."""
        if (timed.us or 0.0) > SLOW_US:
            return (timed.us or 0.0) / 1e6 + self.starting
        started = time.monotonic()
        with self.context.clocked("time"):
            self.context.session.runner.isolated.time(timed.module, self.benchmark)
        return time.monotonic() - started

    def _try(self, one: Contestant) -> Contestant:
        context, build = self.context, one.module
        if not build.ok:
            return self._failed(one, build.failure or "compile-error", build.stderr)
        if (same := self._same(build)) is not None:
            context.session.store.record_duplicate(one.row, of=same.row)
            context.note(f"route {one.route.name}: the same module as route {same.route.name}")
            return replace(one, us=same.us, error=same.error, duplicate_of=same.id)
        return self.measured(one)

    def measured(self, one: Contestant) -> Contestant:
        """Checked and timed."""
        self.context.trying(f"timing {one.label}")
        check = self.check(one.module)
        one = replace(one, error=_error(check))
        if check.failure is not None:
            return self._failed(one, check.failure, check.detail)
        self.context.session.store.record_check(one.row, error=check.error)
        return self._time(one, give_up_us=GIVE_UP * self.best_us)

    def _same(self, build: Compiled) -> Contestant | None:
        """A route whose module is the very same; the same executables may still be called in another way."""
        digest = known_digest(build.vmfb)
        return next((one for one in self.tried if one.ok and known_digest(one.module.vmfb) == digest), None)

    def _judged(self, outputs: Computed) -> Check:
        source = self.arbiter.source
        if not self.arbiter.begun:
            return self.arbiter.begin(outputs) if outputs.failure is None else self.arbiter.check(outputs)
        check = self.arbiter.check(outputs)
        if self.arbiter.source != source:
            self._judge_again()
        return check

    def _judge_again(self) -> None:
        """Checks again what was compared with the default."""
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

    def _time(self, one: Contestant, *, give_up_us: float) -> Contestant:
        """Three repetitions, or one where it is far from the best."""
        with self.context.clocked("time"):
            timing = self.context.session.runner.time(one.module, self.benchmark, give_up_us=give_up_us)
        if not timing.ok:
            return self._failed(one, timing.failure or "run-error", timing.detail)
        return self._timed(one, timing)

    def _timed(self, one: Contestant, timing: Timing) -> Contestant:
        self.context.session.store.record_timing(one.row, timing, phase="screen", block=0)
        self.context.note(f"{one.label}: {timing.median / 1000:.3f} ms")
        return replace(one, us=timing.median)

    def _failed(self, one: Contestant, failure: FailureClass, detail: str) -> Contestant:
        self.context.session.store.record_failure(one.row, failure, stderr=detail)
        self.context.note(f"{one.label}: {failure}, {first_error(detail, most=160)}")
        return replace(one, failure=failure, detail=detail)


def _error(check: Check) -> float | None:
    return check.error if math.isfinite(check.error) else None
