"""Microkernels by their defaults: they are put into the model first, before any dispatch is ranked.

Where they compute most of the model's arithmetic by IREE's default, that is tried before all routes: a compile of a
large model takes a minute, some routes take three, and no flag gains as much. Else they are tried on the route where
they can compute most, and on the fastest one. Where the model leads with them, its route is tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

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
"""The part of the arithmetic that kernels compute where they are tried before all routes."""
Tried = tuple[WholeModel, Contestant | None]
"""The fastest model with kernels, and where it was made."""


@dataclass
class KernelTrials:
    """Tries kernels by their defaults on some routes."""

    race: RouteRace
    plain: ModelStructure
    library: Library
    found: Tried | None = None
    """None: none was tried, or none fits."""

    @classmethod
    def open(cls, race: RouteRace, plain: ModelStructure) -> KernelTrials | None:
        """None where the user wants no kernels."""
        if not race.context.options.microkernels:
            return None
        with race.context.clocked("space"):
            return cls(race, plain, Library.open(race.context, executable_target_of(race.context, plain)))

    @cached_property
    def computes_most(self) -> bool:
        """Whether kernels compute most of the arithmetic of IREE's default."""
        with self.race.context.clocked("space"):
            computed = sum(place.problem.flops * place.calls for place in self.library.places(self.plain.preprocessed))
        return computed > _MOST * self.plain.flops

    @property
    def come_first(self) -> bool:
        """Whether they are tried before all routes: IREE's default runs, and they compute most of its arithmetic."""
        return self.race.tried[0].us is not None and self.computes_most

    def early(self, *, ends: float) -> None:
        """By IREE's default, where they come first."""
        if self.come_first:
            self._try([self.race.tried[0]], ends=ends)

    def after_routes(self, *, ends: float) -> Tried | None:
        """The fastest model with every kernel that fits.

        What is left at the moment at which it `ends` is for a verdict.
        """
        with self.race.context.clocked("space"):
            routes = kernel_routes(self.race.tried, self.library.places, plain=self.plain.preprocessed)
        if not routes:
            self.race.context.note("no microkernel fits any operation of the model")
        self._try([one for one in routes if self.found is None or one.id != self.found[0].on.id], ends=ends)
        return self.found

    def _try(self, routes: Sequence[Contestant], *, ends: float) -> None:
        race, context = self.race, self.race.context
        for one in routes:
            # On a GPU the rest of a model is launches: what another route fuses beside kernels is told by trying it.
            leads = self.found is not None and _us(self.found[1]) < race.best_us and context.target.backend.on_host
            if self.found is not None and (leads or not context.clock.fits(one.module.seconds, before=ends)):
                break
            whole = WholeModel(unranked(context, one, self.plain), one, race, ends)
            made = kernels_first(whole, self.library)
            if self.found is None or _us(made) < _us(self.found[1]):
                self.found = whole, made
            if made is not None:
                kernels = count(len(made.kernels), "microkernel")
                context.note(f"route {one.route.name} with {kernels}: {_us(made) / 1000:.3f} ms")


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
