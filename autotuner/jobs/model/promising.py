"""Which routes of a model are worth the time that tuning their dispatches takes, and how much of it each gets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotuner.iree.run import Invocation
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import Dispatches, measure_shares
from autotuner.jobs.model.first_kernels import FirstKernels
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.programs.shares import Shares
from autotuner.programs.structure import ModelStructure
from autotuner.targets import PLAIN

_GAIN = 0.5
"""What tuning is thought to save of what can be tuned, when routes are compared for it."""
_SECOND_WITHIN = 1.2
_SECOND_BUDGET = 600.0
"""A second route is tuned when it promises nearly as much and at least so many seconds are left."""
_FIRST_SHARE = 0.6
_KERNEL_SHARE = 0.5
"""Of the time for dispatches, where microkernels need a route of their own."""

Chosen = tuple[Dispatches, RouteOutcome, float]
"""A route's dispatches, the route, and the seconds for tuning them."""


def worth_tuning(
    context: Context,
    tried: Sequence[RouteOutcome],
    call: Invocation,
    plain: ModelStructure,
    *,
    reserve: float,
    kernels: FirstKernels | None = None,
) -> list[Chosen]:
    """The route that promises most, all in all, and a second when it promises nearly as much.

    `reserve` are the seconds that compiling the tuned model and racing it will take, `kernels` is the route on which
    microkernels are in the model by their defaults. Where that model leads, its route is tuned, and no other is ranked.
    """
    right = [t for t in tried if t.ok]
    # Where the default is wrong and no route is right, other code for its dispatches may be.
    ranked = sorted(right or tried[:1], key=lambda t: t.us or math.inf)
    best = ranked[0].us or math.inf
    if kernels is not None and kernels.us < best:
        if not context.stages.alone:  # a ranking of code that kernels have replaced is not worth so much time
            kernels.dispatches.rank(_shares(context, kernels.tried, kernels.dispatches.structure, call))
        return [(kernels.dispatches, kernels.tried, max(context.clock.left - reserve, 0.0))]
    # Tuning saves no more than it is thought to: what is further behind cannot come out first.
    promising = [t for t in ranked if (1 - _GAIN) * (t.us or math.inf) <= best][:3]
    found: list[tuple[float, Dispatches, RouteOutcome]] = []
    for one in promising:
        if found and not _worth_ranking(found[0][1].shares, left=context.clock.left - reserve):
            break
        dispatches = _dispatches(context, one, call, plain, kernels)
        found.append(((one.us or math.inf) * (1 - _GAIN * dispatches.tunable), dispatches, one))
    found.sort(key=lambda item: item[0])
    left = max(context.clock.left - reserve, 0.0)
    _, first, route = found[0]
    if kernels is not None and _own_route(kernels, best=best, first=first):
        # As above: kernels are searched by their arithmetic then.
        if not context.stages.alone and kernels.dispatches.shares.estimated:
            kernels.dispatches.rank(_shares(context, kernels.tried, kernels.dispatches.structure, call))
        kernels.dispatches.kernels_only = True
        return [(kernels.dispatches, kernels.tried, _KERNEL_SHARE * left), (first, route, (1 - _KERNEL_SHARE) * left)]
    rivals = [f for f in found[1:] if f[0] <= _SECOND_WITHIN * found[0][0] and f[1].tunable > 0]
    if not rivals or left < _SECOND_BUDGET:
        return [(first, route, left)]
    _, second, other = rivals[0]
    return [(first, route, _FIRST_SHARE * left), (second, other, (1 - _FIRST_SHARE) * left)]


def _own_route(kernels: FirstKernels, *, best: float, first: Dispatches) -> bool:
    """Whether kernels that do not lead are worth a search on a route of their own."""
    return first is not kernels.dispatches and (1 - _GAIN) * kernels.us <= best


def _worth_ranking(first: Shares, *, left: float) -> bool:
    """Whether there is time to rank another route's dispatches: where each is timed alone, as much as to tune them."""
    return left >= (_SECOND_BUDGET if first.timed_alone else 0.0)


def _dispatches(
    context: Context, one: RouteOutcome, call: Invocation, plain: ModelStructure, kernels: FirstKernels | None
) -> Dispatches:
    if kernels is not None and kernels.tried.route == one.route:
        kernels.dispatches.rank(_shares(context, one, kernels.dispatches.structure, call))
        return kernels.dispatches
    structure = plain if one.route == PLAIN or one.build is None else context.structure(one.build)
    return Dispatches(context, one.route, structure, _shares(context, one, structure, call))


def _shares(context: Context, one: RouteOutcome, structure: ModelStructure, call: Invocation) -> Shares:
    return measure_shares(context, one.route, structure, one.build, call)
