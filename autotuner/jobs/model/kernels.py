"""Microkernels by their defaults: they are put into the model first, before any dispatch is ranked.

Where they compute most of the model's arithmetic by IREE's default, that is tried before most routes: a compile of a
large model takes a minute, and no flag gains as much. Else they are tried on the route where they can compute most, and
on the fastest one. Where the model leads with them, its route is tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import PREPROCESSED
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.entries import Library, Place
from autotuner.jobs.model.parts import EXPECTED_GAIN, PartSearch, executable_target_of, unranked
from autotuner.jobs.model.routes import RouteRace
from autotuner.jobs.model.shares import measure_shares
from autotuner.jobs.model.whole import WholeModel
from autotuner.programs.structure import ModelStructure, from_statistics
from autotuner.system import process
from autotuner.system.text import count
from autotuner.targets import PLAIN

KERNELS = "kernels"
_MOST = 0.5
"""The part of the arithmetic that kernels compute where they are tried before most routes."""
Tried = tuple[WholeModel, Contestant | None]
"""The fastest model with kernels, and where it was made."""


def kernels_early(race: RouteRace, plain: ModelStructure, *, ends: float) -> Tried | None:
    """The default with every kernel that fits; None where these compute little, or it does not run."""
    default = race.tried[0]
    if not race.context.options.microkernels or default.us is None:
        return None
    library = _library(race, plain)
    with race.context.clocked("space"):
        computed = sum(place.problem.flops * place.calls for place in library.places(plain.preprocessed))
    return _tried(race, plain, library, [default], ends=ends) if computed > _MOST * plain.flops else None


def try_kernels(race: RouteRace, plain: ModelStructure, *, ends: float, early: Tried | None = None) -> Tried | None:
    """The fastest model with every kernel that fits, of which one may be there already; None where none fits.

    What is left at the moment at which it `ends` is for a verdict.
    """
    context = race.context
    if not context.options.microkernels:
        return None
    library = _library(race, plain)
    with context.clocked("space"):
        routes = kernel_routes(race.tried, library.places, plain=plain.preprocessed)
    if not routes:
        context.note("no microkernel fits any operation of the model")
    others = [one for one in routes if early is None or one.id != early[0].on.id]
    return _tried(race, plain, library, others, ends=ends, found=early)


def _library(race: RouteRace, plain: ModelStructure) -> Library:
    with race.context.clocked("space"):
        return Library.open(race.context, executable_target_of(race.context, plain))


def _tried(
    race: RouteRace,
    plain: ModelStructure,
    library: Library,
    routes: Sequence[Contestant],
    *,
    ends: float,
    found: Tried | None = None,
) -> Tried | None:
    context = race.context
    for one in routes:
        # On a GPU the rest of a model is launches: what another route fuses beside the kernels is told by trying it.
        leads = found is not None and _us(found[1]) < race.best_us and context.target.backend.on_host
        if found is not None and (leads or not context.clock.fits(one.module.seconds, before=ends)):
            break
        whole = WholeModel(unranked(context, one, plain), one, race, ends)
        made = kernels_first(whole, library)
        if found is None or _us(made) < _us(found[1]):
            found = whole, made
        if made is not None:
            kernels = count(len(made.kernels), "microkernel")
            context.note(f"route {one.route.name} with {kernels}: {_us(made) / 1000:.3f} ms")
    return found


def kernel_routes(
    tried: Sequence[Contestant], places: Callable[[str], Sequence[Place]], *, plain: str
) -> list[Contestant]:
    """Where kernels are tried: where they compute most of the arithmetic, as early as it was tried (the default before
    all); then the fastest of the right routes on which they compute most.

    The first of these may be wrong: kernels may take the place of what is wrong there. `places` reads a preprocessed
    program, `plain` is the default's.
    """
    known: dict[str, int] = {}
    flops: dict[str, int] = {}
    for one in tried:
        if one.us is None or one.build is None:
            continue
        text = plain if one.route == PLAIN else one.build.dumped[PREPROCESSED][0]
        if text not in known:  # most routes have the same program at this point
            known[text] = sum(place.problem.flops * place.calls for place in places(text))
        flops[one.id] = known[text]
    fitting = [one for one in tried if flops.get(one.id)]
    first = sorted(fitting, key=lambda one: -flops[one.id])[:1]
    second = sorted((one for one in fitting if one.ok and one not in first), key=lambda one: (-flops[one.id], _us(one)))
    return [*first, *second[:1]]


def kernels_first(whole: WholeModel, library: Library) -> Contestant | None:
    """All microkernels that fit, by their defaults, in one compile: where they gain most is searched after that."""
    kernels = whole.parts.find_kernels(library)
    try:
        with process.until(whole.ends):
            return whole.make(f"{KERNELS}-{whole.on.route.name}", (), kernels) if kernels else None
    except OutOfTimeError:
        whole.context.note("no time to compile the model with microkernels")
        return None


def worth_tuning(race: RouteRace, plain: ModelStructure) -> tuple[PartSearch, Contestant]:
    """The parts of the route that promises most, ranked: what can be tuned of it, by arithmetic, gains something."""
    # Where the default is wrong and no route is right, other code for its dispatches may be.
    right = race.right or race.tried[:1]
    near = [one for one in right if (1 - EXPECTED_GAIN) * _us(one) <= _us(right[0])]
    found = [(unranked(race.context, one, plain), one) for one in near]
    parts, on = min(found, key=lambda pair: _us(pair[1]) * (1 - EXPECTED_GAIN * pair[0].tunable))
    parts.rank(measure_shares(race.context, on.route, parts.structure, on.build))
    return parts, on


def rank_beside_kernels(parts: PartSearch, on: Contestant) -> None:
    """By the runtime's statistics; without, arithmetic does for code that kernels have replaced."""
    found = from_statistics(parts.context.statistics(on.build))
    if found is not None:
        parts.rank(found)


def _us(one: Contestant | None) -> float:
    return one.us or math.inf if one is not None else math.inf
