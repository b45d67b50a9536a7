"""On which route a model is tuned: microkernels by their defaults are put into it first, before any dispatch is ranked.

They are tried on the route where they can compute most of the model's arithmetic. Then dispatches are tuned on the
route that promises most, with or without kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import PREPROCESSED
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import Library, Place
from autotuner.jobs.model.parts import PartSearch, executable_target_of
from autotuner.jobs.model.routes import RouteRace
from autotuner.jobs.model.shares import measure_shares
from autotuner.jobs.model.whole import WholeModel
from autotuner.problems import Attention, Problem
from autotuner.programs.structure import ModelStructure, by_work
from autotuner.system import process
from autotuner.system.text import count
from autotuner.targets import PLAIN

KERNELS = "kernels"
_ALIKE = 0.02
"""Of the model's arithmetic: routes whose kernels compute more alike than that are told apart by their times, and
kernels that compute all but that leave nothing to what flags are for."""
_GAIN = 0.5
"""What tuning is thought to save of what can be tuned, when routes are compared for it."""
_COMPARED = 3
"""So many routes are ranked, at most."""
_AS_MUCH = 0.9
"""Of what kernels compute on the first route."""


@dataclass(frozen=True)
class FirstKernels:
    """A route on which kernels were put into the model, and what came of it."""

    parts: PartSearch
    on: Contestant
    made: Contestant | None

    @property
    def us(self) -> float:
        """Of the model with them."""
        return self.made.us or math.inf if self.made else math.inf

    @property
    def gains(self) -> bool:
        """The model is faster with them than without, on the same route."""
        return self.us < (self.on.us or math.inf)


@dataclass(frozen=True)
class KernelRoute:
    """A route on which kernels can be tried, and what they compute there."""

    tried: Contestant
    flops: float


def try_kernels(race: RouteRace, plain: ModelStructure, *, kept: float) -> FirstKernels | None:
    """The model with every kernel that fits, where they compute most of it; None where that was not tried.

    `kept` are the seconds that must be left for a verdict.
    """
    context = race.context
    if not context.options.microkernels:
        return None
    with context.clocked("space"):
        library = Library.open(context, executable_target_of(context, plain))
        routes = kernel_routes(race.tried, library.places, plain=plain.preprocessed, flops=plain.flops)
    if not routes:
        context.note("no microkernel fits any operation of the model")
    found: FirstKernels | None = None
    for one in attempts(routes):
        whole = WholeModel(unranked(context, one.tried, plain), one.tried, race, kept)
        if found is not None and not whole.has_time(one.tried.module.seconds):
            break
        new = FirstKernels(whole.parts, one.tried, kernels_first(whole, library))
        found = new if found is None or new.us < found.us else found
        if new.made is not None:
            context.note(_told(new, one, plain))
        # On a GPU the rest of a model is launches: what another route fuses beside the kernels is told by trying it.
        if new.us < race.best_us and context.target.backend.on_host:
            break
    return found


def kernel_routes(
    tried: Sequence[Contestant], places: Callable[[str], Sequence[Place]], *, plain: str, flops: float
) -> list[KernelRoute]:
    """Where kernels are tried, in this order: the largest part of the arithmetic first, then the shortest time.

    One that computes something wrong is among them: kernels may take the place of what is wrong there. `places` reads a
    preprocessed program, `plain` is the default's, `flops` are the model's.
    """
    known: dict[str, float] = {}
    found = []
    for one in tried:
        if one.us is None or one.build is None:
            continue
        text = plain if one.route == PLAIN else one.build.dumped[PREPROCESSED][0]
        if text not in known:  # most routes have the same program at this point
            known[text] = float(sum(_flops(place.problem) * place.calls for place in places(text)))
        found.append(KernelRoute(one, known[text]))
    return in_order(found, flops=flops)


def in_order(routes: Sequence[KernelRoute], *, flops: float) -> list[KernelRoute]:
    """Without those on which no kernel fits.

    A route that leaves operations as they were written comes before one that rewrites them. Where kernels compute
    nearly all of the model's `flops`, one that leaves their form alone comes first: how fast it is without them tells
    nothing, and tiles for convolutions are packed for poolings too.
    """
    most = max((one.flops for one in routes), default=0.0)

    def key(one: KernelRoute) -> tuple[int, bool, int, float]:
        behind = int((most - one.flops) / (_ALIKE * most))
        forms = one.tried.route.forms if one.flops >= (1 - _ALIKE) * flops else 0
        return behind, one.tried.route.rewrites, forms, one.tried.us or math.inf

    return sorted((one for one in routes if one.flops > 0), key=key)


def attempts(routes: Sequence[KernelRoute]) -> list[KernelRoute]:
    """The first, and the fastest that is right and has about as many of them."""
    right = [one for one in routes[1:] if one.tried.ok]
    alike = [one for one in right if one.flops >= _AS_MUCH * routes[0].flops]
    second = sorted(alike, key=lambda one: one.tried.us or math.inf) or right
    return [*routes[:1], *second[:1]]


def kernels_first(whole: WholeModel, library: Library) -> Contestant | None:
    """All microkernels that fit, by their defaults, in one compile: where they gain most is searched after that."""
    found: Contestant | None = None
    try:
        with process.until(whole.ends):
            if kernels := whole.parts.find_kernels(library):
                found = whole.make(f"{KERNELS}-{whole.on.route.name}", (), kernels)
    except OutOfTimeError:
        whole.context.note("no time to compile the model with microkernels: a longer --budget would try them")
    return whole.timed(found) if found else None


def unranked(context: Context, one: Contestant, plain: ModelStructure) -> PartSearch:
    """The parts of a route by their arithmetic."""
    structure = plain if one.route == PLAIN or one.build is None else context.structure(one.build)
    return PartSearch(context, one.route, structure, by_work(structure.groups))


def worth_tuning(race: RouteRace, plain: ModelStructure, kernels: FirstKernels | None) -> tuple[PartSearch, Contestant]:
    """The parts of the route that promises most, all in all.

    Where the model with microkernels by their defaults leads, its route is tuned, and no other is ranked.
    """
    # Where the default is wrong and no route is right, other code for its dispatches may be.
    right = race.right or race.tried[:1]
    best, alone = right[0].us or math.inf, not race.context.target.backend.on_host
    if kernels is not None and kernels.us < best:
        if not alone:  # a ranking of code that kernels have replaced is not worth so much time
            _rank(race, kernels.parts, kernels.on)
        return kernels.parts, kernels.on
    found: list[tuple[float, PartSearch, Contestant]] = []
    # Tuning saves no more than it is thought to: what is further behind cannot come out first.
    for one in [one for one in right if (1 - _GAIN) * (one.us or math.inf) <= best][: 1 if alone else _COMPARED]:
        same = kernels is not None and kernels.on.route == one.route
        parts = kernels.parts if kernels is not None and same else unranked(race.context, one, plain)
        _rank(race, parts, one)
        found.append(((one.us or math.inf) * (1 - _GAIN * parts.tunable), parts, one))
    _, parts, one = min(found, key=lambda item: item[0])
    return parts, one


def _rank(race: RouteRace, parts: PartSearch, one: Contestant) -> None:
    parts.rank(measure_shares(race.context, one.route, parts.structure, one.build))


def _flops(problem: Problem) -> int:
    """As the model's are counted: with what a mask hides."""
    return replace(problem, causal=False).flops if isinstance(problem, Attention) else problem.flops


def _told(found: FirstKernels, one: KernelRoute, plain: ModelStructure) -> str:
    part = min(one.flops / plain.flops, 1.0) if plain.flops else 0.0
    kernels = len(found.made.kernels) if found.made else 0
    time = f"{found.us / 1000:.3f} ms" if math.isfinite(found.us) else "not timed"
    return f"route {one.tried.route.name} with {count(kernels, 'microkernel')} ({part:.0%} of the arithmetic): {time}"
