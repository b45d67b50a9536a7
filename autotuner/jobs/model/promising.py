"""Which routes of a model are worth the time that tuning their dispatches takes, and how much of it each gets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotuner.iree.run import Invocation
from autotuner.jobs.model.context import Context, ModelStructure
from autotuner.jobs.model.dispatches import Dispatches, measure_shares
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.shares import Shares
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
    context: Context, tried: Sequence[RouteOutcome], call: Invocation, plain: ModelStructure, *, reserve: float
) -> list[Chosen]:
    """The route that promises most, all in all, and a second when it promises nearly as much.

    `reserve` are the seconds that compiling the tuned model and racing it will take.
    """
    right = [t for t in tried if t.ok]
    # Where the default is wrong and no route is right, other code for its dispatches may be.
    ranked = sorted(right or tried[:1], key=lambda t: t.us or math.inf)
    # Tuning saves no more than it is thought to: what is further behind cannot come out first.
    promising = [t for t in ranked if (1 - _GAIN) * (t.us or math.inf) <= (ranked[0].us or 0.0)][:3]
    found: list[tuple[float, Dispatches, RouteOutcome]] = []
    for one in promising:
        if found and not _worth_ranking(found[0][1].shares, left=context.clock.left - reserve):
            break
        dispatches = _dispatches(context, one, call, plain)
        found.append(((one.us or math.inf) * (1 - _GAIN * dispatches.tunable), dispatches, one))
    found.sort(key=lambda item: item[0])
    left = max(context.clock.left - reserve, 0.0)
    _, first, route = found[0]
    if context.options.microkernels and route.route.rewrites and (own := _for_kernels(ranked)) is not None:
        only = _dispatches(context, own, call, plain, kernels_only=True)
        return [(only, own, _KERNEL_SHARE * left), (first, route, (1 - _KERNEL_SHARE) * left)]
    rivals = [f for f in found[1:] if f[0] <= _SECOND_WITHIN * found[0][0] and f[1].tunable > 0]
    if not rivals or left < _SECOND_BUDGET:
        return [(first, route, left)]
    _, second, other = rivals[0]
    return [(first, route, _FIRST_SHARE * left), (second, other, (1 - _FIRST_SHARE) * left)]


def _worth_ranking(first: Shares, *, left: float) -> bool:
    """Whether there is time to rank another route's dispatches: where each is timed alone, as much as to tune them."""
    return left >= (_SECOND_BUDGET if first.timed_alone else 0.0)


def _for_kernels(ranked: Sequence[RouteOutcome]) -> RouteOutcome | None:
    """The fastest route that leaves operations as microkernels know them."""
    return next((one for one in ranked if not one.route.rewrites), None)


def _dispatches(
    context: Context, one: RouteOutcome, call: Invocation, plain: ModelStructure, *, kernels_only: bool = False
) -> Dispatches:
    structure = plain if one.route == PLAIN or one.build is None else context.structure(one.build)
    shares = measure_shares(context, one.route, structure, one.build, call)
    return Dispatches(context, one.route, structure, shares, kernels_only=kernels_only)
