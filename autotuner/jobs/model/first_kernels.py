"""Microkernels by their defaults in the whole model: tried before any dispatch is ranked or tuned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotuner.jobs.model.context import Context
from autotuner.jobs.model.coverage import NEARLY_ALL, KernelRoute, kernel_routes
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.kernels import executable_target_of
from autotuner.jobs.model.mixed import kernels_first
from autotuner.jobs.model.places import Library
from autotuner.jobs.model.routes import RouteOutcome, RouteRace
from autotuner.jobs.model.whole import Tuned, WholeModel
from autotuner.measure.schedule import longer
from autotuner.programs.shares import by_work
from autotuner.programs.structure import ModelStructure
from autotuner.system.text import count
from autotuner.targets import PLAIN

KERNEL_SECONDS = {"host": 0.7, "gpu": 3.0}
"""About, on an idle core, for building one microkernel: from C, and mostly by Triton."""
FINDING_SECONDS = 5.0
"""About, before the first kernel is put into a model: for finding the dispatches of all its places."""
_AS_MUCH = 0.9
"""Of what kernels compute on the first route."""


_AT_LEAST = 0.5
"""Of the time that kernels are expected to need: most networks compile faster with them, and where the time is up, what
a verdict needs is left."""


@dataclass(frozen=True)
class Kept:
    """Seconds that are not for kernels by their defaults."""

    verdict: float
    """For the shortest way to a verdict: so much must be left in any case."""
    racing: float
    """For a race: kernels that lose are looked for in what is left beside it."""


@dataclass(frozen=True)
class FirstKernels:
    """A route on which kernels were put into the model, and what came of it."""

    dispatches: Dispatches
    tried: RouteOutcome
    made: Tuned | None

    @property
    def us(self) -> float:
        """Of the model with them."""
        return self.made.us or math.inf if self.made else math.inf

    @property
    def gains(self) -> bool:
        """The model is faster with them than without, on the same route."""
        return self.us < (self.tried.us or math.inf)


def try_kernels(
    race: RouteRace,
    plain: ModelStructure,
    *,
    kept: Kept,
    compiling: float,
    before: FirstKernels | None = None,
    early: bool = False,
) -> FirstKernels | None:
    """The model with every kernel that fits, where they compute most of it; None where that was not tried.

    `compiling` are the seconds that the model's compile takes. `early`, when most routes are still to be tried, kernels
    must compute nearly all of it: then flags have nothing to add. `before` is what came of that.
    """
    context = race.context
    if not context.options.microkernels or context.session.stop.requested:
        return None
    best = min((t.us for t in race.tried if t.ok and t.us is not None), default=math.inf)
    # On a GPU the rest of a model is launches: what a route fuses beside the kernels is told by trying it.
    if before is not None and before.us < best and context.target.backend.on_host:
        return before
    # Where they fit takes seconds to find: not where nothing could be made of it.
    if (
        missing := _AT_LEAST * (context.crowding * FINDING_SECONDS + compiling) + kept.verdict - context.clock.left
    ) > 0:
        if not early:
            would_do = longer(context.clock.budget + missing)
            context.note(f"no time to find out where microkernels fit, and to compile the model with them: {would_do}")
        return before
    with context.clocked("space"):
        library = Library.open(context, executable_target_of(context, plain))
        routes = kernel_routes(race.tried, library.places, plain=plain.preprocessed, flops=plain.flops)
    if early and (not routes or routes[0].coverage.flops < NEARLY_ALL * plain.flops):
        return None
    if not routes:
        context.note("no microkernel fits any operation of the model")
    found = before
    for one in attempts(routes)[: 1 if early else None]:
        if before is not None and one.tried.route == before.tried.route:
            continue
        needed = seconds_needed(
            one,
            each=KERNEL_SECONDS["host" if context.target.backend.on_host else "gpu"],
            compiling=compiling,
            cores=context.session.jobs,
            crowding=context.crowding,
        )
        if (missing := _AT_LEAST * needed + kept.verdict - context.clock.left) > 0:
            would_do = longer(context.clock.budget + missing)
            if not early:
                context.note(f"no time to compile the model with {one.coverage.kernels} microkernels: {would_do}")
            break
        dispatches = _unranked(context, one.tried, plain)
        whole = WholeModel(dispatches, one.tried, race, kept.racing)
        new = FirstKernels(dispatches, one.tried, kernels_first(whole, library, kept=kept.verdict))
        found = new if found is None or new.us < found.us else found
        if new.made is not None:
            context.note(_told(new, one, plain))
            # Without flags, one operation that a kernel does not take after all can be slower than all others together.
            if new.us < best or not context.target.backend.on_host:
                break
    return found


def untimed_kernels(whole: WholeModel, structure: ModelStructure) -> Tuned | None:
    """Without a device: the model with every kernel that fits, built and proven there.

    No search follows: which variant of a kernel is the fastest cannot be told.
    """
    context = whole.dispatches.context
    if not context.options.microkernels or context.session.stop.requested:
        return None
    made = kernels_first(whole, Library.open(context, executable_target_of(context, structure)), kept=0.0)
    kernels = whole.dispatches.kernels
    kernels.decide({}, made.kernels if made else ())
    kernels.out_of_time(context.clock.left)
    return made


def attempts(routes: Sequence[KernelRoute]) -> list[KernelRoute]:
    """The first; where it is wrong or slow with kernels, the fastest that is right and has about as many of them."""
    right = [one for one in routes[1:] if one.tried.ok]
    alike = [one for one in right if one.coverage.flops >= _AS_MUCH * routes[0].coverage.flops]
    second = sorted(alike, key=lambda one: one.tried.us or math.inf) or right
    return [*routes[:1], *second[:1]]


def seconds_needed(one: KernelRoute, *, each: float, compiling: float, cores: int, crowding: float = 1.0) -> float:
    """For finding places, building their kernels side by side, and compiling the model with them: that was measured."""
    return crowding * (FINDING_SECONDS + one.coverage.building(cores, each=each)) + compiling


def _unranked(context: Context, one: RouteOutcome, plain: ModelStructure) -> Dispatches:
    """Kernels need no ranking to be tried."""
    structure = plain if one.route == PLAIN or one.build is None else context.structure(one.build)
    return Dispatches(context, one.route, structure, by_work(structure.groups))


def _told(found: FirstKernels, one: KernelRoute, plain: ModelStructure) -> str:
    part = min(one.coverage.flops / plain.flops, 1.0) if plain.flops else 0.0
    kernels = len(found.made.kernels) if found.made else 0
    time = f"{found.us / 1000:.3f} ms" if math.isfinite(found.us) else "not timed"
    return f"route {one.tried.route.name} with {count(kernels, 'microkernel')} ({part:.0%} of the arithmetic): {time}"
