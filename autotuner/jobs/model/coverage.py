"""On which route microkernels are tried: where they can compute most of the model's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotuner.iree.compile import PREPROCESSED
from autotuner.jobs.model.places import Place
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.problems import Attention, Problem
from autotuner.targets import PLAIN

_ALIKE = 0.02
"""Of the model's arithmetic: routes whose kernels compute more alike than that are told apart by their times."""
NEARLY_ALL = 0.98
"""Of the model's arithmetic: kernels that compute so much leave nothing to what flags are for."""


@dataclass(frozen=True)
class Coverage:
    """What kernels can compute of a program, as a spec finds it."""

    flops: float
    kernels: int
    """That have to be built for it."""

    @classmethod
    def of(cls, places: Sequence[Place]) -> Coverage:
        return cls(float(sum(_flops(place.problem) * place.calls for place in places)), len(places))

    def building(self, cores: int, *, each: float) -> float:
        """Seconds for building all of them, side by side."""
        return math.ceil(self.kernels / max(cores, 1)) * each


def _flops(problem: Problem) -> int:
    """As the model's are counted: with what a mask hides."""
    return replace(problem, causal=False).flops if isinstance(problem, Attention) else problem.flops


@dataclass(frozen=True)
class KernelRoute:
    """A route on which kernels can be tried."""

    tried: RouteOutcome
    coverage: Coverage


def kernel_routes(
    tried: Sequence[RouteOutcome], places: Callable[[str], Sequence[Place]], *, plain: str, flops: float
) -> list[KernelRoute]:
    """Where kernels are tried, in this order: the largest part of the arithmetic first, then the shortest time.

    A route that leaves operations as they were written comes before one that rewrites them. Where kernels compute
    nearly all of the model's `flops`, one that leaves their form alone comes first: how fast it is without them tells
    nothing, and tiles for convolutions are packed for poolings too. One that computes something wrong is among them:
    kernels may take the place of what is wrong there. `places` reads a preprocessed program, `plain` is the default's.
    """
    known: dict[str, Coverage] = {}
    found = []
    for one in tried:
        if one.us is None or one.build is None:
            continue
        text = plain if one.route == PLAIN else one.build.dumped[PREPROCESSED][0]
        if text not in known:  # most routes have the same program at this point
            known[text] = Coverage.of(places(text))
        found.append(KernelRoute(one, known[text]))
    return in_order(found, flops=flops)


def in_order(routes: Sequence[KernelRoute], *, flops: float) -> list[KernelRoute]:
    """Without those on which no kernel fits; `flops` are the model's."""
    most = max((one.coverage.flops for one in routes), default=0.0)

    def key(one: KernelRoute) -> tuple[int, bool, int, float]:
        behind = int((most - one.coverage.flops) / (_ALIKE * most))
        forms = one.tried.route.forms if one.coverage.flops >= NEARLY_ALL * flops else 0
        return behind, one.tried.route.rewrites, forms, one.tried.us or math.inf

    return sorted((one for one in routes if one.coverage.flops > 0), key=key)
