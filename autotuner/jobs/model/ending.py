"""The plan for the end of a model's run: the race of whole models, its confirmation, the compile of what ships."""

from __future__ import annotations

from collections.abc import Sequence

from autotuner.iree.compile import Compiled
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.whole import Tuned
from autotuner.jobs.opening import MIN_TIME
from autotuner.measure.schedule import Schedule
from autotuner.tuning.first_plan import compile_seconds

COMPILED_AGAIN = 1.2
"""Of a compile as it took before: what ships is compiled once more, and read."""
READ_AGAIN = 0.1
"""The same of a route: its module is the one that was timed, and its flagfile is read as far as preprocessing."""
_NOTHING_AHEAD = 0.3
"""Of the budget: what is kept for the end while there is nothing to race."""


def end_schedule(
    context: Context,
    tried: Sequence[RouteOutcome],
    *,
    tuned: Sequence[Tuned] = (),
    made: float = 0.0,
) -> Schedule:
    """By what the routes took that were tried, and what tuning or microkernels have made of them; `made` are the
    seconds of the compile of a model that may ship with files beside its flags: that is compiled once more, and a route
    is not."""
    good = [t.us for t in tried if t.ok and t.us is not None] + [one.us for one in tuned if one.us is not None]
    builds = [one.build for one in tuned]
    default = (tried[0].us or 0.0) if tried else 0.0
    return Schedule(
        context.clock,
        context.timing_seconds,
        context.isolated_seconds,
        baseline_us=default,
        best_us=min(good, default=default),
        lasting=MIN_TIME,
        entrants=2 if len(good) > 1 else 1,
        shipping=max(COMPILED_AGAIN * made, READ_AGAIN * longest_compile(context, tried, also=builds)),
    )


def kept_now(schedule: Schedule, budget: float, *, ahead: bool) -> float:
    """Seconds of a budget that routes and dispatches leave for the end.

    As long as nothing is ahead of the default there is no race: of a short budget less is kept, though enough for the
    shortest way to a verdict on what they may still find.
    """
    kept = schedule.kept_of(budget)
    return kept if ahead else min(kept, max(schedule.least, _NOTHING_AHEAD * budget))


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
