"""The plan for the end of a model's run: the race of whole models, its confirmation, the compile of what ships."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autotuner.iree.compile import Compiled
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.whole import Tuned
from autotuner.jobs.opening import MIN_TIME, SLOW_US, START_SECONDS
from autotuner.measure.blocks import LOOKS
from autotuner.measure.timeplan import Pace, TimePlan
from autotuner.tuning.first_plan import compile_seconds

COMPILED_AGAIN = 1.2
"""Of a compile as it took before: what ships is compiled once more, and read."""
READ_AGAIN = 0.1
"""The same of a route: its module is the one that was timed, and its flagfile is read as far as preprocessing."""
_NOTHING_AHEAD = 0.3
"""Of the budget: what is kept for the end while there is nothing to race."""
_CONFIRMING = 60.0
"""Seconds for timing the default once more, where the least number of blocks does not take longer."""


@dataclass(frozen=True)
class Took:
    """What the default and the best so far take, and one timing of the default in the race and in a fresh process."""

    default_us: float
    best_us: float
    timing: float
    isolated: float
    shipping: float
    """Seconds for proving what ships."""


def plan_of(took: Took, *, rivals: int, blocks: int) -> TimePlan:
    """For the race of whole models, its confirmation of at most so many blocks, and the compile of what ships."""
    race, confirm = _paces(took)
    most = min(blocks, int(_CONFIRMING / max(took.isolated, 1e-3)))
    # Fewer where the default alone would take minutes, and no fewer than a claim needs.
    blocks = max(most, min(LOOKS[0], blocks))
    return TimePlan(
        race,
        confirm,
        rivals=rivals,
        blocks=blocks,
        stock=rivals > 1,
        shipping=took.shipping,
        ahead=took.default_us / took.best_us if took.best_us else 1.0,
        known=1,
    )


def _paces(took: Took) -> tuple[Pace, Pace]:
    """In the race, and in fresh processes."""
    if took.default_us > SLOW_US:
        once = partial(Pace.once, best_us=took.best_us, lasting=MIN_TIME)
        return once(took.timing), once(took.isolated, starting=START_SECONDS)
    of = partial(Pace.of, baseline_us=took.default_us, best_us=took.best_us, lasting=MIN_TIME)
    return of(took.timing), of(took.isolated)


def end_plan(
    context: Context,
    tried: Sequence[RouteOutcome],
    *,
    tuned: Sequence[Tuned] = (),
    made: float = 0.0,
) -> TimePlan:
    """By what the routes took that were tried, and what tuning or microkernels have made of them; `made` are the
    seconds of the compile of a model that may ship with files beside its flags: that is compiled once more, and a route
    is not."""
    good = [t.us for t in tried if t.ok and t.us is not None] + [one.us for one in tuned if one.us is not None]
    builds = [one.build for one in tuned]
    took = Took(
        default_us=(tried[0].us or 0.0) if tried else 0.0,
        best_us=min(good, default=0.0),
        timing=context.timing_seconds,
        isolated=context.isolated_seconds,
        shipping=max(COMPILED_AGAIN * made, READ_AGAIN * longest_compile(context, tried, also=builds)),
    )
    return plan_of(took, rivals=2 if len(good) > 1 else 1, blocks=context.options.effort.confirm_blocks)


def kept_now(plan: TimePlan, budget: float, *, ahead: bool) -> float:
    """Seconds of a budget that routes and dispatches leave for the end.

    As long as nothing is ahead of the default there is no race: of a short budget less is kept, though enough for the
    shortest way to a verdict on what they may still find.
    """
    kept = plan.kept_of(budget)
    return kept if ahead else min(kept, max(plan.least, _NOTHING_AHEAD * budget))


def longest_compile(context: Context, tried: Sequence[RouteOutcome], *, also: Sequence[Compiled] = ()) -> float:
    """Seconds of the compile of a route, or of another model that may ship."""
    reading = context.run.account.seconds.get("space", 0.0)
    builds = [*also, *(t.build for t in tried if t.build)]
    return compiling_seconds([build for build in builds if build.ok], reading=reading)


def compiling_seconds(builds: Sequence[Compiled], *, reading: float) -> float:
    """The longest, here and now: what is in the cache may have been compiled on a busier machine.

    `reading` are the seconds that the compiler took in this run to read the program.
    """
    now = [build for build in builds if not build.cached]
    return max((compile_seconds(build, reading) for build in now or builds), default=0.0)
